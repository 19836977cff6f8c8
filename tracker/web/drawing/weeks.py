"""The weeks of a version as bars on the calendar, with what happened meanwhile."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from tracker.charts.words import short_day
from tracker.services.estimates.weeks import SpanAccuracy, Weeks
from tracker.shapes import Accuracy, Score
from tracker.storage.detectors import zone_of
from tracker.storage.estimates.cells import day_in
from tracker.web.drawing.answers import near_axis
from tracker.web.drawing.readings import Reading, read

# So many bars have a name below them, at most.
_NAMED = 7
# A bar of a wider interval tells little, and is drawn hollow.
_WIDEST = 0.4


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn: upright, its places in percent of the chart."""

    span: SpanAccuracy
    day: date
    name: str
    left: float
    wide: float
    is_before: bool
    # How far from the newest one, in names.
    named: int | None

    @property
    def reading(self) -> Reading:
        """The accuracy of the span as pages draw and say it."""
        labelled = self.span.drawn - self.span.unclear
        return read(Score.from_row(self.span, labelled=labelled), name="", tone=0)

    @property
    def is_hollow(self) -> bool:
        """Whether the span is not over, or too little is known of it."""
        return not self.span.is_closed or self.span.high - self.span.low > _WIDEST


def draw_weeks(
    found: Weeks,
    since: date | None = None,
    now: Accuracy | None = None,
    versions: Sequence[tuple[date, str]] = (),
) -> dict[str, Any]:
    """Return the bars, the oldest first, and what is drawn around them.

    *since* a change the interval *now* is what counts, and earlier bars are grey.
    *versions* are marked on the day of the first query that each had at its first
    label.
    """
    spans = found.items[::-1]
    if not spans:
        return {"bars": [], "axis": near_axis(found.target)}
    first = found.day_of(spans[0])
    days = max(1, (_day(found, spans[-1].until) - first).days)

    def place(day: date) -> float:
        return 100 * (day - first).days / days

    bars = []
    for number, one in enumerate(spans):
        day, end = found.day_of(one), _day(found, one.until)
        room = place(end) - place(day)
        wide = min(0.55 * room, 6.0)
        from_newest = len(spans) - 1 - number
        each = -(-len(spans) // _NAMED)
        bar = Bar(
            span=one,
            day=day,
            name=short_day(day, found.computed_at.date()),
            left=place(day) + (room - wide) / 2,
            wide=wide,
            is_before=since is not None and end - timedelta(days=1) < since,
            named=None if from_newest % each else from_newest // each,
        )
        bars.append(bar)
    marks: dict[date, list[str]] = {}
    for at, name in versions:
        marks.setdefault(at, []).append(name)
    return {
        "bars": bars,
        "axis": near_axis(found.target, *_find_lows(spans, now if since else None)),
        "changed_at": place(since) if since and since >= first else None,
        "marks": [
            (place(day), ", ".join(names))
            for day, names in marks.items()
            if day > first
        ],
    }


def _find_lows(spans: Sequence[SpanAccuracy], now: Accuracy | None) -> list[float]:
    thin = [one for one in spans if one.high - one.low < _WIDEST]
    # A wide bar among narrow ones may be cut, but not the estimate in it.
    wide = [one.accuracy if thin else one.low for one in spans if one not in thin]
    return [
        *(one.low for one in thin),
        *(low for low in (*wide, now and now.low) if low),
    ]


def days_of(found: Weeks, one: SpanAccuracy) -> tuple[date, date]:
    """Return the first and the last day of a span."""
    return found.day_of(one), _day(found, one.until) - timedelta(days=1)


def _day(found: Weeks, at: datetime) -> date:
    return day_in(at, zone_of(found.time_zone))
