# ruff: noqa: RUF002 - the dash between two bounds is an en dash.
"""Accuracies as a page draws them: words, and places along an axis."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tracker.charts import words as chart_words
from tracker.charts.themes import COLOURS
from tracker.rounding import outward
from tracker.services.estimates.calendar import BeforeChange
from tracker.services.estimates.decision import Decision
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import score as score_all
from tracker.services.estimates.missing import UnclearBounds
from tracker.shapes import Accuracy, Score
from tracker.web.drawing.words import narrow
from tracker.words import EXACT, JOINT

MOST_ROWS = 20
# So much of the height of a chart is above and below what is drawn, in percent.
ABOVE, BELOW = 5, 12
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
        return f"{100 * self.part(share):.2f}%"

    def span(self, low: float, high: float) -> str:
        """Return the distance from *low* to *high* as an SVG length."""
        return f"{100 * (self.part(high) - self.part(low)):.2f}%"

    def part(self, share: float) -> float:
        """Return which part of the axis lies below *share*."""
        return min(1.0, max(0.0, (share - self.low) / (1 - self.low)))

    @property
    def ticks(self) -> list[Tick]:
        """The numbers: the closer, the later the axis begins."""
        return [Tick(self.place(one), text) for one, text in self._shares]

    @property
    def steps(self) -> list[Tick]:
        """The same numbers along an upright axis."""
        return [Tick(self.up(one), text) for one, text in self._shares]

    @property
    def _shares(self) -> list[tuple[float, str]]:
        first = round(self.low * 100)
        step = 5 if first >= 80 else 10 if first >= 40 else 20
        percents = range(100, first - 1, -step)[::-1]
        return [(percent / 100, narrow(f"{percent} %")) for percent in percents]

    def up(self, share: float) -> str:
        """Return how far below the top *share* lies in a chart, as an SVG length."""
        return f"{ABOVE + (1 - self.part(share)) * (100 - ABOVE - BELOW):.2f}%"

    def rise(self, low: float, high: float) -> str:
        """Return the distance from *low* up to *high* as an SVG length."""
        return f"{(self.part(high) - self.part(low)) * (100 - ABOVE - BELOW):.2f}%"


@dataclass(frozen=True, slots=True)
class Reading:
    """An accuracy as pages draw and say it: in percent, with bounds rounded outward."""

    name: str
    tone: int
    score: Accuracy
    # What it rests on, in a few words.
    counts: str
    # Why a mean of classes has no estimate yet, "" where it has one.
    missing: str = ""
    # How many classes it is the mean of; 0 for the accuracy of a class.
    mean_of: int = 0
    # The target that its bounds are written on the right side of.
    beside: float | None = None

    @property
    def estimate(self) -> str | None:
        """The estimate, such as "82.1 %"."""
        said = chart_words.accuracy(self.score)
        return None if said is None else narrow(said)

    @property
    def low(self) -> str:
        return chart_words.bounds(self.score, beside=self.beside)[0]

    @property
    def high(self) -> str:
        return chart_words.bounds(self.score, beside=self.beside)[1]

    @property
    def basis(self) -> list[str]:
        """What it rests on.

        A mean of classes is no count divided by another; while one of them has no
        label, it says which one it waits for.
        """
        if not self.mean_of:
            return [self.counts]
        mean = self.missing or f"mean of {self.mean_of:,} classes"
        return [mean, f"{self.counts} predictions correct"]

    @property
    def aloud(self) -> str:
        """The text for screen readers; without an estimate, the basis comes first."""
        said = list(self.basis)
        if isinstance(self.score, Score) and self.score.labelled and not self.mean_of:
            said = [f"{self.counts} correct"]
        first = [self.estimate] if self.estimate else [said.pop(0)]
        return ", ".join(
            [*first, narrow(f"between {self.low} and {self.high} %"), *said]
        )

    @property
    def span(self) -> str:
        """The interval, such as "90.4–98.3 %"."""
        return span(self.score)

    @property
    def exact_bounds(self) -> tuple[str, str]:
        """The bounds in percent to four places, still rounded outward."""
        low, high = outward(self.score.low, self.score.high, 6)
        return f"{low.scaleb(2):f}", f"{high.scaleb(2):f}"


def span(interval: Accuracy, target: float | None = None) -> str:
    """Return *interval* in percent, and so that it shows its side of the *target*."""
    return narrow(chart_words.interval(interval, beside=target))


def span_decided(found: Decision | UnclearBounds | BeforeChange) -> str:
    target = found.target if isinstance(found, Decision) else None
    return span(Accuracy(accuracy=None, low=found.low, high=found.high), target)


def read(score: Score, *, name: str, tone: int) -> Reading:
    return Reading(name, tone, score, chart_words.counts(score) or "no labels yet")


def read_mean(
    score: Score, labelled: Mapping[str, int], *, name: str = "Balanced"
) -> Reading:
    """Return the *score* that is the mean of classes, so many *labelled* of each."""
    names = [name for name, number in labelled.items() if not number]
    parts = [chart_words.shorten(name) for name in names[:_MOST_NAMED]]
    if len(names) > _MOST_NAMED:
        parts.append(f"{len(names) - _MOST_NAMED:,} more")
    missing = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))
    if parts:
        has = "have" if len(parts) > 1 else "has"
        missing = f"no estimate until {missing} {has} a label"
    mean_of = len(labelled) if score.labelled else 0
    reading = read(score, name=name, tone=0)
    return replace(reading, missing=missing, mean_of=mean_of)


def read_balanced(estimate: Estimate) -> Reading:
    """Return the balanced accuracy as pages draw and say it."""
    reading = read_mean(estimate.whole, count_classes(estimate))
    if estimate.last_label_at and not estimate.labels:
        # Those there are do not count: unclear, or picked.
        reading = replace(reading, counts="no scored labels yet")
    return reading


def read_once(estimate: Estimate, first: str) -> list[tuple[str, Reading]]:
    """Return the balanced accuracy by methods for one look, the *first* one first."""
    if not estimate.labels:
        return []
    counts = [estimate.correct], [estimate.labelled]
    return [
        (name, read_mean(score_all(*counts, name, estimate.confidence_level)[0][0], {}))
        for name in sorted((EXACT, JOINT), key=lambda one: one != first)
    ]


def count_classes(estimate: Estimate) -> dict[str, int]:
    return {one.name: one.labelled for one in estimate.classes}


def read_classes(estimate: Estimate, *, limit: int | None = None) -> list[Reading]:
    """Return every class, or those with the *limit* widest intervals."""
    classes = estimate.classes
    places: Iterable[int] = range(len(classes))
    if limit is not None and len(classes) > limit:
        widest = sorted(places, key=lambda place: (-classes[place].width, place))
        places = sorted(widest[:limit])
    return [
        read(classes[place], name=classes[place].name, tone=tone_of(place))
        for place in places
    ]


def tone_of(place: int) -> int:
    """Return the colour of the class at *place*, which it has on every page."""
    return place % _TONES + 1


def build_axis(readings: Sequence[Reading], target: float | None = None) -> Axis:
    """Return the axis from 50 %, or from lower where a bar or *target* is lower."""
    lows = [reading.score.low for reading in readings]
    if target is not None:
        lows.append(target)
    return Axis(min(5, math.floor(10 * min(lows, default=0.5) + 1e-9)) / 10)
