/* Before the first paint: light or dark as chosen here, else as the system is, and
   no buttons that only pages without scripts need. */

(() => {
  "use strict";

  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem("tracker-theme");
    } catch {
      return null;
    }
  }

  function apply() {
    const theme = chosen() ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = theme;
    const button = document.querySelector("[data-theme-toggle]");
    button?.setAttribute("aria-pressed", String(theme === "dark"));
  }

  function toggle() {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("tracker-theme", theme);
    } catch {
      /* A browser that keeps nothing still changes this page. */
      root.dataset.theme = theme;
      return;
    }
    apply();
  }

  root.classList.add("has-scripts");
  apply();
  dark.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("[data-theme-toggle]");
    // The page of one query has none.
    if (button) button.hidden = false;
    button?.addEventListener("click", toggle);
    // A row of tabs that scrolls begins with the one that is shown.
    const tab = document.querySelector(".tabs [aria-current]");
    tab?.parentElement.scrollTo({ left: tab.offsetLeft - tab.parentElement.clientWidth / 3 });
    apply();
  });
})();
