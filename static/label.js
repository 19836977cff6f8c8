/* Labelling by keyboard, and the next image loaded ahead and shown at once. */

(() => {
  "use strict";

  const EDITABLE = "input:not([type=hidden]), textarea, select, [contenteditable]";
  let ahead = null;
  // From an answer until the server has said what comes next.
  let underway = null;
  let shown = document.getElementById("labelling");

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches?.(EDITABLE)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const help = document.getElementById("help");
    if (event.key === "?") {
      if (help.open) help.close();
      else help.showModal();
      return;
    }
    if (help.open) return;
    const key = event.key.toLowerCase();
    if (underway) {
      // The next image may be seen before its form is there.
      underway.key ??= key;
      return;
    }
    if (use(key)) event.preventDefault();
  }

  function use(key) {
    if (key === "n") return openNote();
    const button = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    button?.click();
    return Boolean(button);
  }

  function openNote() {
    const details = document.getElementById("note-details");
    if (!details) return false;
    details.open = true;
    document.getElementById("note").focus();
    return true;
  }

  function loadAhead() {
    const form = document.querySelector("[data-next-image]");
    if (!form || ahead?.getAttribute("src") === form.dataset.nextImage) return;
    ahead = new Image();
    ahead.src = form.dataset.nextImage;
  }

  function showAhead(event) {
    const form = event.target;
    if (!form.matches?.(".label-form")) return;
    const image = document.querySelector(".label-image img");
    const isAhead = ahead?.getAttribute("src") === form.dataset.nextImage;
    // One that could not be loaded is complete as well, and has no size.
    if (!image || !isAhead || !ahead.complete || !ahead.naturalWidth) return;
    underway = { query: form.dataset.nextQuery, image, before: image.src, key: null };
    image.src = ahead.src;
  }

  function goOn() {
    const done = underway;
    underway = null;
    loadAhead();
    tell();
    if (!done?.key) return;
    // What was pressed is about the image that was seen.
    const query = document.querySelector(".label-form input[name=query]")?.value;
    if (query === done.query) use(done.key);
  }

  /* What was replaced may have had the focus, and a reader of the screen hears only
     of words that change in a place that stays. */
  function tell() {
    // The panel beside it is renewed every few seconds, and says nothing new.
    if (shown.isConnected) return;
    shown = document.getElementById("labelling");
    const answer = document.querySelector(".last-answer")?.innerText.trim();
    const count = document.querySelector(".progress-count")?.innerText.trim();
    document.getElementById("said").textContent = answer && `${answer} ${count}.`;
    if (document.activeElement === document.body) {
      document.getElementById("question").focus({ preventScroll: true });
    }
  }

  function goBack() {
    if (underway) underway.image.src = underway.before;
    underway = null;
  }

  document.addEventListener("keydown", press);
  document.addEventListener("submit", showAhead, true);
  document.addEventListener("htmx:after:swap", (event) => {
    // The panel beside it is renewed on its own.
    if (!underway?.image.isConnected) goOn(event);
  });
  document.addEventListener("htmx:error", goBack);
  loadAhead();
})();
