/* Find: a dialog over the page, opened by Ctrl-K, by / or by its link, that shows what
   the page of that name finds.  Arrows go through it, Enter opens, Escape closes. */

(() => {
  "use strict";

  const palette = document.getElementById("palette");
  if (!palette) return;
  const EDITABLE = "input, textarea, select, [contenteditable]";
  const field = palette.querySelector("input");
  const links = () => [...palette.querySelectorAll("#palette-found a")];

  function open(event) {
    event.preventDefault();
    if (!palette.open) palette.showModal();
    field.select();
    // An empty field finds every page.
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function press(event) {
    const isTyped = event.target.matches?.(EDITABLE);
    const isChord = event.ctrlKey || event.metaKey;
    if (isChord && !event.altKey && event.key.toLowerCase() === "k") open(event);
    else if (isChord || event.altKey || event.repeat || palette.open) return;
    else if (event.key === "/" && !isTyped && !document.querySelector("dialog[open]")) open(event);
  }

  function step(event) {
    const places = [field, ...links()];
    const here = places.indexOf(document.activeElement);
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by && here >= 0) {
      event.preventDefault();
      places[(here + by + places.length) % places.length].focus();
    } else if (event.key === "Enter" && here === 0) {
      // Who is faster than the answer gets the page of Find.
      if (document.getElementById("found")?.dataset.text !== field.value.trim()) return;
      event.preventDefault();
      links()[0]?.click();
    } else if (here > 0 && event.key.length === 1 && !event.ctrlKey && !event.metaKey) {
      field.focus();
    }
  }

  document.addEventListener("keydown", press);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-find]") && event.button === 0) open(event);
    else if (event.target === palette) palette.close();
  });
  palette.addEventListener("keydown", step);
  palette.addEventListener("htmx:after:swap", () => {
    palette.querySelector("[role=status]").textContent = `${links().length} found`;
  });
})();
