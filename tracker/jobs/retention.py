"""The task that deletes old records and unlabelled queries."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.storage import tasks as storage
from tracker.storage import telling
from tracker.storage.base import Key
from tracker.storage.estimates import job_runs
from tracker.storage.operations import retention
from tracker.storage.queries import waiting
from tracker.storage.tasks import RETENTION, Task, finish, hold

log = structlog.get_logger("tracker.job")

# Less than the minute between two runs.
_LONGEST_SECONDS = 50.0
# Longer than anybody who waits for SQLite sleeps before looking again.
_PAUSE_SECONDS = 0.15
# Deliveries that have ended, tasks that were given up, and runs without a snapshot.
_RECORDS_KEPT = timedelta(days=30)
_DELETED_AT_ONCE = 1_000
# A labeler may answer a query long after the reservation has ended.
ANSWERED_WITHIN = timedelta(days=1)


def delete_old_queries(
    session: Session,
    detector_id: int,
    query_ids: Collection[int],
    *,
    deleted_at: datetime,
) -> int:
    """Delete the queries of a detector that nothing needs any more, and count them.

    A query is needed if it has or had a label, is a gold query, belongs to an audit,
    was reserved for a labeler within the last day, is not yet counted, is the first of
    an input with repeats, or shares its input with a labelled query, by which versions
    are compared.  So no estimate, count or comparison changes.
    """
    until = deleted_at - ANSWERED_WITHIN
    found = retention.lock_disposable(
        session, detector_id, query_ids, reserved_until=until
    )
    return retention.delete_disposable(
        session, detector_id, found, reserved_until=until
    )


def delete_records(session: Session, at: datetime) -> None:
    before = at - _RECORDS_KEPT
    for delete in (telling.delete_ended, storage.delete_ended, job_runs.delete_runs):
        delete(session, before=before, limit=_DELETED_AT_ONCE)


@dataclass(slots=True, kw_only=True, eq=False)
class Retention(Handler):
    """Deletes old records of work, and unlabelled queries older than *days*.

    Each run deletes a part of the queries; with 0 days they are kept.  A run continues
    where the last one ended and starts over at the end, or every run would check the
    kept queries again.
    """

    days: int
    piece: int = 1_000
    _after: retention.Place | None = field(default=None, init=False)
    kind = RETENTION

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Delete some old records and queries, and count the queries."""
        [task] = tasks
        deleted = self.run(watch.stop.wait) if self.days else 0

        def end(session: Session) -> None:
            row = hold(session, task)
            delete_records(session, self.clock())
            finish(session, row)

        self.database.run(end)
        return deleted

    def run(self, pause: Callable[[float], object] = time.sleep) -> int:
        """Delete some old queries, and count them; ends where *pause* returns true."""
        begun = time.perf_counter()
        before = self.clock() - timedelta(days=self.days)
        deleted = 0
        while True:
            with self.database.read() as session:
                places = retention.list_unlabelled(
                    session, before=before, after=self._after, limit=self.piece
                )
            deleted += self._delete_each(
                ((place.detector_id, place.query_id) for place in places),
                partial(delete_old_queries, deleted_at=self.clock()),
            )
            self._after = places[-1] if len(places) >= self.piece else None
            if self._after is None:
                break
            is_late = time.perf_counter() - begun > _LONGEST_SECONDS
            if is_late or pause(_PAUSE_SECONDS):
                break
        with self.database.read() as session:
            found = waiting.list_unlabelled(session, before=before, limit=self.piece)
        deleted += self._delete_each(found, waiting.delete_old_waiting)
        if deleted:
            log.info(
                "deleted unlabelled queries",
                queries=deleted,
                created_before=before.isoformat(),
                seconds=round(time.perf_counter() - begun, 4),
            )
        return deleted

    def _delete_each(self, keys: Iterable[Key], delete: Callable[..., int]) -> int:
        """Delete queries, in a transaction for each detector.

        One over several would wait for locks while it holds those of the others.
        """
        by_detector: dict[int, list[int]] = {}
        for detector_id, query_id in keys:
            by_detector.setdefault(detector_id, []).append(query_id)
        return sum(
            self.database.run(partial(delete, detector_id=one, query_ids=ids))
            for one, ids in sorted(by_detector.items())
        )
