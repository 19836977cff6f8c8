/* A choice that needs no second click: the form is sent when it changes.  What was used
   to send it has the focus again on the page that comes.  And buttons that copy. */

(() => {
  "use strict";

  const USED = "tracker-used";

  function send(event) {
    const control = event.target;
    if (control.matches("[data-submit]")) control.form.requestSubmit();
    if (control.matches("[data-says]")) say(control);
  }

  /* A choice within a choice: it is made too, and its sentence is that of the option. */
  function say(select) {
    const said = select.selectedOptions[0].dataset.sentence ?? "";
    document.getElementById(select.dataset.says).textContent = said;
    select.closest(".option").querySelector("[type=radio]").checked = true;
  }

  function remember(control) {
    const { pathname } = new URL(control.form.action);
    sessionStorage.setItem(USED, JSON.stringify({ pathname, id: control.id }));
  }

  function giveBack() {
    const used = JSON.parse(sessionStorage.getItem(USED));
    sessionStorage.removeItem(USED);
    if (used?.pathname === location.pathname) document.getElementById(used.id)?.focus();
  }

  /* A button that copies is of use with scripts alone, and where a browser lets it. */
  async function copy(event) {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const text = button.parentElement.querySelector("code").textContent;
    await navigator.clipboard.writeText(text);
    const said = button.firstChild;
    const before = said.data;
    said.data = "Copied";
    setTimeout(() => { said.data = before; }, 2000);
  }

  function offerCopies() {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("[data-copy]")) button.hidden = false;
  }

  document.addEventListener("click", copy);
  document.addEventListener("htmx:after:swap", offerCopies);
  offerCopies();
  document.addEventListener("change", send);
  document.addEventListener("submit", (event) => {
    const control = document.activeElement;
    const isChoice = event.target.querySelector("[data-submit]");
    // Who used the mouse goes on with the keys of the page, not with those of a choice.
    const isByKey = event.target.contains(control) && control.matches(":focus-visible");
    if (isChoice && isByKey) remember(control);
  });
  giveBack();
})();
