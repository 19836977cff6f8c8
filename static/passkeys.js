/* Passkeys: the browser makes one, or shows one, and the server checks it. */

(() => {
  "use strict";

  async function post(address, body) {
    const answer = await fetch(address, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        "X-CSRFToken": document.querySelector('[name="csrf_token"]').value,
      },
      body: JSON.stringify(body),
    });
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.detail ?? "The server did not answer.");
    return said;
  }

  async function run(form) {
    const isNew = form.dataset.passkey === "create";
    const options = await post(form.dataset.options, {});
    const publicKey = isNew
      ? PublicKeyCredential.parseCreationOptionsFromJSON(options)
      : PublicKeyCredential.parseRequestOptionsFromJSON(options);
    const made = isNew
      ? await navigator.credentials.create({ publicKey })
      : await navigator.credentials.get({ publicKey });
    const { next } = await post(form.action, {
      credential: made.toJSON(),
      name: form.elements.namedItem("name")?.value,
      next: form.dataset.next,
    });
    location.assign(next);
  }

  function tell(form, text) {
    const place = form.querySelector("[data-wrong]");
    place.hidden = !text;
    place.textContent = text;
  }

  if (!window.PublicKeyCredential?.parseCreationOptionsFromJSON) return;
  for (const form of document.querySelectorAll("[data-passkey]")) {
    form.hidden = false;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const button = form.querySelector("button");
      button.disabled = true;
      tell(form, "");
      try {
        await run(form);
      } catch (error) {
        // Who closes the window of the browser has changed their mind.
        const isClosed = error.name === "NotAllowedError";
        tell(form, isClosed ? "No passkey was used. Try again." : error.message);
        button.disabled = false;
      }
    });
  }
  for (const text of document.querySelectorAll("[data-no-passkeys]")) text.hidden = true;
})();
