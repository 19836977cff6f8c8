"""Leases: which worker has taken up which detector or import, and which of them fail.

Workers share out detectors and imports by leases: while one is held, the other workers
leave it alone.  A lease only saves work.  Whether a fold may be written is decided
by the detector's revision (see storage/estimates/pending.py), so that a worker whose
lease ran out while it was paused does no harm.

A detector whose fold failed rests: its lease is held by nobody and ends later and
later.  So no worker tries it, no matter how often workers are restarted.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    Text,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.orm import InstrumentedAttribute, Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.detectors import Detector
from tracker.storage.dialect import lock, upsert
from tracker.storage.estimates.pending import PendingBatch

# A worker renews its leases well before they end.  One that was killed keeps others
# from its detectors for so long.
LEASE_SECONDS = 5.0
# The clocks of two machines differ by less.
_SKEW = timedelta(seconds=LEASE_SECONDS)
# At the end of a long queue workers take few at once, so that all end together.
_MOST_TAKEN = 64
_SHARE = 4
_IN_PLACE = {"synchronize_session": False}


def is_held(
    since: InstrumentedAttribute[Any], until: InstrumentedAttribute[Any], at: datetime
) -> ColumnElement[bool]:
    """Return the condition that a lease is held, or rests, from *since* to *until*."""
    # One that began later than now was written before the clock was set back.
    return (since <= at + _SKEW) & (until > at)


def lease_from(at: datetime) -> dict[str, datetime]:
    """Return the columns of a lease that begins, or is renewed."""
    return {"since": at, "until": at + timedelta(seconds=LEASE_SECONDS)}


def rest_from(at: datetime, seconds: float) -> dict[str, datetime | None]:
    """Return the columns of what no worker is to take up for so many seconds."""
    return {"worker": None, "since": at, "until": at + timedelta(seconds=seconds)}


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


def _in_order(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return *condition*, for leases that are locked in the order of their detectors.

    So no two transactions that change several of them wait for each other.
    """
    chosen = select(Lease.detector_id).where(condition).order_by(Lease.detector_id)
    return Lease.detector_id.in_(chosen.with_for_update().scalar_subquery())


def take_leases(
    session: Session,
    worker: str,
    *,
    at: datetime,
    excluding: Collection[int] = (),
    is_forced: bool = False,
) -> Sequence[int]:
    """Give back what *worker* holds, and lease it detectors that have pending work.

    Returns their ids, longest waiting first, *excluding* those that it had already.
    By force it gets every one, no matter who holds it.
    """
    # Without it two workers would find the same detectors free, and one of them
    # would come away with nothing.
    lock(session, "leases")
    release_leases(session, worker, at=at)
    statement = (
        select(PendingBatch.detector_id)
        .outerjoin(Lease, Lease.detector_id == PendingBatch.detector_id)
        .group_by(PendingBatch.detector_id)
        .order_by(func.min(PendingBatch.id))
    )
    if not is_forced:
        held = is_held(Lease.since, Lease.until, at)
        statement = statement.where(or_(Lease.detector_id.is_(None), ~held))
    free = [found for found in session.scalars(statement) if found not in excluding]
    taken = free[: min(_MOST_TAKEN, -(-len(free) // _SHARE))]
    values = {"worker": worker, **lease_from(at)}
    rows = [{"detector_id": one, "failures": 0, **values} for one in sorted(taken)]
    upsert(session, Lease, rows, keeping=["failures"])
    return taken


def renew_leases(session: Session, worker: str, *, at: datetime) -> None:
    """Hold what *worker* holds for longer."""
    statement = update(Lease).where(_in_order(Lease.worker == worker))
    session.execute(statement.values(lease_from(at)), execution_options=_IN_PLACE)


def release_leases(session: Session, worker: str, *, at: datetime) -> None:
    """Give back whatever *worker* holds."""
    mine = _in_order(Lease.worker == worker)
    session.execute(
        delete(Lease).where(mine, Lease.failures == 0), execution_options=_IN_PLACE
    )
    session.execute(
        update(Lease).where(mine).values(worker=None, until=at),
        execution_options=_IN_PLACE,
    )


def release_dead(
    session: Session, is_alive: Callable[[str], bool], *, at: datetime
) -> None:
    """Give back what workers hold that are not alive, so that nobody waits for it."""
    holders = select(Lease.worker).where(Lease.worker.is_not(None)).distinct()
    for worker in session.scalars(holders).all():
        if worker is not None and not is_alive(worker):
            release_leases(session, worker, at=at)


def end_leases(session: Session, detector_ids: Collection[int]) -> None:
    """Forget the leases and failures of detectors that were brought up to date."""
    theirs = Lease.detector_id.in_(detector_ids)
    session.execute(delete(Lease).where(_in_order(theirs)), execution_options=_IN_PLACE)


def let_rest(
    session: Session, detector_id: int, *, at: datetime, seconds: float, error: str
) -> None:
    """Leave a detector alone whose run failed once more."""
    failures = count_failures(session, detector_id) + 1
    row = {
        "detector_id": detector_id,
        **rest_from(at, seconds),
        "failures": failures,
        "error": error,
    }
    upsert(session, Lease, [row])


def count_failures(session: Session, detector_id: int) -> int:
    """Return how often in a row the runs of a detector have failed."""
    statement = select(Lease.failures).where(Lease.detector_id == detector_id)
    return session.scalars(statement).one_or_none() or 0


def find_failure(session: Session, detector_id: int) -> Lease | None:
    """Return the lease of a detector whose last run failed."""
    return find_failures(session, [detector_id]).get(detector_id)


# Built once: every page of a detector asks this.
_FAILED = select(Lease).where(
    Lease.detector_id.in_(bindparam("ids", expanding=True)), Lease.failures > 0
)


def find_failures(session: Session, detector_ids: Collection[int]) -> dict[int, Lease]:
    """Return the leases of those detectors whose last run failed, by detector."""
    found = session.scalars(_FAILED, {"ids": tuple(detector_ids)})
    return {lease.detector_id: lease for lease in found}


def count_failing(session: Session) -> int:
    """Count the detectors whose last run failed."""
    statement = select(func.count()).select_from(Lease).where(Lease.failures > 0)
    return session.execute(statement).scalar_one()
