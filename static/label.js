/* Labelling by keyboard, and the next image loaded ahead and shown at once. */

(() => {
  "use strict";

  const EDITABLE = "input:not([type=hidden]), textarea, select, [contenteditable]";
  // A worn key goes down twice when it is pressed once.
  const BOUNCE_MS = 80;
  const SLOW_MS = 400;
  // When each key last went down.
  const downs = new Map();
  let ahead = null;
  // The addresses of images that were there, though a new element may not know it yet.
  const loaded = new Set();
  // From an answer until the server has said what comes next.
  let underway = null;
  let shown = document.getElementById("labelling");

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const isText = event.target.matches?.(EDITABLE);
    // Once the next query is shown, the same key may answer it at once.
    const isHeld = isText || underway;
    const isBounce = isHeld && event.timeStamp - downs.get(event.key) < BOUNCE_MS;
    // In a text a letter may come twice, but for the one that led into it.
    if (isText && !isBounce) downs.clear();
    else downs.set(event.key, event.timeStamp);
    if (isBounce) event.preventDefault();
    else if (isText) leave(event);
    else act(event);
  }

  function leave(event) {
    if (event.key === "Escape") event.target.blur();
  }

  function act(event) {
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
      underway = { form, key: null, isSeen: false, slow: setTimeout(sayWait, SLOW_MS) };
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
    const done = finish();
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
    const search = document.querySelector(".answer-search input");
    const isWrong = search?.matches("[aria-invalid]");
    const { body, activeElement } = document;
    // After an answer that was searched for the letters are keys again.
    if (activeElement === body || (activeElement === search && !isWrong)) {
      const next = isWrong ? search : document.getElementById("question");
      next.focus({ preventScroll: true });
      if (isWrong) search.setSelectionRange(search.value.length, search.value.length);
    }
  }

  function goBack() {
    const lost = finish();
    if (lost.image) lost.image.src = lost.before;
    // The same key again is about the same image.
    downs.clear();
    document.querySelector(".label-bar").classList.remove("is-slow");
  }

  function finish() {
    const done = underway;
    underway = null;
    clearTimeout(done?.slow);
    return done;
  }

  function sayWait() {
    // What was waited for is there already, and only not announced yet.
    if (!underway.form.isConnected) return;
    document.querySelector(".label-bar").classList.add("is-slow");
    document.getElementById("said").textContent =
      document.querySelector(".bar-wait").textContent;
  }

  /* The words stay until the next answer replaces the bar that holds them. */
  function sayTrouble({ response }, isAnswer) {
    const what = isAnswer ? "Your answer was not saved" : "Nothing was changed";
    const why = response ? "the server answered with an error" : "the server did not answer";
    const isSaved = isAnswer && response?.raw.redirected;
    document.getElementById("said").textContent = "";
    document.querySelector(".label-bar").classList.add("is-troubled");
    document.querySelector(".bar-trouble").textContent = isSaved
      ? "Your answer was saved, but the next query did not come. Load the page again."
      : `${what}: ${why}. Try again.`;
  }

  /* No answer came, or none that replaced what had asked for it. */
  function notice(context) {
    const { sourceElement } = context;
    const isAnswer = Boolean(underway) && sourceElement === underway.form;
    if (isAnswer) goBack();
    // After a sign-out the next page says so.
    if (context.hx?.redirect) return;
    if (isAnswer || sourceElement.matches("#undo")) sayTrouble(context, isAnswer);
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
  document.addEventListener("htmx:finally:request", (event) => notice(event.detail.ctx));
  loadAhead();
})();
