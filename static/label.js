/* Labelling by keyboard, and the next image loaded ahead. */

(() => {
  "use strict";

  const EDITABLE = "input:not([type=hidden]), textarea, select, [contenteditable]";
  let ahead = null;

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches?.(EDITABLE)) return;
    const help = document.getElementById("help");
    if (event.key === "?") {
      if (help.open) help.close();
      else help.showModal();
      return;
    }
    if (help.open) return;
    const key = CSS.escape(event.key.toLowerCase());
    const button = document.querySelector(`[data-key="${key}"]`);
    if (!button) return;
    event.preventDefault();
    button.click();
  }

  function loadAhead() {
    const form = document.querySelector("[data-next-image]");
    if (!form || ahead?.getAttribute("src") === form.dataset.nextImage) return;
    ahead = new Image();
    ahead.src = form.dataset.nextImage;
  }

  document.addEventListener("keydown", press);
  document.addEventListener("htmx:after:swap", loadAhead);
  loadAhead();
})();
