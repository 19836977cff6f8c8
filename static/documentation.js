// The documentation of the API: Swagger UI without what a keyboard cannot reach in it,
// and with names for what a screen reader would meet without one.

const withinReach = () => ({
  wrapComponents: {
    // The path of a call lies within a button, where a link of its own is lost.
    DeepLink: (_, { React }) => ({ text }) => React.createElement("span", null, text),
    // There is one server, the one of this page: a choice of one is none.
    ServersContainer: () => () => null,
  },
});

const NAMES = {
  "textarea.body-param__text": "Body of the request",
  ".copy-to-clipboard button": "Copy",
  ".close-modal": "Close",
};

const giveNames = () => {
  for (const [found, name] of Object.entries(NAMES)) {
    for (const one of document.querySelectorAll(`${found}:not([aria-label])`)) {
      one.setAttribute("aria-label", name);
    }
  }
  // Each says that it is a region, one of many without a name, and no table.
  for (const table of document.querySelectorAll("#swagger-ui table[role]")) {
    table.removeAttribute("role");
  }
};

new MutationObserver(giveNames).observe(
  document.getElementById("swagger-ui"),
  { childList: true, subtree: true },
);

window.ui = SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  validatorUrl: null,
  // Its colours are set in the page; ours follow the theme.
  syntaxHighlight: false,
  plugins: [withinReach],
});
