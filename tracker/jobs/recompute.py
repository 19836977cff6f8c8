"""The recompute: fold the new labels of every detector into its estimates."""

import math
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.errors import UnavailableError
from tracker.jobs.loop import Handler, Watch
from tracker.services.estimates import fold as services
from tracker.services.estimates.fold import Fold, StaleFoldError
from tracker.services.labelling.grouping import count_groups
from tracker.services.tasks import dump_error, retry
from tracker.services.telling.events import FAILING, FoldEvents, tell
from tracker.storage import tasks as storage
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector, load_detectors
from tracker.storage.dialect import HISTORY_TABLES
from tracker.storage.estimates import pending
from tracker.storage.estimates.job_runs import JobRun, add_job_runs
from tracker.storage.estimates.slices import list_uncounted
from tracker.storage.tasks import LostTaskError, Task
from tracker.words import STALE

log = structlog.get_logger("tracker.job")

_TRIES = 5
# Detectors with fewer new queries and labels are folded together.
_FEW = 400
# Detectors written in one transaction; on SQLite labels wait for it.
_WRITTEN_AT_ONCE = 16
# Detectors read together.
_AT_ONCE = 64
_MANY_SNAPSHOTS = 100


class Recomputed(NamedTuple):
    """The result of one run for one detector."""

    detector_id: int
    labels: int
    snapshots: int


