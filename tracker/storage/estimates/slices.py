"""The keys that a detector is cut by, and cuts that the database counts."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

from tracker.storage.detectors import Detector
from tracker.storage.dialect import day_of
from tracker.storage.estimates import projections
from tracker.storage.estimates.cells import Standings
from tracker.storage.estimates.pending import add_batch
from tracker.storage.queries.queries import Query, has_standing

# The projection of the keys, with the labels compared so far; and before the name of
# a key, that of its slices, and that of the evidence on them in each compared measure.
SLICED = "slices"
SLICE = "slices."
EVIDENCE = "slice_evidence."


def delete_slices(session: Session, detector_id: int, names: Iterable[str]) -> None:
    for name in names:
        projections.delete_projections(session, detector_id, SLICE + name)
        projections.delete_projections(session, detector_id, EVIDENCE + name)
        projections.delete_projections(session, detector_id, SLICED, key=name)


def list_uncounted(detector: Detector) -> list[str]:
    return [name for name in detector.slices if name not in detector.counted_slices]


def list_counted(detector: Detector) -> list[str]:
    return [name for name in detector.slices if name in detector.counted_slices]


def count_slices_again(
    session: Session, detector: Detector, *, created_at: datetime
) -> None:
    """Let the job count all slices of a detector from its labels, in the background.

    For a change of what was counted already, such as metadata that are erased.
    """
    if detector.slices:
        leave_uncounted(detector)
        # The job takes up a detector that has a batch, be it an empty one.
        add_batch(session, detector.id, created_at=created_at)


def leave_uncounted(detector: Detector) -> None:
    detector.counted_slices = []
    # Also if a recount that began before stores its keys meanwhile.
    flag_modified(detector, "counted_slices")


class CutCounts(NamedTuple):
    """Queries of one kind: how many there are, and which labels they have."""

    queries: int
    # (label, predicted) and how many.
    cells: dict[tuple[str, str], int]


def count_cut(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    column: str,
    standings: Standings,
) -> dict[Any, CutCounts]:
    """Count queries and labels of *standings* by a *column* of the queries.

    A day stands for ``asked_at``.  It reads every query of the versions.
    """
    kind: Any = getattr(Query, column)
    if column == "asked_at":
        kind = day_of(session, kind)
    scored = has_standing(Query, standings)
    label = case((scored, Query.label)).label("scored_label")
    statement = (
        select(kind, label, Query.predicted, func.count())
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .group_by(kind, label, Query.predicted)
    )
    found: dict[Any, CutCounts] = {}
    for value, given, predicted, number in session.execute(statement):
        queries, cells = found.get(value, CutCounts(0, {}))
        if given is not None:
            cells[given, predicted] = cells.get((given, predicted), 0) + number
        found[value] = CutCounts(queries + number, cells)
    return found
