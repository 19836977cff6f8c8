"""Snapshots: the estimates as stored at a moment; append-only."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Key, are_among, columns_of, stream
from tracker.storage.detectors import Version, is_of_version, of_version
from tracker.storage.estimates.job_runs import JobRun
from tracker.storage.inserting import insert_columns, insert_rows
from tracker.words import EXACT, RECALL


class Snapshot(Base):
    """One version's estimate as it stood after some number of labels."""

    __tablename__ = "snapshots"
    __table_args__ = (
        of_version(),
        sa.ForeignKeyConstraint(
            ["detector_id", "job_run_id"], [JobRun.detector_id, JobRun.id]
        ),
        sa.Index(None, "detector_id", "version_id", "kind", "sequence"),
        sa.CheckConstraint("kind IN ('checkpoint', 'run')", name="kind"),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # Order within a version; a clock may be set back, this never is.  Two workers that
    # fold the same labels would give one number twice, should everything else fail.
    sequence: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    computed_at: Mapped[datetime]
    job_run_id: Mapped[int] = mapped_column(BigId)
    confidence_level: Mapped[float]
    # Whose labels it counts: live, replayed or unstated.
    population: Mapped[str] = mapped_column(sa.Text)
    # Scored labels of the population.
    labels: Mapped[int] = mapped_column(BigId)
    unclear: Mapped[int] = mapped_column(BigId)
    targeted_left_out: Mapped[int] = mapped_column(BigId)


class _Scored:
    """The snapshot that a score belongs to, and its figures."""

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True, sort_order=-1)
    version_id: Mapped[int] = mapped_column(BigId, primary_key=True, sort_order=-1)
    sequence: Mapped[int] = mapped_column(BigId, primary_key=True, sort_order=-1)
    correct: Mapped[int] = mapped_column(BigId)
    # The queries among which the correct ones are counted: those with the class as
    # label, of precision as prediction, of F1 as either.
    labelled: Mapped[int] = mapped_column(BigId)
    accuracy: Mapped[float | None]
    low: Mapped[float]
    high: Mapped[float]
    # Of the method, which may have been made narrower since.
    formula: Mapped[int] = mapped_column(sa.SmallInteger, server_default="1")


def _of_snapshot() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["detector_id", "version_id", "sequence"],
        [Snapshot.detector_id, Snapshot.version_id, Snapshot.sequence],
    )


class SnapshotInterval(_Scored, Base):
    """One row of a snapshot: a class, or the balanced accuracy."""

    __tablename__ = "snapshot_intervals"
    __table_args__ = (_of_snapshot(), {"sqlite_with_rowid": False})

    method: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    # 0 for balanced, then the classes of the detector in their order from 1.
    position: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True)


class SnapshotMeasure(_Scored, Base):
    """Another measure in a snapshot, by the method exact."""

    __tablename__ = "snapshot_measures"
    __table_args__ = (_of_snapshot(), {"sqlite_with_rowid": False})

    # overall, precision or f1.
    measure: Mapped[str] = mapped_column(sa.Text, primary_key=True)
    # 0 for all classes together, then the classes as in the intervals.
    position: Mapped[int] = mapped_column(sa.SmallInteger, primary_key=True)


def add_snapshots(
    session: Session,
    snapshots: Sequence[dict[str, Any]],
    intervals: Mapping[str, Sequence[Any]],
    measures: Mapping[str, Sequence[Any]],
) -> None:
    """Insert snapshots, and as columns, if any, their intervals and measures."""
    insert_rows(session, Snapshot, snapshots)
    for rows_of, columns in (
        (SnapshotInterval, intervals),
        (SnapshotMeasure, measures),
    ):
        if columns:
            insert_columns(session, rows_of, columns)


def _of(version: Version) -> sa.ColumnElement[bool]:
    is_theirs = Snapshot.detector_id == version.detector_id
    return is_theirs & (Snapshot.version_id == version.id)


def list_marks(
    session: Session, version: Version, *, by: datetime | None = None
) -> Sequence[Any]:
    """Return sequence and labels of a version's checkpoints and last snapshot."""
    known = [_of(version)]
    if by is not None:
        known.append(Snapshot.computed_at <= by)
    last = sa.select(sa.func.max(Snapshot.sequence)).where(*known).scalar_subquery()
    is_mark = (Snapshot.kind == "checkpoint") | (Snapshot.sequence == last)
    statement = sa.select(Snapshot.sequence, Snapshot.labels).where(*known, is_mark)
    return session.execute(statement.order_by(Snapshot.sequence)).all()


