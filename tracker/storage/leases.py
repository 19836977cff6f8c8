"""Leases: which worker has taken up which detector, and which of them fail.

Workers share out detectors by leases: while one is held, the other workers leave its
detector alone.  A lease only saves work.  Whether a fold may be written is decided
by the detector's revision (see storage/pending.py), so that a worker whose lease ran
out while it was paused does no harm.

A detector whose fold failed rests: its lease is held by nobody and ends later and
later.  So no worker tries it, however often workers are started anew.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Text,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.detectors import Detector
from tracker.storage.pending import PendingBatch

# A worker renews its leases well before they end.  One that was killed keeps others
# from its detectors for so long.
LEASE_SECONDS = 5.0
# The clocks of two machines differ by less.
_SKEW = timedelta(seconds=LEASE_SECONDS)
# At the end of a long queue workers take few at once, so that all end together.
_MOST_TAKEN = 64
_SHARE = 4
_LOCK = 7_205_759
_KEY = frozenset({"detector_id"})


class Lease(Base):
    """A detector that is left alone until some instant."""

    __tablename__ = "leases"

    detector_id: Mapped[int] = mapped_column(
        ForeignKey(Detector.id), primary_key=True, autoincrement=False
    )
    # None where it only rests, because its last run failed.
    worker: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime]
    until: Mapped[datetime]
    # How often in a row its runs failed, and why the last one did.
    failures: Mapped[int]
    error: Mapped[str | None] = mapped_column(Text)


def take_leases(
    session: Session,
    worker: str,
    *,
    at: datetime,
    but: Collection[int] = (),
    is_forced: bool = False,
) -> Sequence[int]:
    """Give back what *worker* holds, and lease it detectors that have pending work.

    Returns their ids, longest waiting first; not *but* these, which it had already.
    By force it gets every one, whoever holds it.
    """
    _lock(session)
    release_leases(session, worker, at=at)
    statement = (
        select(PendingBatch.detector_id)
        .outerjoin(Lease, Lease.detector_id == PendingBatch.detector_id)
        .group_by(PendingBatch.detector_id)
        .order_by(func.min(PendingBatch.id))
    )
    if not is_forced:
        statement = statement.where(or_(Lease.detector_id.is_(None), ~_holds(at)))
    free = [found for found in session.scalars(statement) if found not in but]
    taken = free[: min(_MOST_TAKEN, -(-len(free) // _SHARE))]
    until = at + timedelta(seconds=LEASE_SECONDS)
    values = {"worker": worker, "since": at, "until": until}
    _put(session, [{"detector_id": found, **values} for found in taken])
    return taken


def _put(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert leases, or change those that there are in the columns that are given."""
    if not rows:
        return
    is_sqlite = session.get_bind().dialect.name == "sqlite"
    statement: Any = (sqlite if is_sqlite else postgresql).insert(Lease)
    changed = {name: statement.excluded[name] for name in rows[0].keys() - _KEY}
    statement = statement.on_conflict_do_update(
        index_elements=[Lease.detector_id], set_=changed
    )
    session.execute(statement, [{"failures": 0, **row} for row in rows])


def _lock(session: Session) -> None:
    # Without it two workers would find the same detectors free, and one of them
    # would come away with nothing.  SQLite has one writer at a time anyway.
    if session.get_bind().dialect.name != "sqlite":
        session.execute(select(func.pg_advisory_xact_lock(_LOCK)))


def _holds(at: datetime) -> ColumnElement[bool]:
    # One that began later than now was written before the clock was set back.
    return (Lease.since <= at + _SKEW) & (Lease.until > at)


def renew_leases(session: Session, worker: str, *, at: datetime) -> None:
    """Hold what *worker* holds for longer."""
    until = at + timedelta(seconds=LEASE_SECONDS)
    statement = update(Lease).where(Lease.worker == worker)
    session.execute(statement.values(since=at, until=until))


def release_leases(session: Session, worker: str, *, at: datetime) -> None:
    """Give back whatever *worker* holds."""
    mine = Lease.worker == worker
    session.execute(delete(Lease).where(mine, Lease.failures == 0))
    session.execute(update(Lease).where(mine).values(worker=None, until=at))


def end_lease(session: Session, detector_id: int) -> None:
    """Forget the lease of a detector that was brought up to date, and its failures."""
    session.execute(delete(Lease).where(Lease.detector_id == detector_id))


def let_rest(
    session: Session, detector_id: int, *, at: datetime, seconds: float, error: str
) -> None:
    """Leave a detector alone whose run failed once more."""
    failures = count_failures(session, detector_id) + 1
    row = {
        "detector_id": detector_id,
        "worker": None,
        "since": at,
        "until": at + timedelta(seconds=seconds),
        "failures": failures,
        "error": error,
    }
    _put(session, [row])


def count_failures(session: Session, detector_id: int) -> int:
    """Return how often in a row the runs of a detector have failed."""
    statement = select(Lease.failures).where(Lease.detector_id == detector_id)
    return session.scalars(statement).one_or_none() or 0


def find_failure(session: Session, detector_id: int) -> Lease | None:
    """Return the lease of a detector whose last run failed."""
    statement = select(Lease).where(
        Lease.detector_id == detector_id, Lease.failures > 0
    )
    return session.scalars(statement).one_or_none()


def count_failing(session: Session) -> int:
    """Count the detectors whose last run failed."""
    statement = select(func.count()).select_from(Lease).where(Lease.failures > 0)
    return session.execute(statement).scalar_one()
