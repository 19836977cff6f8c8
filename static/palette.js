/* Find: a dialog over the page, opened by Ctrl-K, by / or by its link, that shows what
   the page of that name finds.  Arrows go through it, Enter opens, Escape closes.
   L opens what is to be labelled, and G with a letter a tab; the page of the account
   switches single keys off. */

(() => {
  "use strict";

  const palette = document.getElementById("palette");
  if (!palette) return;
  const EDITABLE = "input, textarea, select, [contenteditable]";
  const field = palette.querySelector("input");
  const STORE = "tracker-keys";
  const choice = document.querySelector("[data-keys-choice]");
  // G waits for a letter.
  let isGoing = false;
  const links = () => [...palette.querySelectorAll("#palette-found a")];

  function open(event) {
    event.preventDefault();
    if (!palette.open) palette.showModal();
    field.select();
    ask();
  }

  /* An empty field finds every page. */
  function ask() {
    field.dispatchEvent(new Event("input", { bubbles: true }));
  }

  function areKeysOff() {
    try {
      return localStorage.getItem(STORE) === "off";
    } catch {
      return false;
    }
  }

  function press(event) {
    const isTyped = event.target.matches?.(EDITABLE);
    const isChord = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (isChord && !event.altKey && key === "k") open(event);
    else if (isChord || event.altKey || event.repeat || isTyped) return;
    else if (document.querySelector("dialog[open]") || areKeysOff()) return;
    else if (key === "/" || key === "?") open(event);
    else go(isGoing ? `g${key}` : key);
  }

  function go(keys) {
    isGoing = keys === "g";
    document.querySelector(`main [data-go="${CSS.escape(keys)}"]`)?.click();
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

  if (choice) {
    const box = choice.querySelector("input");
    choice.hidden = false;
    box.checked = !areKeysOff();
    box.addEventListener("change", () => localStorage.setItem(STORE, box.checked ? "on" : "off"));
  }
  document.addEventListener("keydown", press);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-find]") && event.button === 0) open(event);
    else if (event.target === palette) palette.close();
  });
  palette.addEventListener("keydown", step);
  // Who opens it before htmx has begun to listen is not heard.
  field.form.addEventListener("htmx:after:init", (event) => {
    if (event.target === field.form && palette.open) ask();
  });
  palette.addEventListener("htmx:after:swap", () => {
    palette.querySelector("[role=status]").textContent = `${links().length} found`;
  });
})();
