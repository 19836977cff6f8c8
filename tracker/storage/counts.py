"""Running confusion counts, kept by the job."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import CheckConstraint, ForeignKey, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, for_partitions
from tracker.storage.detectors import Version
from tracker.storage.labels import Label, is_of_query, is_replaced
from tracker.storage.pending import (
    PendingBatch,
    belongs_to,
    lies_among,
    list_pending_batches,
)
from tracker.storage.queries import Query


class Count(Base):
    """How many queries of a version have this label and this prediction."""

    __tablename__ = "counts"
    __table_args__ = (
        CheckConstraint("number >= 0", name="number"),
        {"sqlite_with_rowid": False},
    )

    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id), primary_key=True)
    label: Mapped[str] = mapped_column(Name, primary_key=True)
    predicted: Mapped[str] = mapped_column(Name, primary_key=True)
    is_targeted: Mapped[bool] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigId)


class Cell(NamedTuple):
    """A cell of the confusion counts of one version."""

    label: str
    predicted: str
    is_targeted: bool


def load_counts(
    session: Session, version_ids: Iterable[int]
) -> dict[int, dict[Cell, int]]:
    """Return the stored counts of each version."""
    counts: dict[int, dict[Cell, int]] = {version_id: {} for version_id in version_ids}
    statement = select(Count).where(Count.version_id.in_(counts))
    for row in session.scalars(statement):
        cell = Cell(row.label, row.predicted, row.is_targeted)
        counts[row.version_id][cell] = row.number
    return counts


def store_counts(session: Session, version_id: int, cells: Mapping[Cell, int]) -> None:
    """Set the stored counts of *cells*, and leave the others as they are."""
    if not cells:
        return
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    statement: Any = (sqlite if is_sqlite else postgresql).insert(Count)
    statement = statement.on_conflict_do_update(
        index_elements=[
            Count.version_id,
            Count.label,
            Count.predicted,
            Count.is_targeted,
        ],
        set_={"number": statement.excluded.number},
    )
    rows = [
        {"version_id": version_id, **cell._asdict(), "number": number}
        for cell, number in cells.items()
    ]
    session.execute(statement, rows)


def count_pending_labels(
    session: Session, detector_id: int
) -> dict[int, dict[Cell, int]]:
    """Return what the labels that wait for the job change in the counts.

    A label adds one to its cell and takes one from the cell of the label that it
    replaces.  The database does the counting, because a file of a million labels
    may be waiting.
    """
    changes: dict[int, dict[Cell, int]] = {}
    batches = list_pending_batches(session, detector_id)
    if not batches:
        return changes
    for is_old in (False, True):
        shown = aliased(Label) if is_old else Label
        columns = (Query.version_id, shown.label, Query.predicted, shown.sampling)
        statement = (
            select(*columns, func.count())
            .select_from(PendingBatch)
            .join(Label, belongs_to(Label.id))
            .join(Query, is_of_query())
            .where(PendingBatch.detector_id == detector_id)
            .where(for_partitions(Label.detector_id == detector_id))
            .where(lies_among(Label.id, batches))
            .group_by(*columns)
        )
        if is_old:
            statement = statement.join(shown, is_replaced(shown))
        _add_up(changes, session.execute(statement), sign=-1 if is_old else 1)
    return changes


def count_pending_queries(
    session: Session, detector_id: int, batches: Sequence[int]
) -> dict[int, int]:
    """Count the queries of pending *batches*, all up to the last one, by version."""
    statement = (
        select(Query.version_id, func.count())
        .select_from(PendingBatch)
        .join(Query, belongs_to(Query.id))
        .where(PendingBatch.detector_id == detector_id)
        .where(PendingBatch.id <= batches[-1])
        .where(for_partitions(Query.detector_id == detector_id))
        .where(lies_among(Query.id, batches))
        .group_by(Query.version_id)
    )
    return dict(session.execute(statement).all())


def count_window(
    session: Session,
    detector_id: int,
    *,
    since: datetime | None,
    until: datetime | None,
) -> dict[int, dict[Cell, int]]:
    """Count the labelled queries asked at or after *since* and before *until*.

    Without either it is the recount of everything that ``recompute --all`` holds
    against the running counts.
    """
    columns = (Query.version_id, Query.label, Query.predicted, Query.sampling)
    statement = (
        select(*columns, func.count())
        .where(Query.detector_id == detector_id, Query.label.is_not(None))
        .group_by(*columns)
    )
    if since is not None:
        statement = statement.where(Query.asked_at >= since)
    if until is not None:
        statement = statement.where(Query.asked_at < until)
    counts: dict[int, dict[Cell, int]] = {}
    _add_up(counts, session.execute(statement), sign=1)
    return counts


def _add_up(
    counts: dict[int, dict[Cell, int]], rows: Iterable[Any], *, sign: int
) -> None:
    for version_id, label, predicted, sampling, number in rows:
        cells = counts.setdefault(version_id, {})
        cell = Cell(label, predicted, sampling == "targeted")
        cells[cell] = cells.get(cell, 0) + sign * number
