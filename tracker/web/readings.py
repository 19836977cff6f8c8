# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""Estimates as a page draws them: words, and places along an axis."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from tracker.charts import words as chart_words
from tracker.charts.rounding import outward
from tracker.charts.series import Point
from tracker.charts.themes import COLOURS
from tracker.services.estimates import Estimate, ScopeEstimate
from tracker.web.words import narrow

MOST_ROWS = 20
_TONES = len(COLOURS["light"].classes)
# Of the classes without a label so many are named.
_MOST_NAMED = 2


@dataclass(frozen=True, slots=True)
class Tick:
    """A number on the axis."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The one axis of several bars, from *low* to 100 %."""

    low: float

    def place(self, share: float) -> str:
        """Return where *share* lies, as an SVG length along the axis."""
        return f"{self._percent(share):.2f}%"

    def span(self, low: float, high: float) -> str:
        """Return the distance from *low* to *high* as an SVG length."""
        return f"{self._percent(high) - self._percent(low):.2f}%"

    def _percent(self, share: float) -> float:
        return 100 * min(1.0, max(0.0, (share - self.low) / (1 - self.low)))

    @property
    def ticks(self) -> list[Tick]:
        """The numbers, every 10 % and every 20 % on an axis that begins low."""
        first = round(self.low * 10)
        step = 1 if first >= 4 else 2
        return [
            Tick(self.place(tenth / 10), narrow(f"{tenth * 10} %"))
            for tenth in range(10, first - 1, -step)
        ][::-1]


@dataclass(frozen=True, slots=True)
class Reading:
    """An accuracy in words, with its counts and interval."""

    name: str
    tone: int
    estimate: str | None
    low: str
    high: str
    correct: int
    labelled: int
    scope: ScopeEstimate
    # What it is the mean of; none for the accuracy of a class.
    classes: Sequence[ScopeEstimate] = ()

    @property
    def counts(self) -> str:
        """How many of how many labels were right."""
        if not self.labelled:
            return "no labels yet"
        return f"{self.correct:,} of {self.labelled:,}"

    @property
    def basis(self) -> list[str]:
        """What it rests on.

        A mean of classes is no count divided by another, so it says what it is, and
        while one of them has no label, which one it waits for.
        """
        if not self.classes or not self.labelled:
            return [self.counts]
        mean = f"mean of {len(self.classes):,} classes"
        return [self.missing or mean, f"{self.counts} labels right"]

    @property
    def missing(self) -> str:
        """Why a mean of classes has no estimate yet, "" where it has one."""
        names = [one.scope for one in self.classes if not one.labelled]
        if not names:
            return ""
        parts = [chart_words.shorten(name) for name in names[:_MOST_NAMED]]
        if len(names) > _MOST_NAMED:
            parts.append(f"{len(names) - _MOST_NAMED:,} more")
        *others, last = parts
        listed = f"{', '.join(others)} and {last}" if others else last
        return f"no estimate until {listed} {'have' if others else 'has'} a label"

    @property
    def aloud(self) -> str:
        """All of it as it is read out."""
        said = list(self.basis)
        if self.labelled and not self.classes:
            said = [f"{self.counts} correct"]
        return read_aloud(self.estimate, self.low, self.high, said)

    @property
    def exact_bounds(self) -> tuple[str, str]:
        """The bounds in percent to four places, still rounded outward."""
        low, high = outward(self.scope.low, self.scope.high, 6)
        return f"{low.scaleb(2):f}", f"{high.scaleb(2):f}"

    @property
    def points_wide(self) -> str:
        """How many percentage points lie between the bounds as they are written."""
        return str(Decimal(self.high) - Decimal(self.low))


def read_aloud(estimate: str | None, low: str, high: str, basis: Sequence[str]) -> str:
    """Return what is drawn, in words; without an estimate *basis* says why first."""
    first, rest = ([estimate], basis) if estimate else (basis[:1], basis[1:])
    return ", ".join([*first, narrow(f"between {low} and {high} %"), *rest])


def read(  # noqa: PLR0913 - what a scope does not know of itself.
    scope: ScopeEstimate,
    *,
    labels: int,
    computed_at: datetime,
    name: str,
    tone: int,
    classes: Sequence[ScopeEstimate] = (),
) -> Reading:
    """Return *scope* in words; bounds are rounded outward, never inward.

    A balanced accuracy is the mean of *classes*.
    """
    point = Point(
        labels=labels,
        computed_at=computed_at,
        correct=scope.correct,
        labelled=scope.labelled,
        accuracy=scope.accuracy,
        low=scope.low,
        high=scope.high,
    )
    said = chart_words.accuracy(point)
    low, high = chart_words.interval(point).removesuffix(" %").split("–")
    return Reading(
        name=name,
        tone=tone,
        estimate=None if said is None else narrow(said),
        low=low,
        high=high,
        correct=scope.correct,
        labelled=scope.labelled,
        scope=scope,
        classes=classes,
    )


def read_balanced(estimate: Estimate) -> Reading:
    """Return the balanced accuracy in words."""
    return read(
        estimate.balanced,
        labels=estimate.labels,
        computed_at=estimate.computed_at,
        name="Balanced",
        tone=0,
        classes=estimate.classes,
    )


def read_classes(estimate: Estimate, *, limit: int | None = None) -> list[Reading]:
    """Return every class in words, or those with the *limit* widest intervals."""
    places: Iterable[int] = range(len(estimate.classes))
    if limit is not None and len(estimate.classes) > limit:
        scopes = estimate.classes
        widest = sorted(places, key=lambda i: (scopes[i].low - scopes[i].high, i))
        places = sorted(widest[:limit])
    return [
        read(
            scope,
            labels=estimate.labels,
            computed_at=estimate.computed_at,
            name=scope.scope,
            tone=index % _TONES + 1,
        )
        for index in places
        for scope in [estimate.classes[index]]
    ]


def build_axis(readings: Sequence[Reading], target: float | None = None) -> Axis:
    """Return the axis from 50 %, or from lower where a bar or *target* is lower."""
    lows = [reading.scope.low for reading in readings]
    if target is not None:
        lows.append(target)
    return Axis(min(5, math.floor(10 * min(lows, default=0.5) + 1e-9)) / 10)