def find_newest_snapshot(
    session: Session, version: Version, *, by: datetime | None = None
) -> Snapshot | None:
    """Return the last snapshot of a version, or the last *by* an instant."""
    known = [_of(version)]
    if by is not None:
        known.append(Snapshot.computed_at <= by)
    newest = sa.select(Snapshot).where(*known).order_by(Snapshot.sequence.desc())
    return session.scalars(newest.limit(1)).one_or_none()


def list_snapshots(
    session: Session,
    version: Version,
    *,
    beyond: int | None = None,
    is_oldest_first: bool = False,
    limit: int,
) -> Sequence[Snapshot]:
    """Return snapshots of a version, those *beyond* a sequence, the newest first."""
    sequence = Snapshot.sequence
    statement = sa.select(Snapshot).where(_of(version))
    if beyond is not None:
        is_behind = sequence > beyond if is_oldest_first else sequence < beyond
        statement = statement.where(is_behind)
    order = sequence.asc() if is_oldest_first else sequence.desc()
    return session.scalars(statement.order_by(order).limit(limit)).all()


def list_newest_intervals(
    session: Session, *, versions: Collection[Key] | None = None
) -> Sequence[Any]:
    """Return the rows of the newest snapshot of every version, or of some of them."""
    is_newest = is_of_version(Snapshot) & (Version.sequence == Snapshot.sequence)
    row = SnapshotInterval.method, SnapshotInterval.position
    statement = _rows().join(Version, is_newest).order_by(Snapshot.version_id, *row)
    named = Version.detector_id, Version.name.label("version")
    statement = statement.add_columns(*named)
    if versions is not None:
        statement = statement.where(are_among(Version, versions))
    return session.execute(statement).all()


def iter_intervals(  # noqa: PLR0913 - one argument for each filter.
    session: Session,
    versions: Sequence[Version],
    *,
    measure: str = RECALL,
    method: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[int, int] | None = None,
) -> Iterator[Any]:
    """Stream the history of *versions* in a time window, behind *after* if given."""
    place = (Snapshot.version_id, Snapshot.sequence)
    statement = _rows(measure, method).where(
        Snapshot.detector_id.in_({one.detector_id for one in versions}),
        Snapshot.version_id.in_([one.id for one in versions]),
    )
    of = (SnapshotInterval.method, SnapshotInterval.position)
    order = of if measure == RECALL else (SnapshotMeasure.position,)
    statement = statement.order_by(*place, *order)
    if since is not None:
        statement = statement.where(Snapshot.computed_at >= since)
    if until is not None:
        statement = statement.where(Snapshot.computed_at < until)
    if after is not None:
        statement = statement.where(sa.tuple_(*place) > after)
    return stream(session, statement)


def list_intervals_of(  # noqa: PLR0913 - one argument for each filter.
    session: Session,
    version: Version,
    sequences: Sequence[int],
    *,
    measure: str = RECALL,
    method: str,
    positions: Sequence[int] | None = None,
) -> Sequence[Any]:
    """Return the rows of these snapshots of a version by *method*, in order."""
    of: Any = SnapshotInterval if measure == RECALL else SnapshotMeasure
    statement = (
        _rows(measure, method)
        .where(_of(version), of.sequence.in_(sequences))
        # It follows from the join; without it PostgreSQL may read a whole version.
        .where(of.detector_id == version.detector_id, of.version_id == version.id)
        .order_by(Snapshot.sequence, of.position)
    )
    if positions is not None:
        statement = statement.where(of.position.in_(positions))
    return session.execute(statement).all()


def _rows(
    measure: str = RECALL, method: str | None = None
) -> sa.Select[*tuple[Any, ...]]:
    of: Any = SnapshotInterval if measure == RECALL else SnapshotMeasure
    names = "version_id", "sequence", "kind", "computed_at", "confidence_level"
    figures = "position", "correct", "labelled", "accuracy", "low", "high", "formula"
    statement = sa.select(
        *columns_of(Snapshot, *names, "labels"),
        of.method if measure == RECALL else sa.literal(EXACT).label("method"),
        *columns_of(of, *figures),
        Snapshot.population,
    ).join_from(
        Snapshot,
        of,
        (of.detector_id == Snapshot.detector_id)
        & (of.version_id == Snapshot.version_id)
        & (of.sequence == Snapshot.sequence),
    )
    if measure != RECALL:
        return statement.where(of.measure == measure)
    return statement if method is None else statement.where(of.method == method)
