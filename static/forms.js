/* A choice that needs no second click: the form is sent when it changes. */

(() => {
  "use strict";

  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
})();
