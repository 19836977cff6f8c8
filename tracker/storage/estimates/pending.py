"""Pending work: one row for each batch that the job has not folded in yet.

A *batch* is everything that one request or one piece of an imported file added.  Its
number leads the ids of its queries and labels (id = batch x 2**24 + position), so
that one allocation serves thousands of rows, rows of a batch lie side by side, and
the job finds them by a range of primary keys.

The row is written in the transaction of the batch.  Whenever that commits, early
or late, the row becomes visible together with the labels; a watermark on ids or
times would miss a transaction that commits late.  The job deletes the row in the
transaction that folds the batch into the running counts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, UtcDateTime, on_postgresql, owner
from tracker.storage.detectors import VERSION_NAMES, Detector, Version
from tracker.storage.inserting import Prepared, insert_rows
from tracker.storage.tasks import RECOMPUTE, Task, enqueue_each
from tracker.words import STALE

_BATCH_BITS = 24
BATCH_LIMIT = 1 << _BATCH_BITS
# No id is so large.
END = 2**63 - 1
Pending = Mapping[int, Sequence[int]]
"""By detector: the numbers of its pending batches, in order."""


class PendingBatch(Base):
    """A batch that the job has not folded in yet."""

    __tablename__ = "pending_batches"

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    created_at: Mapped[datetime]
    # The first row that waits, of a batch that is folded in part; None: all wait.
    next_id: Mapped[int | None] = mapped_column(BigId)


_BATCHES = cast(sa.Table, PendingBatch.__table__)
_ADD = Prepared(
    sa.insert(_BATCHES).returning(_BATCHES.c.id), columns=("detector_id", "created_at")
)

_ITS_VERSION = sa.select(Version.id).where(
    Version.detector_id == sa.bindparam("of_detector"),
    Version.name == sa.bindparam("version"),
)
_ADD_AND_FIND = Prepared(
    sa.insert(_BATCHES).returning(_BATCHES.c.id, _ITS_VERSION.scalar_subquery()),
    columns=("detector_id", "created_at"),
)


def add_batch(session: Session, detector_id: int, *, created_at: datetime) -> int:
    values = {"detector_id": detector_id, "created_at": created_at}
    (number,) = _ADD.first(session, values)
    return int(number)


def count_groups_again(
    session: Session, detector_id: int, *, created_at: datetime
) -> None:
    """Let the job find the groups of all queries again, and what counts for them."""
    base.change_rows(session, Detector, Detector.id == detector_id, groups=STALE)
    # The job takes up a detector that has a batch, be it an empty one.
    add_batch(session, detector_id, created_at=created_at)


def draw_batch(session: Session, detector_id: int, *, created_at: datetime) -> int:
    batch = add_batch(session, detector_id, created_at=created_at)
    delete_batches(session, detector_id, [batch])
    return batch


def make_pending(
    session: Session, batch: int, detector_id: int, *, created_at: datetime
) -> None:
    """Let the job fold in a batch that was drawn; once, with what is to be folded."""
    row: dict[str, Any] = {"id": batch, "detector_id": detector_id, "next_id": None}
    insert_rows(session, PendingBatch, [row | {"created_at": created_at}])


def add_batch_of(
    session: Session, detector_id: int, version: str, *, created_at: datetime
) -> tuple[int, int | None]:
    """Add a batch, and return its first id and the id of a version, if there is one.

    One statement: every query that a program logs asks this.
    """
    given = {"of_detector": detector_id, "version": version}
    values = {"detector_id": detector_id, "created_at": created_at}
    [(number, version_id)] = _ADD_AND_FIND.run(session, values | given)
    if version_id is not None:
        session.info.setdefault(VERSION_NAMES, {})[version_id] = version
    return number << _BATCH_BITS, version_id


def first_id(batch: int) -> int:
    return batch << _BATCH_BITS


def belongs_to(column: InstrumentedAttribute[int]) -> sa.ColumnElement[bool]:
    """Return the condition that an id *column* is that of a row of a pending batch."""
    start = PendingBatch.id * BATCH_LIMIT
    first = sa.func.coalesce(PendingBatch.next_id, start)
    in_range = column.between(first, start + (BATCH_LIMIT - 1))
    is_near = on_postgresql(column.class_.detector_id == PendingBatch.detector_id)
    # What PostgreSQL can find by a hash table, instead of batch by batch.
    is_its = on_postgresql(column // BATCH_LIMIT == PendingBatch.id)
    return sa.and_(in_range, is_near, is_its)


def is_pending(
    detector_id: int, column: InstrumentedAttribute[int]
) -> sa.ColumnElement[bool]:
    """Return the condition that a row of a detector waits for the job."""
    return sa.exists(PendingBatch.id).where(
        PendingBatch.detector_id == detector_id,
        PendingBatch.id == column // BATCH_LIMIT,
        sa.func.coalesce(PendingBatch.next_id, 0) <= column,
    )


def ends_of(batches: Pending) -> dict[str, int]:
    """Return the first and the last id that a row of *batches* may have.

    That rows lie between them follows from ``belongs_to``.  PostgreSQL cannot know
    that, guesses that each batch holds a ninth of the table, and would read all of it.
    """
    first = min(some[0] for some in batches.values())
    last = max(some[-1] for some in batches.values())
    return {"first": first_id(first), "last": first_id(last + 1) - 1}


def of_pending(
    columns: sa.Select[*tuple[Any, ...]],
    rows_of: Any,
    batches: Pending,
    *,
    until: int | None = None,
) -> sa.Select[*tuple[Any, ...]]:
    """Select *columns* of the rows of pending *batches*, with ids below *until*."""
    first, last = ends_of(batches).values()
    found = (
        columns.select_from(PendingBatch)
        .join(rows_of, belongs_to(rows_of.id))
        .where(PendingBatch.detector_id.in_(batches))
        .where(on_postgresql(rows_of.detector_id.in_(batches)))
        .where(on_postgresql(rows_of.id.between(first, last)))
    )
    # The sum keeps SQLite from taking it for the most telling condition.
    return found if until is None else found.where(rows_of.id + 0 < until)


def _select_pending() -> Any:
    """Select the detectors with pending work, longest waiting first.

    It looks up each detector instead of reading every batch, of which a million may
    wait.
    """
    oldest = (
        sa.select(sa.func.min(PendingBatch.id))
        .where(PendingBatch.detector_id == Detector.id)
        .correlate(Detector)
        .scalar_subquery()
    )
    return sa.select(Detector.id).where(oldest.is_not(None)).order_by(oldest)


def list_pending_detectors(session: Session) -> Sequence[int]:
    return session.scalars(_select_pending()).all()


def _select_unplanned(at: datetime, time_zone: str | None) -> list[Any]:
    """Select the detectors with work and no task.

    That is new labels, a run that ended, or days in another zone than *time_zone*.
    """
    is_open = sa.exists(Task.id).where(
        Task.kind == RECOMPUTE,
        Task.key == sa.cast(Detector.id, sa.Text),
        Task.ended_at.is_(None),
    )
    due = sa.select(Version.detector_id).where(Version.run_due_at <= at)
    ended = sa.select(Detector.id).where(Detector.id.in_(due))
    found = [_select_pending(), ended]
    if time_zone is not None:
        found.append(sa.select(Detector.id).where(Detector.time_zone != time_zone))
    return [one.where(~is_open) for one in found]


def has_unplanned(
    session: Session, *, at: datetime, time_zone: str | None = None
) -> bool:
    """Whether a detector has work and no task."""
    found = (one.limit(1) for one in _select_unplanned(at, time_zone))
    return any(session.scalar(one) is not None for one in found)


def plan_recomputes(
    session: Session, *, at: datetime, time_zone: str | None = None
) -> None:
    """Add a task for each detector that has work and no task.

    A label does not do so itself, or all labels of a detector would wait for each other
    at its task.
    """
    for one in _select_unplanned(at, time_zone):
        rows = one.with_only_columns(
            sa.literal(RECOMPUTE),
            Detector.id,
            sa.cast(Detector.id, sa.Text),
            sa.literal(""),
            sa.literal(at, UtcDateTime()),
        )
        enqueue_each(session, rows)


# Built once: every estimate asks this.
_OF_DETECTORS = (
    sa.select(PendingBatch.detector_id, PendingBatch.id)
    .where(PendingBatch.detector_id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(PendingBatch.id)
)


def list_pending_batches(session: Session, detector_ids: Collection[int]) -> Pending:
    """Return the pending batches of those of the detectors that have any."""
    ids = tuple(sorted(detector_ids))
    found: dict[int, list[int]] = {}
    for detector_id, batch in base.remember(session, _OF_DETECTORS, {"ids": ids}):
        found.setdefault(detector_id, []).append(batch)
    return found


def advance_revisions(
    session: Session,
    seen: Mapping[int, int],
    traffic: Mapping[int, Mapping[str, Any]] | None = None,
) -> bool:
    """Claim the next revision of each detector, unless another worker was faster.

    Columns of detectors that had *traffic* are set by the same statement.

    A worker computes without any lock, and then claims the revisions after those it
    had *seen*.  False means that some of it is out of date: the caller rolls back.
    """
    if len(seen) > 1:
        # In one order everywhere, so that no two workers wait for each other.
        locked = sa.select(Detector.id).where(Detector.id.in_(seen))
        ordered = locked.order_by(Detector.id).with_for_update(key_share=True)
        session.execute(ordered).all()
    values: dict[str, Any] = {"revision": Detector.revision + 1}
    rows = traffic or {}
    for name in next(iter(rows.values()), ()):
        column: Any = getattr(Detector, name)
        by_id = {key: sa.literal(row[name], column.type) for key, row in rows.items()}
        values[name] = sa.case(by_id, value=Detector.id, else_=column)
    are_seen = sa.tuple_(Detector.id, Detector.revision).in_(seen.items())
    return base.change_rows(session, Detector, are_seen, **values) == len(seen)


def delete_batches(session: Session, detector_id: int, batches: Sequence[int]) -> int:
    """Delete batches that are folded in, and return how many were still there."""
    deleted, own = 0, {"detector_id": detector_id}
    for start in range(0, len(batches), 500):
        chunk = PendingBatch.id.in_(batches[start : start + 500])
        deleted += base.delete_rows(session, PendingBatch, chunk, **own)
    return deleted


def end_batches(
    session: Session, folded: Iterable[tuple[int, Sequence[int], int | None]]
) -> bool:
    """Note which batches of detectors are folded in; False if another worker did so.

    Of each list of them those whose ids are below the third, None for all.
    """
    for detector_id, batches, until in folded:
        whole = []
        for batch in batches:
            if until is None or first_id(batch + 1) <= until:
                whole.append(batch)
                continue
            its = base.are_among(PendingBatch, [(detector_id, batch)])
            # Not if the batch is no longer there, or is further.
            its &= sa.func.coalesce(PendingBatch.next_id, 0) < until
            if not base.change_rows(session, PendingBatch, its, next_id=until):
                return False
        if delete_batches(session, detector_id, whole) < len(whole):
            return False
    return True
