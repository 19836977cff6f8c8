# ruff: noqa: RUF001, RUF002 - the dash between two bounds is an en dash.
"""Readings in words: percentages whose bounds are rounded outward."""

import unicodedata
from datetime import date
from decimal import Decimal

from tracker.rounding import outward, rounded_share
from tracker.shapes import Accuracy, Moment, Score

_DIRECTION_MARKS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e")
_DIRECTION_MARKS |= set("\u2066\u2067\u2068\u2069")
# Decimal places of a bound close to a target.
_MOST_PLACES = 8
_MOST_PLACES_OF_POINTS = 6
_UNFIT = _DIRECTION_MARKS | {"\ufffe", "\uffff"}

_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}
_NUMBERS |= {8: "eight", 9: "nine", 10: "ten"}

# Members of every JavaScript object.  Vega looks texts up in an object and fails on
# these; an invisible space behind them avoids that.
_MEMBERS = {
    *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
    *("toLocaleString", "toString", "valueOf", "__proto__"),
    *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
}


def count_in_words(value: int) -> str:
    """Return a small number as a word, and any other as it is."""
    return _NUMBERS.get(value) or f"{value:,}"


def short_day(one: date, present: date) -> str:
    """Return "12 Mar", with the year if it is another one."""
    return f"{one.day} {one:%b}" + (f" {one.year}" if one.year != present.year else "")


# "1 label", "1,797 labels".
def plural(value: int, noun: str, nouns: str | None = None) -> str:
    return f"{value:,} {noun if value == 1 else nouns or noun + 's'}"


def plain(text: str, *, limit: int = 80) -> str:
    """Return *text* from a user as one line that is safe in JSON and XML.

    Control characters and lone surrogates are not allowed in XML, and marks that turn
    the direction of writing would let a name rewrite the words beside it.
    """
    # Cut first, so that a name of a megabyte costs no time.
    if len(text) > 4 * limit:
        text = text[: 2 * limit] + text[-2 * limit :]
    shown = " ".join(text.split())
    shown = "".join(
        "\N{REPLACEMENT CHARACTER}"
        if c in _UNFIT or unicodedata.category(c) in {"Cc", "Cs"}
        else c
        for c in shown
    )
    return f"{shown} " if shown in _MEMBERS else shorten(shown, limit)


def shorten(name: str, limit: int = 28) -> str:
    """Return *name* in at most *limit* characters, without its middle if too long."""
    if len(name) <= limit:
        return name
    head = limit // 2
    return f"{name[:head]}…{name[len(name) - (limit - 1 - head) :]}"


def chosen(share: float) -> str:
    """Return a confidence level or target as it was set, such as "99.9 %"."""
    return f"{100 * share:.10g} %"


def accuracy(found: Accuracy) -> str | None:
    """Return the estimate of *found*, such as "82.1 %", or None without one.

    Only a perfect record prints as 100 %, and only a hopeless one as 0 %.
    """
    if found.accuracy is None:
        return None
    return f"{_percent(rounded_share(found.accuracy, _places(found.width)))} %"


def bounds(found: Accuracy, *, beside: float | None = None) -> tuple[str, str]:
    """Return the bounds of *found* in percent, "63.1" and "94.0", rounded outward.

    They have enough digits that an interval on one side of *beside*, a target, does not
    seem to reach it.
    """
    places = _places(found.width)
    low, high = outward(found.low, found.high, places)
    while beside is not None and places < _MOST_PLACES:
        if not (low <= beside < found.low or found.high < beside <= high):
            break
        places += 1
        low, high = outward(found.low, found.high, places)
    return _percent(low), _percent(high)


def interval(found: Accuracy, *, beside: float | None = None) -> str:
    """Return the bounds of *found*, such as "63.1–94.0 %", rounded outward."""
    return f"{'–'.join(bounds(found, beside=beside))} %"


def balanced_reading(point: Moment) -> str:
    """Return "87.7 % (69.9–97.0 %) after 72 labels"."""
    estimate = accuracy(point) or "no estimate yet"
    return f"{estimate} ({interval(point)}) after {plural(point.labels, 'label')}"


def class_reading(point: Score) -> tuple[str, str]:
    """Return the two halves of "82.1 % (63.1–94.0 %), 23 of 28"."""
    estimate, k_of_n = accuracy(point), counts(point)
    if estimate is None or k_of_n is None:
        return "not labelled yet", interval(point)
    return f"{estimate} ({interval(point)})", k_of_n


def aloud(reading: str) -> str:
    """Return a reading for screen readers, which do not say the dash between bounds."""
    return reading.replace("–", " to ")


def counts(found: Score) -> str | None:
    """Return "23 of 28", or None for a class without labels."""
    if not found.labelled:
        return None
    return f"{found.correct:,} of {found.labelled:,}"


def _places(width: float) -> int:
    return 3 if width >= 0.01 else 4 if width >= 0.001 else 5


def _percent(share: Decimal) -> str:
    return "0" if share == 0 else "100" if share == 1 else f"{share.scaleb(2)}"


def than(
    low: Decimal,
    high: Decimal,
    other: str,
    more: str = "more often",
    less: str = "less often",
) -> str:
    """Return that something is *low* to *high* points more or less than *other*."""
    if low > 0:
        return f"{low}–{high} points {more} than {other}"
    if high < 0:
        return f"{-high}–{-low} points {less} than {other}"
    first = less.removesuffix(" often")
    return f"between {-low} points {first} and {high} points {more} than {other}"


def in_points(low: float, high: float) -> tuple[Decimal, Decimal, int]:
    """Return the bounds in points, rounded outward, and to how many places."""
    places = _places(high - low)
    least, most = outward(low, high, places)
    # A bound on one side of zero is what the verdict hangs on; it must not read 0.
    while places < _MOST_PLACES_OF_POINTS and (low > 0 == least or high < 0 == most):
        places += 1
        least, most = outward(low, high, places)
    return least.scaleb(2), most.scaleb(2), places
