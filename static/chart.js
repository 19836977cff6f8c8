/* Draws the chart of every element with a data-chart-url, and keeps it fresh.

     <div data-chart-url="/path/to/chart.json"></div>

   The specification is fetched with the layout and the theme that fit the page,
   and again when these change or when `tracker:refresh` is dispatched on document:
   when labels have arrived, or when a part of the page with a chart was replaced.
   The server then says so in a word if the chart is still the same. */

(() => {
  "use strict";

  const NARROW_BELOW = 640;
  const PATIENCE_MS = 30000;
  const SETTLING_MS = 150;

  /* No eval and no style element, neither of which the page's policy allows. */
  const OPTIONS = {
    actions: false,
    ast: true,
    defaultStyle: false,
    mode: "vega-lite",
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
  };

  const STYLE = `
    .tracker-chart svg { display: block; width: 100%; height: auto; }
    .tracker-chart[data-layout="wide"] svg { max-width: 1040px; }
    .tracker-chart[data-layout="narrow"] svg { max-width: 420px; }
    #vg-tooltip-element {
      position: fixed; z-index: 1080; visibility: hidden; pointer-events: none;
      padding: 0.5rem 0.75rem; border-radius: 6px; font-size: 0.8125rem;
      font-variant-numeric: tabular-nums;
      color: var(--ink, CanvasText);
      background: var(--surface, Canvas);
      border: 1px solid var(--line, GrayText);
      box-shadow: 0 2px 10px rgb(0 0 0 / 20%);
    }
    #vg-tooltip-element.visible { visibility: visible; }
    #vg-tooltip-element td { padding: 0.0625rem 0; }
    #vg-tooltip-element td.key { padding-right: 0.75rem; opacity: 0.75; }
  `;

  const states = new WeakMap();
  const darkScheme = matchMedia("(prefers-color-scheme: dark)");
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) fitSoon(target);
  });

  /* A window that is being resized, printed or photographed passes through sizes
     that nobody looks at, and an element that is hidden has none. */
  function fitSoon(host) {
    const state = states.get(host);
    clearTimeout(state.settling);
    state.settling = setTimeout(() => {
      if (host.clientWidth && state.layout !== layoutOf(host)) draw(host);
    }, SETTLING_MS);
  }

  function layoutOf(host) {
    const width = host.clientWidth || window.innerWidth;
    return width < NARROW_BELOW ? "narrow" : "wide";
  }

  function themeOfPage() {
    const chosen = document.documentElement.dataset.theme;
    if (chosen === "light" || chosen === "dark") return chosen;
    return darkScheme.matches ? "dark" : "light";
  }

  function urlOf(host, layout) {
    const url = new URL(host.dataset.chartUrl, location.href);
    if (url.origin !== location.origin) throw new Error("it is on another site");
    url.searchParams.set("layout", layout);
    url.searchParams.set("theme", themeOfPage());
    return url.href;
  }

  /* Returns nothing where the server says that *known* is still what it has. */
  async function fetchChart(url, known) {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const headers = { Accept: "application/json" };
    if (known) headers["If-None-Match"] = known;
    const response = await fetch(url, { headers, signal }).catch(() => {
      const late = signal.aborted;
      throw new Error(late ? "the server took too long" : "the server is out of reach");
    });
    if (response.status === 304) return null;
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return { text: await response.text(), tag: response.headers.get("ETag") };
  }

  async function redraw(host, state) {
    state.layout = layoutOf(host);
    state.theme = themeOfPage();
    const url = urlOf(host, state.layout);
    const found = await fetchChart(url, url === state.url ? state.tag : null);
    if (found && (url !== state.url || found.text !== state.text)) {
      const { text, tag } = found;
      const spec = fitToPage(JSON.parse(text), host);
      /* Drawn aside and then put in place whole, so that nothing flickers. */
      const stage = document.createElement("div");
      stage.className = "tracker-chart";
      stage.dataset.layout = state.layout;
      const drawn = await window.vegaEmbed(stage, spec, OPTIONS);
      /* Afterwards, because Vega writes over both. */
      stage.setAttribute("role", "img");
      stage.setAttribute("aria-label", spec.description);
      stage.querySelector("svg").setAttribute("aria-hidden", "true");
      host.replaceChildren(stage);
      hideTooltip();
      state.drawn?.finalize();
      Object.assign(state, { drawn, url, text, tag });
    }
    host.querySelector(".tracker-chart-note")?.remove();
  }

  function fitToPage(spec, host) {
    spec.background = "transparent";
    spec.padding = 0;
    /* What the page says already. */
    if ("chartUntitled" in host.dataset) delete spec.title;
    spec.config.font = getComputedStyle(host).fontFamily;
    return spec;
  }

  /* A column that goes away under the pointer never says that the pointer left. */
  function hideTooltip() {
    document.getElementById("vg-tooltip-element")?.classList.remove("visible");
  }

  function sayWhy(host, state, error) {
    const note =
      host.querySelector(".tracker-chart-note") ?? document.createElement("p");
    note.className = "tracker-chart-note text-secondary";
    note.setAttribute("role", "status");
    const isJunk = error instanceof SyntaxError;
    const reason = isJunk ? "the server sent something else" : error.message;
    const what = state.drawn ? "The chart is out of date" : "The chart cannot be drawn";
    note.textContent = `${what}: ${reason}. Reload the page to try again.`;
    host.append(note);
  }

  async function draw(host) {
    if (!states.has(host)) {
      states.set(host, {});
      sizes.observe(host);
    }
    const state = states.get(host);
    state.isWanted = true;
    if (state.isBusy) return;
    state.isBusy = true;
    host.setAttribute("aria-busy", "true");
    while (state.isWanted) {
      state.isWanted = false;
      try {
        await redraw(host, state);
      } catch (error) {
        sayWhy(host, state, error);
      }
    }
    host.removeAttribute("aria-busy");
    state.isBusy = false;
  }

  function drawAll() {
    document.querySelectorAll("[data-chart-url]").forEach(draw);
  }

  /* The theme of the page is also set to what it is already. */
  function changeTheme() {
    for (const host of document.querySelectorAll("[data-chart-url]")) {
      if (states.get(host)?.theme !== themeOfPage()) draw(host);
    }
  }

  function begin() {
    /* A constructed sheet is not an inline style, and the policy allows it. */
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    new MutationObserver(changeTheme).observe(document.documentElement, {
      attributeFilter: ["data-theme"],
    });
    darkScheme.addEventListener("change", changeTheme);
    document.addEventListener("tracker:refresh", drawAll);
    drawAll();
  }

  if (document.readyState === "loading") {
    document.addEventListener("DOMContentLoaded", begin);
  } else {
    begin();
  }
})();
