"""Running counts of slices: the queries that share a value of their metadata."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import JSON, ForeignKey, Text, and_, case, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Detector, Version
from tracker.storage.dialect import day_of, upsert
from tracker.storage.estimates.pending import add_batch
from tracker.storage.queries.queries import Query
from tracker.words import is_scored


class SliceKey(Base):
    """A key of the metadata that a version is cut by, and the labels compared so far.

    *correct* and *labelled* go with the evidence of the slices, which takes labels as
    they were first given.
    """

    __tablename__ = "slice_keys"
    __table_args__ = ({"sqlite_with_rowid": False},)

    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id), primary_key=True)
    name: Mapped[str] = mapped_column(Name, primary_key=True)
    correct: Mapped[int] = mapped_column(BigId)
    labelled: Mapped[int] = mapped_column(BigId)


class Slice(Base):
    """The queries of a version that have one value under a key."""

    __tablename__ = "slices"
    __table_args__ = ({"sqlite_with_rowid": False},)

    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id), primary_key=True)
    name: Mapped[str] = mapped_column(Name, primary_key=True)
    value: Mapped[str] = mapped_column(Name, primary_key=True)
    queries: Mapped[int] = mapped_column(BigId)
    # By class, [correct, labelled].  One row for a slice, so that five hundred of a
    # thousand classes are still five hundred rows.
    counts: Mapped[dict[str, list[int]]] = mapped_column(JSON)
    # The logarithms of the evidence for worse and better, now and at their largest.
    worse: Mapped[float]
    better: Mapped[float]
    worse_peak: Mapped[float]
    better_peak: Mapped[float]
    # What the evidence continues from: JSON, read by the job alone.
    state: Mapped[str] = mapped_column(Text)
    # Whether an event has said that it is worse.
    is_told: Mapped[bool]


_SHOWN = (
    Slice.value,
    Slice.queries,
    Slice.counts,
    Slice.worse,
    Slice.better,
    Slice.worse_peak,
    Slice.better_peak,
    Slice.is_told,
)


def find_slice_key(session: Session, version_id: int, name: str) -> SliceKey | None:
    """Return how far the comparison of the slices by a key has come."""
    return session.get(SliceKey, (version_id, name))


def list_slices(session: Session, version_id: int, name: str) -> Sequence[Any]:
    """Return the slices of a version by a key, without what the job continues from."""
    statement = (
        select(*_SHOWN)
        .where(Slice.version_id == version_id, Slice.name == name)
        .order_by(Slice.value)
    )
    return session.execute(statement).all()


def list_slice_values(session: Session, version_id: int, name: str) -> set[str]:
    """Return the values that a version has slices of by a key."""
    statement = select(Slice.value).where(
        Slice.version_id == version_id, Slice.name == name
    )
    return set(session.scalars(statement))


def load_slices(
    session: Session, version_id: int, name: str, values: Collection[str]
) -> Sequence[Any]:
    """Return those slices of a version by a key that have one of *values*.

    Rows have ``value``, ``queries``, ``counts``, ``is_told`` and ``state``.
    """
    statement = select(
        Slice.value, Slice.queries, Slice.counts, Slice.is_told, Slice.state
    ).where(Slice.version_id == version_id, Slice.name == name, Slice.value.in_(values))
    return session.execute(statement).all()


def store_slices(
    session: Session, keys: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]]
) -> None:
    """Set the rows of keys and of slices, and leave the others as they are."""
    upsert(session, SliceKey, keys)
    upsert(session, Slice, rows)


def delete_slices(session: Session, detector_id: int, names: Iterable[str]) -> None:
    """Delete the slices of a detector by the keys *names*."""
    versions = select(Version.id).where(Version.detector_id == detector_id)
    for table in (Slice, SliceKey):
        session.execute(
            delete(table)
            .where(table.version_id.in_(versions), table.name.in_(list(names)))
            .execution_options(synchronize_session=False)
        )


def list_uncounted(detector: Detector) -> list[str]:
    """Return the keys that a detector declares and the job does not count yet."""
    return [name for name in detector.slices if name not in detector.counted_slices]


def list_counted(detector: Detector) -> list[str]:
    """Return the keys that a detector declares and the job keeps counts of."""
    return [name for name in detector.slices if name in detector.counted_slices]


def count_slices_again(
    session: Session, detector: Detector, *, created_at: datetime
) -> None:
    """Let the job count all slices of a detector from its labels, in the background.

    For a change of what was counted already, such as metadata that are erased.
    """
    if detector.slices:
        detector.counted_slices = []
        # The job takes up a detector that has a batch, be it an empty one.
        add_batch(session, detector.id, created_at=created_at)


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
) -> dict[Any, CutCounts]:
    """Count queries and scored labels of versions by a *column* of the queries.

    A day stands for ``asked_at``.  It reads every query of the versions.
    """
    kind: Any = getattr(Query, column)
    if column == "asked_at":
        kind = day_of(session, kind)
    scored = and_(
        Query.label.is_not(None),
        is_scored(Query.label, Query.sampling),
        ~Query.is_repeat,
    )
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
