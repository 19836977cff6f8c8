/* Labelling by keyboard, and the next image loaded ahead and shown at once. */

(() => {
  "use strict";

  const EDITABLE = "input:not([type=hidden]), textarea, select, [contenteditable]";
  let ahead = null;
  // The addresses of images that were there, though a new element may not know it yet.
  const loaded = new Set();
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
    if (underway) keep(key);
    else if (use(key)) event.preventDefault();
  }

  function use(key) {
    if (key === "n") return openNote();
    if (key === "/") return openSearch();
    const button = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    button?.click();
    return Boolean(button);
  }

  /* The next image may be seen before its form is there. */
  function keep(key) {
    if (underway.isSeen) underway.key ??= key;
  }

  function openNote() {
    const details = document.getElementById("note-details");
    if (!details) return false;
    details.open = true;
    document.getElementById("note").focus();
    return true;
  }

  function openSearch() {
    const search = document.querySelector(".answer-search input");
    search?.select();
    return Boolean(search);
  }

  function loadAhead() {
    const form = document.querySelector("[data-next-image]");
    remember(ahead);
    if (!form || ahead?.getAttribute("src") === form.dataset.nextImage) return;
    ahead = new Image();
    ahead.src = form.dataset.nextImage;
  }

  /* One answer at a time, and none about an image that is not there yet. */
  function answer(event) {
    const form = event.target;
    if (!form.matches?.(".label-form")) return;
    const isEarly = event.submitter?.matches("[data-needs-images]") && isLoading();
    if (underway || isEarly) {
      event.preventDefault();
      event.stopImmediatePropagation();
      if (underway) keep(event.submitter?.dataset.key);
    } else {
      underway = { form, key: null, isSeen: false };
      showAhead();
    }
  }

  function isLoading() {
    const image = document.querySelector(".label-image img");
    remember(image);
    return Boolean(image) && !loaded.has(image.src);
  }

  /* One that could not be loaded is complete as well, and has no size. */
  function isThere(image) {
    return image.complete && image.naturalWidth > 0;
  }

  function remember(image) {
    if (image && isThere(image)) loaded.add(image.src);
  }

  function showAhead() {
    const { form } = underway;
    const image = document.querySelector(".label-image img");
    const isAhead = ahead?.getAttribute("src") === form.dataset.nextImage;
    if (!image || !isAhead || !isThere(ahead)) return;
    Object.assign(underway, { query: form.dataset.nextQuery, image, before: image.src });
    image.src = ahead.src;
    const now = underway;
    // In the second frame the first one is on the screen.
    requestAnimationFrame(() => requestAnimationFrame(() => { now.isSeen = true; }));
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
    const answer = document.querySelector(".last-answer[data-said]")?.innerText.trim();
    const count = document.querySelector(".progress-count")?.innerText.trim();
    document.getElementById("said").textContent = answer && `${answer} ${count}.`;
    const search = document.querySelector(".answer-search input:not([aria-invalid])");
    // After an answer that was searched for the letters are keys again.
    if ([document.body, search].includes(document.activeElement)) {
      document.getElementById("question").focus({ preventScroll: true });
    }
  }

  function goBack() {
    if (underway.image) underway.image.src = underway.before;
    underway = null;
  }

  document.addEventListener("keydown", press);
  document.addEventListener("submit", answer, true);
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-help]")) document.getElementById("help").showModal();
  });
  document.addEventListener("htmx:after:swap", () => {
    // The panel beside it is renewed on its own.
    if (!underway?.form.isConnected) goOn();
  });
  document.addEventListener("htmx:finally:request", (event) => {
    // No answer came, or none that replaced the form.
    if (underway && event.detail.ctx.sourceElement === underway.form) goBack();
  });
  loadAhead();
})();
