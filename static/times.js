/* Keeps "2 minutes ago" true on a page that stays open; words.py says the same. */

(() => {
  "use strict";

  const UNITS = [
    [60, "second"],
    [60, "minute"],
    [24, "hour"],
    [8, "day"],
  ];

  const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

  /* The clock of the server counts, however wrong the one of this machine is. */
  const offset = Date.parse(document.documentElement.dataset.now) - Date.now();

  function ago(instant) {
    let amount = Math.floor((Date.now() + offset - instant) / 1000);
    if (amount < 5) return "just now";
    for (const [size, unit] of UNITS) {
      if (amount < size) return `${amount} ${unit}${amount === 1 ? "" : "s"} ago`;
      amount = Math.floor(amount / size);
    }
    const [day, then] = [new Date(instant), new Date(Date.now() + offset)];
    const said = `${day.getUTCDate()} ${MONTHS[day.getUTCMonth()]}`;
    const isThisYear = day.getUTCFullYear() === then.getUTCFullYear();
    return isThisYear ? said : `${said} ${day.getUTCFullYear()}`;
  }

  function tell() {
    for (const time of document.querySelectorAll("time[data-ago]")) {
      const said = ago(Date.parse(time.dateTime));
      if (time.textContent !== said) time.textContent = said;
    }
  }

  setInterval(tell, 5000);
})();
