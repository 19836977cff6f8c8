"""Differences as a page draws them: points in words, and places along an axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from tracker.charts.words import in_points, than
from tracker.rounding import rounded
from tracker.services.deciding.pairs import Change
from tracker.web.drawing.readings import Tick

_MINUS = "\N{MINUS SIGN}"
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A change in points, as pages show and draw it."""

    name: str
    tone: int
    estimate: str | None
    low: Decimal
    high: Decimal
    change: Change

    @property
    def interval(self) -> str:
        """The bounds, such as "+1.2 to +8.3", rounded outward."""
        return f"{signed(self.low)} to {signed(self.high)}"

    def than(self, other: str) -> str:
        """Return by how much it is right more or less often than *other*."""
        return than(self.low, self.high, other)

    def above(self, other: str) -> str:
        """Return by how much it is higher or lower than that of *other*."""
        return than(self.low, self.high, f"that of {other}", "higher", "lower")


@dataclass(frozen=True, slots=True)
class Axis:
    """The one axis of several bars, in whole steps, with zero on it."""

    first: int
    last: int
    step: float

    def place(self, share: float) -> str:
        """Return where *share* lies, as an SVG length along the axis."""
        return f"{self._percent(share):.2f}%"

    def span(self, low: float, high: float) -> str:
        """Return the distance from *low* to *high* as an SVG length."""
        return f"{self._percent(high) - self._percent(low):.2f}%"

    def _percent(self, share: float) -> float:
        return 100 * (share / self.step - self.first) / (self.last - self.first)

    @property
    def ticks(self) -> list[Tick]:
        """The numbers, in points."""
        return [
            Tick(
                self.place(count * self.step),
                signed(Decimal(round(100 * count * self.step))),
            )
            for count in range(self.first, self.last + 1)
        ]

    @property
    def has_room_below(self) -> bool:
        return self._percent(0) > 20

    @property
    def has_room_above(self) -> bool:
        return self._percent(0) < 80


def draw_change(change: Change, name: str, tone: int) -> Bar:
    """Return *change* in points, with the name and the tone of what changed."""
    low, high, places = in_points(change.low, change.high)
    estimate = None
    if change.difference is not None:
        shown = rounded(change.difference, places, ROUND_HALF_EVEN)
        estimate = signed(shown.scaleb(2))
    return Bar(name, tone, estimate, low, high, change)


def signed(points: Decimal) -> str:
    """Return "+1.2", "0", or the like with a true minus."""
    size = "100" if abs(points) == 100 else f"{abs(points):f}"
    return "0" if points == 0 else f"{'+' if points > 0 else _MINUS}{size}"


def build_axis(bars: Sequence[Bar]) -> Axis:
    """Return an axis that holds every bar and zero."""
    low = min(0.0, *(bar.change.low for bar in bars))
    high = max(0.0, *(bar.change.high for bar in bars))
    step = next(step for step in _STEPS if high - low <= _MOST_STEPS * step)
    # The bounds of a bar are rounded in places that no eye sees.
    first = math.floor(low / step + 1e-9)
    return Axis(first, max(math.ceil(high / step - 1e-9), first + 1), step)
