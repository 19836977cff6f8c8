"""Rounding that never makes an interval look narrower than it is."""

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal


def outward(low: float, high: float, places: int) -> tuple[Decimal, Decimal]:
    """Return *low* rounded down and *high* rounded up to decimal *places*."""
    return rounded(low, places, ROUND_FLOOR), rounded(high, places, ROUND_CEILING)


def rounded(value: float, places: int, rounding: str) -> Decimal:
    """Return *value* rounded to decimal *places* in the direction *rounding*."""
    # A Decimal holds a float exactly; multiplying and flooring floats would now
    # and then round inward.
    return Decimal(value).quantize(Decimal(1).scaleb(-places), rounding)


def rounded_share(value: float, places: int) -> Decimal:
    """Return *value* rounded to the nearest, to 1 or 0 only if it is all or none."""
    shown = rounded(value, places, ROUND_HALF_EVEN)
    if shown == 1 and value < 1:
        return rounded(value, places, ROUND_FLOOR)
    if shown == 0 and value > 0:
        return rounded(value, places, ROUND_CEILING)
    return shown


def roughly(labels: int) -> int:
    """Return planned *labels* to two figures, rounded up."""
    unit: int = 10 ** max(len(str(labels)) - 2, 0)
    return -(-labels // unit) * unit


def percents(low: float, high: float) -> tuple[str, str]:
    """Return *low* and *high* in percent with two places, rounded outward."""
    down, up = outward(low, high, 4)
    return f"{100 * down:.2f}", f"{100 * up:.2f}"
