/* Says where an image cannot be loaded, and takes no answer about what nobody sees. */

(() => {
  "use strict";

  const IMAGES = ".label-image img, .tiles img";
  const MISSING = "is-missing";
  // Beyond it an image would be drawn as a hair, or as nothing.
  const SLENDER = 12;

  function note(image, isMissing) {
    if (!image.matches?.(IMAGES)) return;
    image.classList.toggle(MISSING, isMissing);
    image.nextElementSibling.hidden = !isMissing;
    const ratio = image.naturalWidth / image.naturalHeight;
    image.classList.toggle("is-flat", ratio > SLENDER);
    image.classList.toggle("is-tall", ratio < 1 / SLENDER);
    const tile = image.closest("fieldset");
    if (tile) tile.disabled = isMissing;
    const isAnyMissing = Boolean(document.querySelector(`img.${MISSING}`));
    for (const control of document.querySelectorAll("[data-needs-images]")) {
      control.disabled = isAnyMissing;
    }
  }

  document.addEventListener("error", (event) => note(event.target, true), true);
  document.addEventListener("load", (event) => note(event.target, false), true);
  // Some were through before this script was.
  for (const image of document.querySelectorAll(IMAGES)) {
    if (image.complete) note(image, !image.naturalWidth);
  }
})();
