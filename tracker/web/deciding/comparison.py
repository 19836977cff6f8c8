"""Two versions side by side: a card on Changes."""

from dataclasses import dataclass

from flask import request
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.http import by, now
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.deciding.pairs import Change
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.queues import (
    DISAGREEMENTS,
    QueueChoice,
    build_queue,
    count_waiting,
)
from tracker.storage.detectors import Detector
from tracker.web.drawing.differences import Axis, Bar, build_axis, draw_change


@dataclass(frozen=True, slots=True)
class Compared:
    """Two versions, in the measure that decides."""

    comparison: Comparison
    # Disagreements without a label, up to a limit.
    waiting: int
    bar: Bar | None
    axis: Axis | None

    @property
    def pairs(self) -> int:
        """The labelled inputs that the measure is of."""
        paired, found = self.comparison.paired, self.comparison.decision
        if paired is None or found is None:
            return 0
        of = {one.name: one.pairs for one in paired.classes}
        return of.get(read_measure(found.measure).of or "", paired.pairs)


def read_comparison(session: Session, detector: Detector) -> Compared | None:
    """Compare the versions in the address; raises InvalidInputError for another one.

    None unless two are named, or where there is but one.
    """
    old, new = request.args.get("old") or None, request.args.get("new") or None
    if not (old or new):
        return None
    try:
        found = get_comparison(session, detector, computed_at=now(), old=old, new=new)
    except ConflictError:
        return None
    chosen = QueueChoice(queue=DISAGREEMENTS, old=found.old, new=found.new)
    waiting = count_waiting(session, build_queue(session, detector, chosen, by()))
    bar = None
    if found.decision:
        bar = draw_change(Change.from_row(found.decision), found.new, 0)
    return Compared(found, waiting, bar, build_axis([bar]) if bar else None)
