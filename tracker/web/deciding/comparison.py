"""Two versions of a detector, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database, now, requires
from tracker.services.deciding.comparison import (
    Comparison,
    Unpaired,
    get_comparison,
)
from tracker.services.deciding.pairs import Change
from tracker.services.detectors import get_detector
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.queues import (
    DISAGREEMENTS,
    QueueChoice,
    build_queue,
    count_waiting,
)
from tracker.storage.detectors import Detector, list_versions
from tracker.web.blueprint import pages
from tracker.web.drawing.differences import (
    Axis,
    Bar,
    Won,
    build_axis,
    describe_won,
    draw_change,
    dump_p_value,
)
from tracker.web.drawing.readings import MOST_ROWS, Reading, read, read_mean, tone_of
from tracker.words import DECIDING_METHOD


@dataclass(frozen=True, slots=True)
class Line:
    """What the labels of each version say of one class, or of all."""

    bar: Bar
    old: Reading
    new: Reading


@dataclass(frozen=True, slots=True)
class Report:
    """The page that compares two versions; the first of each row is balanced."""

    comparison: Comparison
    axis: Axis
    bars: Sequence[Bar]
    paired: Sequence[Bar]
    unpaired: Sequence[Line]
    won: Won | None
    decided: "Decided | None"


@dataclass(frozen=True, slots=True)
class Decided:
    """The change of the measure that the verdict is about."""

    bar: Bar
    axis: Axis
    pairs: int


pages.add_app_template_global(dump_p_value)


@pages.get("/detectors/<detector_id>/compare")
@requires("viewer")
def show_comparison(detector_id: str) -> ResponseReturnValue:
    """Show whether one version is better than another, and how sure that is."""
    limit = None if "all" in request.args else MOST_ROWS
    report, problem, status, waiting = None, None, 200, 0
    with database().read() as session:
        detector = get_detector(session, detector_id)
        try:
            report = build_report(_compare(session, detector), limit=limit)
            waiting = _count_waiting(session, detector, report.comparison)
        except (InvalidInputError, ConflictError) as error:
            is_wrong = isinstance(error, InvalidInputError)
            # With one version alone nothing was done wrong.
            problem, status = str(error), 400 if is_wrong else 200
        page = render_template(
            "comparison/comparison.html",
            detector=detector,
            report=report,
            problem=problem,
            waiting=waiting,
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
        method=DECIDING_METHOD,
    )


def _count_waiting(session: Session, detector: Detector, found: Comparison) -> int:
    """Count the inputs without a label that the versions disagree on, up to a limit."""
    chosen = QueueChoice(queue=DISAGREEMENTS, old=found.old, new=found.new)
    return count_waiting(session, build_queue(session, detector, chosen, by()))


def build_report(comparison: Comparison, *, limit: int | None) -> Report:
    """Return the contents of the page, with at most *limit* classes."""
    paired, unpaired = comparison.paired, comparison.unpaired
    places = _choose_rows(comparison, limit)
    own = [unpaired.balanced, *unpaired.classes]
    lines = []
    for place in places:
        old, new = _read(unpaired, place)
        lines.append(Line(draw_change(own[place], old.name, old.tone), old, new))
    same = [paired.balanced, *paired.classes] if paired else []
    pairs = [
        draw_change(same[place], line.old.name, line.old.tone)
        for place, line in zip(places if paired else [], lines, strict=False)
    ]
    bars = (
        pairs if comparison.verdict_from == "paired" else [line.bar for line in lines]
    )
    won = describe_won(paired.decision) if paired else None
    decided = _draw_decision(comparison)
    return Report(comparison, build_axis(bars), bars, pairs, lines, won, decided)


def _draw_decision(comparison: Comparison) -> Decided | None:
    found, paired = comparison.decision, comparison.paired
    if found is None or paired is None:
        return None
    measure = read_measure(found.measure)
    name, tone, pairs = measure.kind.capitalize(), 0, paired.pairs
    if measure.of is not None:
        place = [one.name for one in paired.classes].index(measure.of)
        name, tone, pairs = measure.of, tone_of(place), paired.classes[place].pairs
    bar = draw_change(Change.from_row(found), name, tone)
    return Decided(bar, build_axis([bar]), pairs)


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


def _read(unpaired: Unpaired, place: int) -> tuple[Reading, Reading]:
    """Return the accuracies of the old and the new version in one row."""
    if place:
        one, tone = unpaired.classes[place - 1], tone_of(place - 1)
        old, new = (read(side, name=one.name, tone=tone) for side in (one.old, one.new))
        return old, new
    was = {one.name: one.old.labelled for one in unpaired.classes}
    now_is = {one.name: one.new.labelled for one in unpaired.classes}
    whole = unpaired.balanced
    return read_mean(whole.old, was), read_mean(whole.new, now_is)
