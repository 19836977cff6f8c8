"""Imports into SQLite that have not ended: their batches, hidden until they do.

SQLite has one writer at a time, so an import that wrote all of its rows in one
transaction would keep everybody else waiting for as long as it takes.  It therefore
writes in pieces, each a transaction of its own, into batches that are *staged*: no
other connection is shown their rows (see storage/hiding.py).  The last transaction
shows them, by deleting a row here, whatever their number.

A query that can be seen already is changed in its place, and what it was before is
noted, so that others are shown that until the import ends.  Where it never does, the
query becomes again what it was.

The import holds its batches by a lease, which each piece renews.  Where it has run
out, the worker gives them up and deletes their rows; a writer who is late finds that
they are given up, and writes no more.
"""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CursorResult, ForeignKey, Text, delete, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.pending import (
    BATCH_LIMIT,
    draw_batch,
    first_id,
    make_pending,
)
from tracker.storage.hiding import CHANGED, OWNER
from tracker.storage.labelling.labels import Label
from tracker.storage.queries.lookup import listed
from tracker.storage.queries.queries import Query

# A piece takes far less; those who wait to write do not wait so long for their turn.
_LEASE = timedelta(seconds=60)
_SKEW = timedelta(seconds=5)
_IN_PLACE = {"synchronize_session": False}


class StagedBatch(Base):
    """A batch that is hidden."""

    __tablename__ = "staged_batches"

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    # The first batch of the same import.
    owner_id: Mapped[int] = mapped_column(BigId)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    # The row of an import in the background.
    import_id: Mapped[int | None] = mapped_column(BigId)
    since: Mapped[datetime]
    until: Mapped[datetime]
    is_given_up: Mapped[bool]


class StagedVersion(Base):
    """A version that is hidden, because an import brought it."""

    __tablename__ = "staged_versions"

    version_id: Mapped[int] = mapped_column(
        ForeignKey(Version.id), primary_key=True, autoincrement=False
    )
    owner_id: Mapped[int] = mapped_column(BigId)


class StagedChange(Base):
    """What a query was before an import changed it that has not ended.

    Once it has, the row is of no use, and is deleted.
    """

    __tablename__ = "staged_changes"

    query_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    owner_id: Mapped[int] = mapped_column(BigId)
    input: Mapped[str | None] = mapped_column(Name)
    label_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str | None] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(Text)
    queue_rank: Mapped[float | None]
    agreement: Mapped[str | None] = mapped_column(Text)
    is_repeat: Mapped[bool]


def own(session: Session, owner_id: int | None) -> None:
    """Let the connection write as that import, until another is named."""
    session.connection().info[OWNER] = owner_id


def stage_batch(
    session: Session,
    detector_id: int,
    *,
    owner_id: int | None,
    import_id: int | None,
    at: datetime,
) -> int:
    """Return the number of a new batch that is hidden, its own owner if None is."""
    batch = draw_batch(session, detector_id, created_at=at)
    session.add(
        StagedBatch(
            id=batch,
            owner_id=batch if owner_id is None else owner_id,
            detector_id=detector_id,
            import_id=import_id,
            since=at,
            until=at + _LEASE,
            is_given_up=False,
        )
    )
    session.flush()
    return batch


def stage_versions(session: Session, version_ids: Iterable[int], owner_id: int) -> None:
    """Hide versions that were added just now."""
    session.add_all(StagedVersion(version_id=v, owner_id=owner_id) for v in version_ids)
    session.flush()


def renew_batches(session: Session, owner_id: int, *, at: datetime) -> bool:
    """Hold batches for longer; False if they were given up."""
    statement = update(StagedBatch).where(*_are_of(owner_id))
    return _count(session, statement.values(since=at, until=at + _LEASE)) > 0


def show_batches(
    session: Session, owner_id: int, version_ids: Collection[int], *, at: datetime
) -> bool:
    """Show what an import wrote and used, and let the job fold it; False if given up.

    Whatever it wrote can be seen once the caller's transaction is committed.
    """
    found = session.execute(
        delete(StagedBatch)
        .where(*_are_of(owner_id))
        .returning(StagedBatch.id, StagedBatch.detector_id),
        execution_options=_IN_PLACE,
    ).all()
    for batch, detector_id in sorted(found):
        make_pending(session, batch, detector_id, created_at=at)
    shown = delete(StagedVersion).where(StagedVersion.version_id.in_(version_ids))
    _count(session, shown)
    return bool(found)


