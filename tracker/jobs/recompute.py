"""The job: bring every detector with new labels up to date."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from tracker.errors import UnavailableError
from tracker.services.recompute import StaleFoldError, compute_fold, store_fold
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector
from tracker.storage.job_runs import JobRun, add_job_run, beat
from tracker.storage.pending import list_pending_detectors

log = structlog.get_logger("tracker.job")

Clock = Callable[[], datetime]
_TRIES = 5
_LONGEST_REST_SECONDS = 3600.0


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What one run did for one detector."""

    detector_id: int
    labels: int
    snapshots: int


def recompute_detector(
    database: Database, detector_id: int, *, worker: str, clock: Clock = utc_now
) -> Recomputed | None:
    """Fold in what waits for a detector; None if nothing does.

    Where another worker is faster it has done the work, or part of it: look again.
    """
    for _ in range(_TRIES):
        begun = time.perf_counter()
        with database.read() as session:
            detector = find_detector(session, detector_id)
            fold = None if detector is None else compute_fold(session, detector)
        if fold is None:
            return None
        seconds = time.perf_counter() - begun
        try:
            with database.write() as session:
                store_fold(
                    session, fold, worker=worker, computed_at=clock(), seconds=seconds
                )
        except StaleFoldError:
            continue
        log.info(
            "recomputed",
            detector=f"det_{detector_id}",
            batches=len(fold.batches),
            labels=fold.labels,
            snapshots=fold.snapshots,
            seconds=round(time.perf_counter() - begun, 4),
        )
        return Recomputed(detector_id, fold.labels, fold.snapshots)
    log.info("left to another worker", detector=f"det_{detector_id}")
    return None


@dataclass(slots=True)
class Recomputer:
    """Runs the job again and again, and lets a detector that fails rest a while.

    Without the rest one poisoned detector would fill the log and the table of
    runs; with it the others go on, and it is tried again after seconds, then
    minutes, at last every hour.
    """

    database: Database
    worker: str
    clock: Clock = utc_now
    _failures: dict[int, int] = field(default_factory=dict)
    _rests_until: dict[int, float] = field(default_factory=dict)

    def run(self) -> list[Recomputed]:
        """Bring every detector up to date, and say that this worker is alive."""
        with self.database.write() as session:
            beat(session, self.worker, seen_at=self.clock())
        return list(self._recompute_all())

    def _recompute_all(self) -> Iterator[Recomputed]:
        with self.database.read() as session:
            detector_ids = list_pending_detectors(session)
        for detector_id in detector_ids:
            if time.monotonic() < self._rests_until.get(detector_id, 0.0):
                continue
            try:
                done = recompute_detector(
                    self.database, detector_id, worker=self.worker, clock=self.clock
                )
            except UnavailableError:
                # It is not this detector's fault: the whole run waits.
                raise
            except Exception as error:  # noqa: BLE001 - the others go on.
                self._set_aside(detector_id, error)
                continue
            self._failures.pop(detector_id, None)
            if done is not None:
                yield done

    def _set_aside(self, detector_id: int, error: Exception) -> None:
        failures = self._failures.get(detector_id, 0) + 1
        self._failures[detector_id] = failures
        rest = min(5.0 * 2.0**failures, _LONGEST_REST_SECONDS)
        self._rests_until[detector_id] = time.monotonic() + rest
        log.exception(
            "recompute failed", detector=f"det_{detector_id}", rests_seconds=rest
        )
        with self.database.write() as session:
            run = JobRun(
                detector_id=detector_id,
                worker=self.worker,
                started_at=self.clock(),
                seconds=0.0,
                outcome="failed",
                batches=0,
                labels=0,
                snapshots=0,
                error=f"{type(error).__name__}: {error}"[:2000],
            )
            add_job_run(session, run)
