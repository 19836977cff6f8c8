"""The accuracy of each week: a bar for each, and a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.weeks import SpanAccuracy, Weeks, get_weeks
from tracker.services.wording import invalid
from tracker.shapes import Score
from tracker.storage.detectors import Detector
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import Axis, Reading, build_axis, read
from tracker.words import OVERALL

_CUTS = ("week", "day", "month")
# So much of the height of the chart is above and below the bars, in percent.
_ABOVE, _BELOW = 5, 11
# So many bars have a name below them, at most.
_NAMED = 7


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as it is drawn: upright, its places in percent of the chart."""

    span: SpanAccuracy
    day: date
    reading: Reading
    left: float
    wide: float
    top: float
    tall: float
    mark: float | None
    is_named: bool

    @property
    def name(self) -> str:
        """The day on which it begins, such as "5 Oct"."""
        return f"{self.day.day} {self.day:%b}"


@pages.get("/detectors/<detector_id>/weeks")
@requires("viewer")
def show_weeks(detector_id: str) -> ResponseReturnValue:
    """Show how many of the queries asked in each week are right."""
    by = request.args.get("by") or "week"
    if by not in _CUTS:
        raise invalid("by", by, f"it must be one of {', '.join(_CUTS)}")
    version = request.args.get("version") or None
    with database().read() as session:
        detector = get_detector(session, detector_id)
        found = get_weeks(
            session,
            detector,
            computed_at=now(),
            by=by,  # type: ignore[arg-type]
            version=None if version == "*" else version,
            measure=request.args.get("measure") or None,
        )
        return render_template(
            "weeks/weeks.html",
            detector=detector,
            found=found,
            cuts=_CUTS,
            measures=_list_measures(detector, found),
            **_draw(found),
        )


def _list_measures(detector: Detector, found: Weeks) -> list[str]:
    names = [detector.measure, *(name for name, _ in detector.also), OVERALL]
    return list(dict.fromkeys([*names, found.measure]))


def _draw(found: Weeks) -> dict[str, Any]:
    """Return the bars, the oldest first, and the lines behind them."""
    spans = found.items[::-1]
    readings = [_read(one) for one in spans]
    known = [one for one in readings if one.score.low > 0]
    axis = build_axis(known, found.target)
    return {
        "bars": [
            _draw_bar(found, readings, place, axis) for place in range(len(spans))
        ],
        "ticks": [(text.text, _height(text.place)) for text in axis.ticks],
        "target_at": None
        if found.target is None
        else _height(axis.place(found.target)),
    }


def _read(one: SpanAccuracy) -> Reading:
    clear = one.drawn - one.unclear
    return read(
        Score(
            correct=one.correct,
            labelled=clear,
            accuracy=one.accuracy,
            low=one.low,
            high=one.high,
        ),
        name="",
        tone=0,
    )


def _draw_bar(found: Weeks, readings: Sequence[Reading], place: int, axis: Axis) -> Bar:
    one, reading = found.items[::-1][place], readings[place]
    room = 100 / len(readings)
    wide = min(0.55 * room, 6.0)
    top = _height(axis.place(one.high))
    bottom = _height(axis.place(one.low))
    from_newest = len(readings) - 1 - place
    return Bar(
        span=one,
        day=found.day_of(one),
        reading=reading,
        left=(place + 0.5) * room - wide / 2,
        wide=wide,
        top=top,
        tall=bottom - top,
        mark=None if one.accuracy is None else _height(axis.place(one.accuracy)),
        is_named=from_newest % -(-len(readings) // _NAMED) == 0,
    )


def _height(place: str) -> float:
    """Return how far below the top a place along the axis lies, in percent."""
    share = float(place.removesuffix("%")) / 100
    return _ABOVE + (1 - share) * (100 - _ABOVE - _BELOW)
