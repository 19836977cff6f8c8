/* Keys of pages where there is more than one thing to press.  An element with data-key
   is clicked by that key, and a field gets the focus.  Where there are tiles, the digits answer the tile that has
   the focus and lead to the next one. */

(() => {
  "use strict";

  const EDITABLE =
    "textarea, select, [contenteditable], input:not([type=hidden], [type=radio])";

  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.matches?.(EDITABLE)) return;
    const key = CSS.escape(event.key.toLowerCase());
    const tile = currentTile();
    const inside = tile?.querySelector(`[data-key="${key}"]`);
    const found = inside ?? document.querySelector(`[data-key="${key}"]:not(.tiles *)`);
    if (!found) return;
    event.preventDefault();
    if (inside) answer(inside, tile);
    else if (found.matches(EDITABLE)) found.focus();
    else found.click();
  }

  function currentTile() {
    const focused = document.activeElement?.closest(".tiles > li");
    return focused ?? document.querySelector(".tiles > li:not(:has(:checked, img[hidden]))");
  }

  /* A list of answers has the same key at one of its options. */
  function answer(choice, tile) {
    if (choice.matches("option")) choice.parentElement.value = choice.value;
    else choice.checked = true;
    choice.dispatchEvent(new Event("change", { bubbles: true }));
    const next = tile.nextElementSibling ?? document.querySelector("#rest");
    const control = next?.matches("li") ? next.querySelector("input, select") : next;
    control?.focus({ focusVisible: true });
  }

  document.addEventListener("keydown", press);
})();
