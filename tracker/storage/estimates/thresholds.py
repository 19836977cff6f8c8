"""Queries and scored labels by the confidence of the prediction."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from tracker.storage.dialect import floor
from tracker.storage.estimates import projections
from tracker.storage.estimates.cells import STEPS, Cell, Standings
from tracker.storage.estimates.counts import count_pending
from tracker.storage.estimates.pending import Pending, list_pending_batches, of_pending
from tracker.storage.estimates.projections import Kept, Row
from tracker.storage.queries.queries import Query
from tracker.words import UNCLEAR, WITHDRAWN

# The projection of the bins, a tenth under each key, and what retention deleted.
CONFIDENCES = "confidences"
DELETED = "confidences.deleted"
# Sums are of whole numbers, which come to the same in every order.
_PARTS = 1_000_000_000


class ConfidenceBin(NamedTuple):
    """The queries whose confidence lies in one step, and their scored labels.

    *least* is the lowest confidence that was among them, *confidence* their sum.
    """

    step: int
    least: float
    confidence: float
    queries: int
    correct: int
    labelled: int


@dataclass(slots=True)
class Bin:
    """What is kept of one step."""

    queries: int = 0
    least: float = 1.0
    parts: int = 0
    # By standing the labels that are correct, and all that are scored.
    labels: dict[str, Sequence[int]] = field(default_factory=dict)

    def count(self, cell: Cell, number: int) -> None:
        if cell.label != UNCLEAR and cell.standing != WITHDRAWN:
            correct, labelled = self.labels.get(cell.standing, (0, 0))
            correct += number if cell.label == cell.predicted else 0
            self.labels[cell.standing] = (correct, labelled + number)

    def add(self, other: "Bin") -> None:
        self.queries += other.queries
        self.least = min(self.least, other.least)
        self.parts += other.parts
        for standing, numbers in other.labels.items():
            mine = self.labels.get(standing, (0, 0))
            self.labels[standing] = [a + b for a, b in zip(mine, numbers, strict=True)]


class Bins(dict[int, Bin]):
    """Bins by their steps."""

    def dump(self) -> dict[str, Any]:
        return {str(step): astuple(one) for step, one in sorted(self.items())}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "Bins":
        return cls({int(step): Bin(*parts) for step, parts in state.items()})


def key_of(step: int) -> str:
    return str(step * 10 // STEPS)


def _step(session: Session) -> Any:
    return floor(session, Query.confidence * STEPS).label("step")


def count_pending_confidences(
    session: Session, batches: Pending, *, until: int | None = None
) -> Iterator[tuple[int, int, int, Bin]]:
    """Yield detector, version, step and queries of pending *batches*."""
    place = (Query.detector_id, Query.version_id, _step(session))
    parts = func.sum(floor(session, Query.confidence * _PARTS + 0.5))
    columns = select(*place, func.count(), func.min(Query.confidence), parts)
    rows = of_pending(columns, Query, batches, until=until)
    counted = rows.where(Query.confidence.is_not(None)).group_by(*place)
    for detector_id, version_id, step, *kept in session.execute(counted):
        queries, least, total = kept
        yield detector_id, version_id, step, Bin(queries, least, int(total))


def count_confidences(
    session: Session,
    detector_id: int,
    version_ids: Collection[int],
    standings: Standings,
    *,
    are_pooled: bool = False,
) -> list[ConfidenceBin]:
    """Return the bins that hold queries of these versions, the lowest first.

    They are what is kept, with what waits for the job.  Labels with one of *standings*
    are counted in them, of versions that *are pooled* each input once.
    """
    place = session, detector_id, version_ids
    row = projections.Projection
    kept = select(row.state).where(
        row.detector_id == detector_id,
        row.version_id.in_(version_ids),
        row.name.in_((CONFIDENCES, DELETED)),
    )
    states = (Bins.load(state).items() for state in session.scalars(kept))
    unpooled = _iter_unpooled(*place) if are_pooled else ()
    bins = Bins()
    for step, one in chain(*states, _iter_waiting(*place), unpooled):
        bins.setdefault(step, Bin()).add(one)
    found = []
    for step, one in sorted(bins.items()):
        numbers = [one.labels.get(name, (0, 0)) for name in standings]
        correct, labelled = (sum(some) for some in zip((0, 0), *numbers, strict=True))
        whole = one.least, one.parts / _PARTS, one.queries
        if one.queries:
            found.append(ConfidenceBin(step, *whole, correct, labelled))
    return found


def _iter_waiting(
    session: Session, detector_id: int, version_ids: Collection[int]
) -> Iterator[tuple[int, Bin]]:
    batches = list_pending_batches(session, [detector_id])
    if not batches:
        return
    for _, version_id, step, one in count_pending_confidences(session, batches):
        if version_id in version_ids:
            yield step, one
    labels = count_pending(session, [detector_id], [_step(session)])
    for (_, version_id, step), counts in labels.items():
        if version_id in version_ids and step is not None:
            one = Bin()
            for cell, number in counts.cells.items():
                one.count(cell, number)
            yield step, one


def _iter_unpooled(
    session: Session, detector_id: int, version_ids: Collection[int]
) -> Iterator[tuple[int, Bin]]:
    """Yield, below zero, labels that do not count where versions are pooled."""
    kind = (_step(session), Query.standing, Query.label, Query.predicted)
    statement = (
        select(*kind, func.count())
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .where(Query.label.is_not(None), Query.confidence.is_not(None))
        # As the index has it, which would not be used for IS false.
        .where(text("NOT queries.is_pooled"))
        .group_by(*kind)
    )
    for step, *cell, number in session.execute(statement):
        one = Bin()
        one.count(Cell(*cell), -number)
        yield step, one


def forget_confidences(
    session: Session, deleted: Iterable[tuple[int, int, float | None]]
) -> None:
    """Note that queries are gone: the detector, version and confidence of each."""
    bins: dict[Row, Bins] = {}
    for detector_id, version_id, confidence in deleted:
        if confidence is not None:
            step, parts = int(confidence * STEPS), int(confidence * _PARTS + 0.5)
            row = (detector_id, version_id, DELETED, key_of(step))
            one = bins.setdefault(row, Bins()).setdefault(step, Bin())
            one.add(Bin(-1, confidence, -parts))
    for row, kept in projections.load_projections(session, bins).items():
        for step, one in Bins.load(kept.state).items():
            bins[row].setdefault(step, Bin()).add(one)
    projections.store_projections(
        session, {row: Kept(row[-1], some.dump()) for row, some in bins.items()}
    )
