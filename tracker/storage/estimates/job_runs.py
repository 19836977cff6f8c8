"""Runs of the job, one row for each detector that a run brought up to date."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import CheckConstraint, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.clock import Clock
from tracker.storage.base import Base, BigId, are_among, delete_rows, index_where, owner
from tracker.storage.dialect import upsert

# Each start of a worker is a worker with a name of its own.
_REMEMBERED = timedelta(days=1)
# The clocks of two machines differ by less.
_SKEW = timedelta(seconds=5)
_LONGEST_SILENCE_SECONDS = 30.0


class JobRun(Base):
    """One run of the job over one detector."""

    __tablename__ = "job_runs"
    __table_args__ = (
        index_where("snapshots = 0", "ix_job_runs_started_at_empty", "started_at"),
        CheckConstraint("outcome IN ('done', 'failed')", name="outcome"),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    worker: Mapped[str] = mapped_column(Text)
    started_at: Mapped[datetime]
    seconds: Mapped[float]
    outcome: Mapped[str] = mapped_column(Text)
    batches: Mapped[int] = mapped_column(BigId, default=0)
    labels: Mapped[int] = mapped_column(BigId, default=0)
    snapshots: Mapped[int] = mapped_column(BigId, default=0)
    error: Mapped[str | None] = mapped_column(Text)


class Heartbeat(Base):
    """When a worker last said that it is alive."""

    __tablename__ = "heartbeats"

    worker: Mapped[str] = mapped_column(Text, primary_key=True)
    seen_at: Mapped[datetime]


def add_job_runs(session: Session, runs: Sequence[JobRun]) -> list[int]:
    session.add_all(runs)
    session.flush()
    return [run.id for run in runs]


def delete_runs(session: Session, *, before: datetime, limit: int) -> None:
    key = JobRun.detector_id, JobRun.id
    old = select(*key).where(JobRun.snapshots == 0, JobRun.started_at < before)
    found = [(*row,) for row in session.execute(old.limit(limit))]
    delete_rows(session, JobRun, are_among(JobRun, found))


def forget_future(session: Session, clock: Clock) -> bool:
    """Forget the heartbeats that are yet to come; returns whether there were any.

    Then the clock was set back.  It is read after the heartbeats: under load or behind
    a lock seconds may pass between two lines, in which others go on beating.
    """
    newest = find_last_heartbeat(session)
    if newest is None or newest <= clock() + _SKEW:
        return False
    delete_rows(session, Heartbeat, Heartbeat.seen_at > clock() + _SKEW)
    return True


def beat(session: Session, worker: str, *, seen_at: datetime) -> None:
    """Say that *worker* is alive, and forget those that are long gone."""
    delete_rows(session, Heartbeat, Heartbeat.seen_at < seen_at - _REMEMBERED)
    upsert(session, Heartbeat, [{"worker": worker, "seen_at": seen_at}])


def find_last_heartbeat(
    session: Session, *, machine: str | None = None
) -> datetime | None:
    """Return when any worker, or any of *machine*, last said that it is alive."""
    statement = select(Heartbeat.seen_at).order_by(Heartbeat.seen_at.desc()).limit(1)
    if machine is not None:
        mine = Heartbeat.worker.startswith(f"{machine}-", autoescape=True)
        statement = statement.where(mine)
    return session.scalars(statement).one_or_none()


def patience(recompute_seconds: float) -> timedelta:
    """Return after which silence a worker is taken for dead."""
    return timedelta(seconds=max(_LONGEST_SILENCE_SECONDS, 3 * recompute_seconds))
