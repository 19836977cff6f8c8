"""Tasks: all work that waits for a worker, and the workers that hold it.

A task is written in the transaction of its cause.  A worker that takes a task holds it
for some seconds, and renews the hold while it works.  The hold of a killed worker
ends, and another worker takes the task.

The number of the attempt tells two holds apart.  Every write about a task begins with
``hold``, which locks the row and raises LostTaskError if another worker has taken it
meanwhile; so a late write is refused as a whole.  ``enqueue`` locks the row too.  So a
worker that ends a task sees everything that was written with an earlier enqueue, and
anything later adds a new task.

A finished task is deleted.  A task that was given up stays for a while with its error.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.errors import TrackerError
from tracker.storage import base
from tracker.storage.base import Base, BigId, index_where
from tracker.storage.detectors import Detector
from tracker.storage.dialect import insert

# The kinds of tasks; services/tasks.py has their retry policies.
ADDRESS, DIGEST, DELIVERY = "address", "digest", "delivery"
PREDICTION, ESTIMATES, STALLS = "prediction", "estimates", "stalls"
AUDITS = "audits"
IMPORT, CLEARING, RETENTION, RECOMPUTE = "import", "clearing", "retention", "recompute"
# A worker renews its holds well before they end.  The tasks of a killed worker wait
# for so long.
HOLD_SECONDS = 5.0
_HOLD = timedelta(seconds=HOLD_SECONDS)
_OPEN = "ended_at IS NULL"


class LostTaskError(TrackerError):
    """Another worker has taken the task; nothing more may be written about it."""


class Task(Base):
    """Work that waits or is being done."""

    __tablename__ = "tasks"
    __table_args__ = (
        index_where(_OPEN, "ix_tasks_kind_key_open", "kind", "key", unique=True),
        index_where(_OPEN, "ix_tasks_kind_lane_due_at_open", "kind", "lane", "due_at"),
        index_where("ended_at IS NOT NULL", "ix_tasks_ended_at", "ended_at"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    detector_id: Mapped[int | None] = mapped_column(sa.ForeignKey(Detector.id))
    # The subject.  At most one task of a kind and key is open.
    key: Mapped[str] = mapped_column(sa.Text)
    # Tasks of one lane share a limit of concurrency.
    lane: Mapped[str] = mapped_column(sa.Text)
    payload: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    due_at: Mapped[datetime]
    worker: Mapped[str | None] = mapped_column(sa.Text)
    held_until: Mapped[datetime | None]
    # The attempts since its last success, and when the first began.
    attempts: Mapped[int]
    begun_at: Mapped[datetime | None]
    # The last attempt that wrote a part of the work; the next one continues from it.
    advancing_attempt: Mapped[int]
    # Why the last attempt failed.
    error: Mapped[str | None] = mapped_column(sa.Text)
    ended_at: Mapped[datetime | None]

    @property
    def row(self) -> tuple[int, int]:
        """Return the primary key of the row of its detector that *key* is the id of."""
        assert self.detector_id is not None
        return self.detector_id, int(self.key)

    @property
    def vain_attempts(self) -> int:
        return self.attempts - self.advancing_attempt


_IS_OPEN = Task.ended_at.is_(None)
_FRESH: dict[str, Any] = {
    "worker": None,
    "held_until": None,
    "attempts": 0,
    "begun_at": None,
    "advancing_attempt": 0,
    "error": None,
}


def enqueue(  # noqa: PLR0913 - the columns of a task.
    session: Session,
    kind: str,
    key: str = "",
    *,
    due_at: datetime,
    detector_id: int | None = None,
    lane: str = "",
    replaces: bool = False,
) -> None:
    """Add a task, unless one of its kind and key is open.

    With *replaces* the open one starts over, and the worker that holds it loses it.
    """
    row: dict[str, Any] = {"kind": kind, "detector_id": detector_id, "key": key}
    row |= {"lane": lane, "payload": None, "due_at": due_at, **_FRESH}
    statement: Any = insert(session, Task).values(row)
    changed = row.keys() if replaces else ("key",)
    statement = statement.on_conflict_do_update(
        index_elements=["kind", "key"],
        index_where=sa.text(_OPEN),
        set_={name: statement.excluded[name] for name in changed},
    )
    session.execute(statement)


def enqueue_each(session: Session, rows: Any) -> None:
    """Add a task for each of *rows*: a SELECT of kind, detector, key, lane, due_at.

    The SELECT must have a WHERE clause.  Keys with an open task are skipped.
    """
    names = ["kind", "detector_id", "key", "lane", "due_at"]
    fresh = {name: sa.literal(0) for name in ("attempts", "advancing_attempt")}
    statement = insert(session, Task).from_select(
        [*names, *fresh], rows.add_columns(*fresh.values())
    )
    session.execute(
        statement.on_conflict_do_nothing(
            index_elements=["kind", "key"], index_where=sa.text(_OPEN)
        )
    )


def _is_due(kind: str, lane: str, at: datetime) -> sa.ColumnElement[bool]:
    is_free = Task.held_until.is_(None) | (Task.held_until <= at)
    its = _IS_OPEN, Task.kind == kind, Task.lane == lane
    return sa.and_(*its, Task.due_at <= at, is_free)


def is_due(session: Session, kind: str, *, at: datetime, lane: str = "") -> bool:
    found = sa.select(Task.id).where(_is_due(kind, lane, at)).limit(1)
    return session.scalar(found) is not None


def take(  # noqa: PLR0913 - which tasks, and how many.
    session: Session,
    kind: str,
    worker: str,
    *,
    at: datetime,
    lane: str = "",
    limit: int = 1,
    share: int = 1,
) -> Sequence[Task]:
    """Let *worker* hold the tasks that have waited longest, at most *limit*.

    With a *share* of 4 it takes a quarter of the due tasks, so that several workers end
    together.  The attempt is counted before it is made, because it may kill the worker.
    """
    statement = (
        sa.select(Task)
        .where(_is_due(kind, lane, at))
        .order_by(Task.due_at, Task.id)
        .limit(limit * share)
        .with_for_update(skip_locked=True)
        .execution_options(populate_existing=True)
    )
    found = session.scalars(statement).all()
    taken = found[: -(-len(found) // share)]
    for task in taken:
        task.worker, task.held_until = worker, at + _HOLD
        task.attempts += 1
        task.begun_at = task.begun_at or at
    session.flush()
    return taken


def renew(session: Session, tasks: Iterable[Task], *, at: datetime) -> Collection[int]:
    """Renew the holds of *tasks*, and return the ids of those still held.

    A locked row is being ended, and nobody can take it before; waiting for it could
    deadlock.
    """
    number = {task.id: task.attempts for task in tasks}
    workers = {task.worker for task in tasks}
    mine = (Task.id.in_(number), Task.worker.in_(workers), _IS_OPEN)
    found = session.execute(sa.select(Task.id, Task.attempts).where(*mine))
    held = {row.id for row in found if number[row.id] == row.attempts}
    free = sa.select(Task.id).where(Task.id.in_(held)).with_for_update(skip_locked=True)
    ids = session.scalars(free).all()
    base.change_rows(session, Task, Task.id.in_(ids), *mine, held_until=at + _HOLD)
    return held


def hold(session: Session, task: Task, *, locks: bool = True) -> Task:
    """Return a task as it is now, locked unless *locks* is false.

    Raises LostTaskError if it was lost.
    """
    names = ("id", "worker", "attempts")
    its = {name: getattr(task, name) for name in names}
    statement = sa.select(Task).where(_IS_OPEN).filter_by(**its)
    statement = statement.execution_options(populate_existing=True)
    if locks:
        statement = statement.with_for_update()
    found = session.scalars(statement).one_or_none()
    if found is None:
        raise LostTaskError(f"another worker has taken the {task.kind}")
    return found


def advance(session: Session, task: Task) -> None:
    _change(session, task, advancing_attempt=task.attempts)


def finish(session: Session, task: Task) -> None:
    base.delete_rows(session, Task, id=task.id)


def withdraw(session: Session, kind: str, *keys: str) -> None:
    base.delete_rows(session, Task, _IS_OPEN, Task.key.in_(keys), kind=kind)


def wake_lane(session: Session, kind: str, lane: str, *, at: datetime) -> None:
    """Make the resting tasks of a lane due now, as if never tried."""
    resting = _IS_OPEN, Task.kind == kind, Task.lane == lane, Task.worker.is_(None)
    base.change_rows(session, Task, *resting, **_FRESH | {"due_at": at})


def repeat(session: Session, task: Task, *, due_at: datetime) -> None:
    """Let a task be taken once more after a success, for newer work."""
    _change(session, task, **_FRESH, payload=None, due_at=due_at)


def let_go(session: Session, task: Task, **values: Any) -> None:
    """Hold a task no longer, and set columns of it."""
    _change(session, task, worker=None, held_until=None, **values)


def _change(session: Session, task: Task, **values: Any) -> None:
    for name, value in values.items():
        setattr(task, name, value)
    session.flush()


def find_task(session: Session, kind: str, key: str) -> Task | None:
    statement = sa.select(Task).where(_IS_OPEN).filter_by(kind=kind, key=key)
    statement = statement.execution_options(populate_existing=True)
    return session.scalars(statement).one_or_none()


def release_dead(session: Session, is_alive: Callable[[str], bool]) -> None:
    holders = (
        sa.select(Task.worker).where(_IS_OPEN, Task.worker.is_not(None)).distinct()
    )
    dead = [one for one in session.scalars(holders) if one and not is_alive(one)]
    base.change_rows(session, Task, _IS_OPEN, Task.worker.in_(dead), held_until=None)


def set_back(session: Session, *, at: datetime) -> None:
    """Limit all instants in the future after the clock was set back.

    Resting tasks are due now, and a hold lasts as long as one that begins now.
    """
    until = at + _HOLD
    values = {
        "due_at": sa.case((Task.due_at > at, at), else_=Task.due_at),
        "held_until": sa.case((Task.held_until > until, until), else_=Task.held_until),
    }
    late = (Task.due_at > at) | (Task.held_until > until)
    base.change_rows(session, Task, _IS_OPEN, late, **values)


def delete_ended(session: Session, *, before: datetime, limit: int) -> None:
    old = sa.select(Task.id).where(Task.ended_at < before).limit(limit)
    base.delete_rows(session, Task, Task.id.in_(session.scalars(old).all()))


# Built once: every page of a detector asks this.
_FAILED = sa.select(Task).where(
    _IS_OPEN,
    Task.kind == sa.bindparam("kind"),
    Task.key.in_(sa.bindparam("keys", expanding=True)),
    Task.error.is_not(None),
)


def find_failures(
    session: Session, kind: str, keys: Collection[int]
) -> dict[int, Task]:
    found = session.scalars(_FAILED, {"kind": kind, "keys": [str(one) for one in keys]})
    return {int(task.key): task for task in found}


def count_failing(session: Session, kind: str) -> int:
    failing = _IS_OPEN, Task.kind == kind, Task.error.is_not(None)
    return base.count_rows(session, Task, *failing)
