"""Two versions of a detector, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import database, now, requires
from tracker.services.comparison import Comparison, get_comparison
from tracker.services.detectors import get_detector
from tracker.services.estimates import Estimate
from tracker.storage.detectors import Detector, list_versions
from tracker.web.blueprint import pages
from tracker.web.differences import Axis, Bar, build_axis, draw_change, dump_p_value
from tracker.web.readings import MOST_ROWS, Reading, read_balanced, read_classes


@dataclass(frozen=True, slots=True)
class Line:
    """What the labels of each version say of one class, or of all."""

    bar: Bar
    old: Reading
    new: Reading


@dataclass(frozen=True, slots=True)
class Report:
    """What the page says of two versions; the first of each row is balanced."""

    comparison: Comparison
    axis: Axis
    bars: Sequence[Bar]
    paired: Sequence[Bar]
    unpaired: Sequence[Line]


pages.add_app_template_global(dump_p_value)


@pages.get("/detectors/<detector_id>/compare")
@requires("viewer")
def show_comparison(detector_id: str) -> ResponseReturnValue:
    """Show whether one version is better than another, and how sure that is."""
    limit = None if "all" in request.args else MOST_ROWS
    report, problem, status = None, None, 200
    with database().read() as session:
        detector = get_detector(session, detector_id)
        try:
            report = build_report(_compare(session, detector), limit=limit)
        except (InvalidInputError, ConflictError) as error:
            is_wrong = isinstance(error, InvalidInputError)
            # With one version alone nothing was done wrong.
            problem, status = str(error), 400 if is_wrong else 200
        page = render_template(
            "comparison/comparison.html",
            detector=detector,
            report=report,
            problem=problem,
            versions=list_versions(session, detector.id),
        )
    return page, status


def _compare(session: Session, detector: Detector) -> Comparison:
    return get_comparison(
        session,
        detector,
        computed_at=now(),
        old=request.args.get("old") or None,
        new=request.args.get("new") or None,
    )


def build_report(comparison: Comparison, *, limit: int | None) -> Report:
    """Return what the page says, of at most *limit* classes."""
    paired, unpaired = comparison.paired, comparison.unpaired
    places = _choose_rows(comparison, limit)
    was, is_now = _read(unpaired.old, places), _read(unpaired.new, places)
    own = [unpaired.balanced, *unpaired.classes]
    lines = [
        Line(draw_change(own[place], old), old, new)
        for place, old, new in zip(places, was, is_now, strict=True)
    ]
    same = [paired.balanced, *paired.classes] if paired else []
    pairs = [
        draw_change(same[place], reading)
        for place, reading in zip(places if paired else [], was, strict=False)
    ]
    bars = (
        pairs if comparison.verdict_from == "paired" else [line.bar for line in lines]
    )
    return Report(comparison, build_axis(bars), bars, pairs, lines)


def _choose_rows(comparison: Comparison, limit: int | None) -> list[int]:
    """Return the places of the rows: balanced is 0, and the classes follow.

    Where not all are shown it is those of which most changed.
    """
    classes = comparison.unpaired.classes
    places: Sequence[int] = range(1, len(classes) + 1)
    if limit is not None and len(classes) > limit:
        changed: list[float]
        if comparison.paired:
            changed = [abs(one.gained - one.lost) for one in comparison.paired.classes]
        else:
            changed = [abs(one.difference or 0) for one in classes]
        places = sorted(sorted(places, key=lambda place: -changed[place - 1])[:limit])
    return [0, *places]


def _read(estimate: Estimate, places: Sequence[int]) -> list[Reading]:
    readings = [read_balanced(estimate), *read_classes(estimate)]
    return [readings[place] for place in places]