@dataclass(slots=True, kw_only=True, eq=False)
class Recompute(Handler):
    """Folds in new labels every *every_seconds*.

    A detector that fails rests, first for seconds, then minutes, at last for an hour.
    The detector's revision decides whether a fold may be written (see
    storage/estimates/pending.py), so a worker that has lost a task does no harm.
    """

    worker: str
    every_seconds: float = 0.0
    # The zone of the days that labels are counted by; None keeps each detector's.
    time_zone: str | None = None
    _planned: float = field(default=-math.inf, init=False)
    kind = storage.RECOMPUTE

    def has_unplanned(self, session: Session, at: datetime) -> bool:
        return time.monotonic() >= self._planned + self.every_seconds and (
            pending.has_unplanned(session, at=at, time_zone=self.time_zone)
        )

    def plan(self, session: Session, at: datetime) -> None:
        if time.monotonic() >= self._planned + self.every_seconds:
            self._planned = time.monotonic()
            pending.plan_recomputes(session, at=at, time_zone=self.time_zone)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Recompute some detectors, and count them."""
        by_id = {int(task.key): task for task in tasks}
        done, failed = self.recompute_some(list(by_id))
        for detector_id, error in failed.items():
            with suppress(LostTaskError):
                self.let_rest(detector_id, error, by_id[detector_id])
        are_done = {one.detector_id for one in done}
        # Another worker was faster, or there was nothing to do.
        rest = by_id.keys() - failed.keys() - are_done
        self.finish(*(by_id[one] for one in rest))
        self.end_runs()
        return len(done)

    def recompute(self, detector_id: int) -> Recomputed | None:
        """Fold in the new labels of a detector, piece by piece; None if there are none.

        If another worker is faster, read again.  Groups, slices by newly declared keys
        and days in another time zone are counted first.  New labels are not folded
        meanwhile, up to a minute for some million, but can be written.
        """
        done: list[Recomputed] = []
        tries = _TRIES
        while tries:
            begun, events = time.perf_counter(), [FoldEvents()]
            fold = None
            with self.database.read() as session:
                found = load_detectors(session, [detector_id])
                is_stale = any(one.groups == STALE for one in found)
                if found and not is_stale:
                    fold = services.read_again(
                        session, *found, time_zone=self.time_zone, listeners=events
                    ) or services.read_piece(session, *found, listeners=events)
            if is_stale:
                count_groups(self.database.run_piece, *found, at=self.clock())
                continue
            if fold is None:
                break
            try:
                if fold.is_new:
                    self._store_again(fold, begun)
                    continue
                services.score_folds([fold])
                done += self._store([fold], time.perf_counter() - begun)
                if fold.until is None:
                    break
            except StaleFoldError:
                tries -= 1
        else:
            log.info("left to another worker", detector=f"det_{detector_id}")
        if not done:
            return None
        labels, snapshots = map(sum, zip(*(one[1:] for one in done), strict=True))
        return Recomputed(detector_id, labels, snapshots)

    def recompute_small(self, detector_ids: Collection[int]) -> Iterator[Recomputed]:
        """Fold in the new labels of the detectors that have few, yielded once stored.

        Together they take a third of the time.
        """
        begun = time.perf_counter()
        with self.database.read() as session:
            ready = [
                one
                for one in load_detectors(session, detector_ids)
                if not list_uncounted(one)
                and one.groups != STALE
                and self.time_zone in {None, one.time_zone}
            ]
            events = [FoldEvents()]
            folds = services.read_folds(session, ready, below=_FEW, listeners=events)
        yield from self._finish_each(folds, begun)

    def end_runs(self) -> None:
        """Add the snapshots of runs that have ended."""
        begun = time.perf_counter()
        with self.database.read() as session:
            events = [FoldEvents()]
            folds = services.read_ends(session, at=self.clock(), listeners=events)
        for _ in self._finish_each(folds, begun):
            pass

    def _finish_each(self, folds: Sequence[Fold], begun: float) -> Iterator[Recomputed]:
        """Finish folds, without those that another worker was faster with."""
        services.score_folds(folds)
        seconds = (time.perf_counter() - begun) / max(len(folds), 1)
        for start in range(0, len(folds), _WRITTEN_AT_ONCE):
            with suppress(StaleFoldError):
                yield from self._store(folds[start : start + _WRITTEN_AT_ONCE], seconds)

    def _store(self, folds: Sequence[Fold], seconds: float) -> list[Recomputed]:
        """Write folds; raises StaleFoldError if another worker was faster."""
        begun = time.perf_counter()
        with self.database.write() as session:
            runs = services.store_folds(
                session,
                folds,
                worker=self.worker,
                computed_at=self.clock(),
                seconds=seconds,
            )
            # A worker keeps a detector until its last piece.
            ended = [str(one.detector.id) for one in folds if one.until is None]
            storage.withdraw(session, storage.RECOMPUTE, *ended)
        if sum(run.snapshots for run in runs) > _MANY_SNAPSHOTS:
            # Without statistics PostgreSQL compares each snapshot with each interval.
            self.database.settle(is_large=False, tables=HISTORY_TABLES)
        took = seconds + (time.perf_counter() - begun) / len(folds)
        for run in runs:
            log.info(
                "recomputed",
                detector=f"det_{run.detector_id}",
                batches=run.batches,
                labels=run.labels,
                snapshots=run.snapshots,
                seconds=round(took, 4),
            )
        return [Recomputed(one.detector_id, one.labels, one.snapshots) for one in runs]

    def _store_again(self, found: Fold, begun: float) -> None:
        """Write a recount; raises StaleFoldError if labels were folded in meanwhile."""
        with self.database.write() as session:
            services.store_again(session, found, computed_at=self.clock())
        log.info(
            "counted again",
            detector=f"det_{found.detector.id}",
            slices=found.cut_by,
            time_zone=found.time_zone,
            seconds=round(time.perf_counter() - begun, 4),
        )

    def recompute_some(
        self, detector_ids: Sequence[int]
    ) -> tuple[list[Recomputed], dict[int, Exception]]:
        """Return the results, and the errors by detector."""
        done: list[Recomputed] = []
        failed: dict[int, Exception] = {}
        try:
            for one in self.recompute_small(detector_ids):
                done.append(one)  # noqa: PERF402 - what came before a failure stays.
        except UnavailableError:
            raise
        except Exception:  # noqa: BLE001, S110 - alone, the one that fails says why.
            pass
        are_done = {one.detector_id for one in done}
        for detector_id in detector_ids:
            if detector_id in are_done:
                continue
            try:
                found = self.recompute(detector_id)
            except UnavailableError:
                # The database is away for every detector: end the run.
                raise
            except Exception as error:  # noqa: BLE001 - the others go on.
                failed[detector_id] = error
            else:
                done += [found] if found is not None else []
        return done, failed

    def let_rest(
        self, detector_id: int, error: Exception, task: Task | None = None
    ) -> None:
        """Let a failed detector rest; raises LostTaskError."""
        reason = dump_error(error)
        with self.database.write() as session:
            at = self.clock()
            if task is None:
                # It ran without one.
                kind, key = storage.RECOMPUTE, str(detector_id)
                storage.enqueue(session, kind, key, detector_id=detector_id, due_at=at)
                row = storage.find_task(session, kind, key)
                assert row is not None
                row.attempts += 1
            else:
                row = storage.hold(session, task)
            is_first = row.error is None
            retry(session, row, reason, at=at)
            run = JobRun(
                detector_id=detector_id,
                worker=self.worker,
                started_at=at,
                seconds=0.0,
                outcome="failed",
                error=reason,
            )
            add_job_runs(session, [run])
            detector = find_detector(session, detector_id)
            if detector is not None and is_first:
                tell(session, FAILING, detector, at=at, data={"error": reason})
        log.error(
            "recompute failed",
            detector=f"det_{detector_id}",
            attempts=row.attempts,
            exc_info=error,
        )


def recompute_all(
    database: Database, *, worker: str, clock: Clock = utc_now
) -> list[Recomputed]:
    """Recompute every detector, even those that other workers hold or that rest."""
    job = Recompute(database=database, worker=worker, clock=clock)
    done: list[Recomputed] = []
    with database.read() as session:
        waiting = pending.list_pending_detectors(session)
    for start in range(0, len(waiting), _AT_ONCE):
        found, failed = job.recompute_some(waiting[start : start + _AT_ONCE])
        done += found
        for detector_id, error in failed.items():
            job.let_rest(detector_id, error)
    job.end_runs()
    return done