def _are_of(owner_id: int) -> tuple[Any, ...]:
    return StagedBatch.owner_id == owner_id, ~StagedBatch.is_given_up


def give_up_batches(session: Session, owner_id: int) -> bool:
    """Let nothing more be written into the batches of an import; False if it ended."""
    statement = update(StagedBatch).where(StagedBatch.owner_id == owner_id)
    return _count(session, statement.values(is_given_up=True)) > 0


def is_staged_by_others(
    session: Session, query_ids: Collection[int], owner_id: int | None
) -> bool:
    """Return whether another import has added or changed one of the queries."""
    by_others = StagedBatch.owner_id.is_distinct_from(owner_id)
    found = session.execute(
        select(StagedBatch.id, StagedBatch.owner_id).where(by_others)
    )
    owners = {row.id: row.owner_id for row in found}
    if not owners.keys().isdisjoint(query_id // BATCH_LIMIT for query_id in query_ids):
        return True
    changed = select(StagedChange.query_id).where(
        StagedChange.query_id.in_(listed(session, list(query_ids))),
        StagedChange.owner_id.in_(set(owners.values())),
    )
    return bool(owners) and session.scalars(changed.limit(1)).first() is not None


def has_left_over(session: Session, *, at: datetime) -> bool:
    """Whether anything is left of imports that have ended or were given up."""
    if list_ended(session, at=at):
        return True
    is_over = StagedChange.owner_id.not_in(select(StagedBatch.id))
    left = select(StagedChange.query_id).where(is_over).limit(1)
    return session.scalar(left) is not None


def list_ended(
    session: Session, *, at: datetime, import_id: int | None = None
) -> list[int]:
    """Return the owners whose lease has run out, and those of the import *import_id*.

    An import that is taken up again begins from the start.
    """
    # A lease that began later than now was written before the clock was set back.
    is_held = (StagedBatch.since <= at + _SKEW) & (StagedBatch.until > at)
    is_over = StagedBatch.is_given_up | ~is_held
    if import_id is not None:
        is_over |= StagedBatch.import_id == import_id
    found = session.scalars(select(StagedBatch.owner_id).where(is_over).distinct())
    return sorted(found)


def delete_staged(session: Session, owner_id: int, *, limit: int) -> bool:
    """Delete some of the rows of batches that were given up; False once none is left.

    The session must be one that is shown everything.
    """
    own(session, owner_id)
    if _restore(session, owner_id, limit=limit):
        return True
    batches = session.scalars(
        select(StagedBatch.id).where(StagedBatch.owner_id == owner_id)
    ).all()
    for batch in batches:
        first = first_id(batch)
        for rows_of in (Label, Query):
            # As an expression, a limit in DELETE being no matter of course in SQLite.
            some = (
                select(rows_of.id)
                .where(rows_of.id.between(first, first_id(batch + 1) - 1))
                .limit(limit)
            )
            if _count(session, delete(rows_of).where(rows_of.id.in_(some))):
                return True
    mine = StagedVersion.owner_id == owner_id
    brought = session.scalars(select(StagedVersion.version_id).where(mine)).all()
    _count(session, delete(StagedVersion).where(mine))
    # Another import may have used the version too.
    is_used = select(Query.id).where(Query.version_id == Version.id).exists()
    _count(session, delete(Version).where(Version.id.in_(brought), ~is_used))
    _count(session, delete(StagedBatch).where(StagedBatch.owner_id == owner_id))
    return False


def _restore(session: Session, owner_id: int, *, limit: int) -> bool:
    """Make some queries again what they were; False if there were none."""
    mine = select(StagedChange.query_id).where(StagedChange.owner_id == owner_id)
    ids = session.scalars(mine.limit(limit)).all()
    if not ids:
        return False
    values = {name: getattr(StagedChange, name) for name in CHANGED}
    back = update(Query).where(Query.id.in_(ids), StagedChange.query_id == Query.id)
    _count(session, back.values(values))
    _count(session, delete(StagedChange).where(StagedChange.query_id.in_(ids)))
    return True


def forget_changes(session: Session, *, limit: int) -> bool:
    """Delete some of what is left of imports that have ended; False once none is."""
    left = select(StagedChange.query_id).where(
        StagedChange.owner_id.not_in(select(StagedBatch.id))
    )
    some = StagedChange.query_id.in_(left.limit(limit))
    return _count(session, delete(StagedChange).where(some)) > 0


def _count(session: Session, statement: Any) -> int:
    result = session.execute(statement, execution_options=_IN_PLACE)
    assert isinstance(result, CursorResult)
    return int(result.rowcount)
