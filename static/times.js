/* Keeps "2 minutes ago" true on a page that stays open; words.py says the same. */

(() => {
  "use strict";

  const UNITS = [
    [60, "second"],
    [60, "minute"],
    [24, "hour"],
    [30, "day"],
  ];

  /* The clock of the server counts, however wrong the one of this machine is. */
  const offset = Date.parse(document.documentElement.dataset.now) - Date.now();

  function ago(instant) {
    let amount = Math.floor((Date.now() + offset - instant) / 1000);
    if (amount < 5) return "just now";
    for (const [size, unit] of UNITS) {
      if (amount < size) return `${amount} ${unit}${amount === 1 ? "" : "s"} ago`;
      amount = Math.floor(amount / size);
    }
    return `on ${new Date(instant).toISOString().slice(0, 10)}`;
  }

  function tell() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const said = ago(Date.parse(time.dateTime));
      if (time.textContent !== said) time.textContent = said;
    }
  }

  setInterval(tell, 5000);
})();
