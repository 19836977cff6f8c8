"""Numbers and instants as pages show them."""

import math
from datetime import UTC, date, datetime
from decimal import ROUND_FLOOR, Decimal

from tracker.charts.words import chosen, plural, short_day
from tracker.rounding import rounded_share

# Narrower than a space, and no line breaks there.
_NARROW_SPACE = "\N{NARROW NO-BREAK SPACE}"
_UNITS = (
    (60, "second"),
    (60, "minute"),
    (24, "hour"),
    (8, "day"),
)
# The first sign that is found counts: most also name what they are compatible with.
_BROWSERS = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "Firefox/": "Firefox",
    "FxiOS/": "Firefox",
    "Chrome/": "Chrome",
    "CriOS/": "Chrome",
    "Safari/": "Safari",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "Mac OS X": "macOS",
    "CrOS": "ChromeOS",
    "Linux": "Linux",
}


def browser_name(agent: str) -> str:
    """Return "Firefox on Windows", or what a browser sent where that is not known."""
    name = next((name for sign, name in _BROWSERS.items() if sign in agent), None)
    system = next((name for sign, name in _SYSTEMS.items() if sign in agent), None)
    if name is None:
        return agent or "unnamed"
    return f"{name} on {system}" if system else name


def narrow(text: str) -> str:
    return text.replace(" %", f"{_NARROW_SPACE}%")


def share(value: float) -> str:
    """Return a confidence level or target as it was chosen, such as "95 %"."""
    return narrow(chosen(value))


def about(value: float) -> str:
    """Return a share to three digits, such as "2.5 %" or "about 0.833 %"."""
    digits = Decimal(f"{100 * value:.3g}")
    is_whole = math.isclose(float(digits), 100 * value, rel_tol=1e-9)
    return narrow(f"{'' if is_whole else 'about '}{digits:f} %")


def number(value: int) -> str:
    """Return "1,797"."""
    return f"{value:,}"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def exactly(instant: datetime) -> str:
    """Return "2026-01-31 12:00:05 UTC"."""
    return f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def day(one: date) -> str:
    """Return "12 March 2026"."""
    return f"{one.day} {one:%B %Y}"


def ago(instant: datetime, present: datetime) -> str:
    """Return how long ago *instant* was; ``static/times.js`` says the same."""
    amount = int((present - instant).total_seconds())
    if amount < 5:
        return "just now"
    for size, unit in _UNITS:
        if amount < size:
            return f"{plural(amount, unit)} ago"
        amount //= size
    return short_day(instant.astimezone(UTC).date(), present.date())


def span(first: datetime, last: datetime) -> str:
    """Return "from 1 October to 21 November 2026", or with one month or year alone."""
    begin, end = first.astimezone(UTC), last.astimezone(UTC)
    ended = f"{end.day} {end:%B %Y}"
    if begin.date() == end.date():
        return f"on {ended}"
    begun = f"{begin.day}"
    if (begin.year, begin.month) != (end.year, end.month):
        begun += f" {begin:%B}"
    if begin.year != end.year:
        begun += f" {begin.year}"
    return f"from {begun} to {ended}"


def covers(value: float) -> str:
    """Return how often something holds, such as "94.3 %", never rounded to all."""
    if value >= 1:
        return narrow("100 %")
    return narrow(f"{int(1000 * value) / 10:.1f} %")


def lasting(seconds: float) -> str:
    """Return how long something takes, such as "3 hours"."""
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * length:
            return plural(round(seconds / length), unit)
    return plural(round(seconds), "second") if seconds >= 0.5 else "a second"


def share_of(value: float, places: int = 1) -> str:
    """Return a share to so many places of a percent, such as "86.3 %".

    Only all of something is 100 %, and only none of it 0 %; these have no decimals.
    """
    percent = f"{rounded_share(value, places + 2).scaleb(2):f}"
    if "." in percent and (places != 1 or value in {0, 1}):
        percent = percent.rstrip("0").rstrip(".")
    return narrow(f"{percent} %")


def confidence(value: float, places: int = 2) -> str:
    """Return a confidence such as "0.99"; only certainty is "1.00"."""
    return f"{rounded_share(value, places):f}"


def at_least(value: float) -> str:
    """Return a threshold of a confidence to three places, rounded down.

    So whatever reaches the threshold reaches what is shown.
    """
    # As it was written: 0.29 as a float is a little less.
    return f"{Decimal(repr(value)).quantize(Decimal('0.001'), ROUND_FLOOR):f}"


def chance(value: float) -> str:
    """Return a probability as a person says it, such as "24.8 %" or "1 in 40,000"."""
    if value >= 0.9995:
        return "nearly 1" if value < 1 else narrow("100 %")
    if value >= 0.001:
        return narrow(f"{100 * value:.3g} %")
    return f"1 in {1 / value:,.0f}" if value > 1e-9 else "next to nothing"
