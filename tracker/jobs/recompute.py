"""The job: bring every detector with new labels up to date."""

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.errors import UnavailableError
from tracker.services.estimates.drift import compute_replays, store_replays
from tracker.services.estimates.slices.slice_recounts import (
    SliceRecount,
    compute_slices,
    store_slices,
)
from tracker.services.estimates.tallies import StaleFoldError
from tracker.services.operations.fold_writes import store_folds
from tracker.services.operations.recompute import Fold, compute_fold, compute_folds
from tracker.services.telling.events import FAILING, tell
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector, load_detectors
from tracker.storage.estimates.slices import list_uncounted
from tracker.storage.operations.job_runs import JobRun, add_job_runs, beat
from tracker.storage.operations.leases import (
    LEASE_SECONDS,
    count_failures,
    let_rest,
    renew_leases,
    take_leases,
)

log = structlog.get_logger("tracker.job")

_TRIES = 5
# Detectors with fewer new queries and labels are folded together.
_FEW = 400
# So many are written in one transaction, for which labels wait on SQLite.
_WRITTEN_AT_ONCE = 16
_FIRST_REST_SECONDS = 10.0
_LONGEST_REST_SECONDS = 3600.0


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
    Slices by keys that were declared since are counted first.  New labels wait
    meanwhile, a minute for some million, and nobody who writes them does.
    """
    for _ in range(_TRIES):
        begun = time.perf_counter()
        with database.read() as session:
            detector = find_detector(session, detector_id)
            if detector is None:
                return None
            slices = compute_slices(session, detector)
            fold = compute_fold(session, detector) if slices is None else None
        seconds = time.perf_counter() - begun
        with suppress(StaleFoldError):
            if slices is not None:
                _store_slices(database, slices, clock=clock, seconds=seconds)
            elif fold is None:
                return None
            else:
                return _store(
                    database, [fold], worker=worker, clock=clock, seconds=seconds
                )[0]
    log.info("left to another worker", detector=f"det_{detector_id}")
    return None


def recompute_small(
    database: Database,
    detector_ids: Collection[int],
    *,
    worker: str,
    clock: Clock = utc_now,
) -> Iterator[Recomputed]:
    """Fold in what waits for those of the detectors that have little to do.

    Together they take a third of what each takes alone.  Each comes when it is
    stored, so that what fails later hides none of them.
    """
    begun = time.perf_counter()
    with database.read() as session:
        found = load_detectors(session, detector_ids)
        ready = [one for one in found if not list_uncounted(one)]
        folds = compute_folds(session, ready, below=_FEW)
    seconds = (time.perf_counter() - begun) / max(len(folds), 1)
    for start in range(0, len(folds), _WRITTEN_AT_ONCE):
        some = folds[start : start + _WRITTEN_AT_ONCE]
        with suppress(StaleFoldError):
            yield from _store(
                database, some, worker=worker, clock=clock, seconds=seconds
            )


def _store(
    database: Database,
    folds: Sequence[Fold],
    *,
    worker: str,
    clock: Clock,
    seconds: float,
) -> list[Recomputed]:
    """Write folds that took so many *seconds* each.

    Raises StaleFoldError, with nothing written, if another worker was faster.
    """
    begun = time.perf_counter()
    with database.write() as session:
        store_folds(session, folds, worker=worker, computed_at=clock(), seconds=seconds)
    took = seconds + (time.perf_counter() - begun) / len(folds)
    for fold in folds:
        log.info(
            "recomputed",
            detector=f"det_{fold.detector_id}",
            batches=len(fold.batches),
            labels=fold.labels,
            snapshots=fold.snapshots,
            seconds=round(took, 4),
        )
        if fold.has_corrections:
            _replay_drift(database, fold.detector_id)
    return [Recomputed(one.detector_id, one.labels, one.snapshots) for one in folds]


def _store_slices(
    database: Database, found: SliceRecount, *, clock: Clock, seconds: float
) -> None:
    """Write slices that took so many *seconds* to count.

    Raises StaleFoldError if another worker folded in labels meanwhile.
    """
    begun = time.perf_counter()
    with database.write() as session:
        store_slices(session, found, at=clock())
    log.info(
        "slices counted",
        detector=f"det_{found.detector_id}",
        keys=found.changes.names,
        seconds=round(seconds + time.perf_counter() - begun, 4),
    )


def _replay_drift(database: Database, detector_id: int) -> None:
    """Say which drift alarms the labels of today would raise, after many corrections.

    Two workers at once write the same, or one the newer.
    """
    begun = time.perf_counter()
    with database.read() as session:
        detector = find_detector(session, detector_id)
        found = {} if detector is None else compute_replays(session, detector)
    if not found:
        return
    with database.write() as session:
        store_replays(session, found)
    log.info(
        "drift replayed",
        detector=f"det_{detector_id}",
        versions=len(found),
        seconds=round(time.perf_counter() - begun, 4),
    )


@dataclass(frozen=True, slots=True)
class Recomputer:
    """Runs the job again and again, and shares its detectors out with other workers.

    It takes up a few detectors at a time by leases, which it renews while it works.
    A detector that fails rests, first for seconds, then minutes, at last for an hour;
    without that it would fill the log and the table of runs.
    """

    database: Database
    worker: str
    clock: Clock = utc_now

    def run(self, *, is_forced: bool = False) -> list[Recomputed]:
        """Bring every detector up to date that no other worker has taken up.

        By force even those, and the ones that rest.
        """
        done: list[Recomputed] = []
        tried: set[int] = set()
        with self._renewing():
            while taken := self._take(tried, is_forced=is_forced):
                tried.update(taken)
                done += self._recompute_some(taken)
        return done

    def _take(self, tried: set[int], *, is_forced: bool) -> Sequence[int]:
        def take(session: Session) -> Sequence[int]:
            at = self.clock()
            beat(session, self.worker, seen_at=at)
            return take_leases(
                session, self.worker, at=at, excluding=tried, is_forced=is_forced
            )

        return self.database.run(take)

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        """Renew the leases of this worker meanwhile, and say that it is alive."""
        has_ended = threading.Event()

        def renew() -> None:
            while not has_ended.wait(LEASE_SECONDS / 4):
                with suppress(UnavailableError), self.database.write() as session:
                    at = self.clock()
                    beat(session, self.worker, seen_at=at)
                    renew_leases(session, self.worker, at=at)

        thread = threading.Thread(target=renew, daemon=True, name="renew-leases")
        thread.start()
        try:
            yield
        finally:
            has_ended.set()
            thread.join()

    def _recompute_some(self, detector_ids: Sequence[int]) -> list[Recomputed]:
        done = self._recompute_small(detector_ids)
        are_done = {one.detector_id for one in done}
        rest = [self._recompute(one) for one in detector_ids if one not in are_done]
        return done + [one for one in rest if one is not None]

    def _recompute_small(self, detector_ids: Sequence[int]) -> list[Recomputed]:
        done: list[Recomputed] = []
        try:
            for one in recompute_small(
                self.database, detector_ids, worker=self.worker, clock=self.clock
            ):
                done.append(one)  # noqa: PERF402 - what came before a failure stays.
        except UnavailableError:
            raise
        except Exception:  # noqa: BLE001, S110 - alone, the one that fails says why.
            pass
        return done

    def _recompute(self, detector_id: int) -> Recomputed | None:
        try:
            return recompute_detector(
                self.database, detector_id, worker=self.worker, clock=self.clock
            )
        except UnavailableError:
            # It is not this detector's fault: the whole run waits.
            raise
        except Exception as error:  # noqa: BLE001 - the others go on.
            self._let_rest(detector_id, error)
            return None

    def _let_rest(self, detector_id: int, error: Exception) -> None:
        at = self.clock()
        reason = f"{type(error).__name__}: {error}"[:2000]
        with self.database.write() as session:
            failures = count_failures(session, detector_id)
            rest = min(_FIRST_REST_SECONDS * 2.0**failures, _LONGEST_REST_SECONDS)
            let_rest(session, detector_id, at=at, seconds=rest, error=reason)
            run = JobRun(
                detector_id=detector_id,
                worker=self.worker,
                started_at=at,
                seconds=0.0,
                outcome="failed",
                batches=0,
                labels=0,
                snapshots=0,
                error=reason,
            )
            add_job_runs(session, [run])
            detector = find_detector(session, detector_id)
            if detector is not None and not failures:
                tell(session, FAILING, detector, at=at, data={"error": reason})
        log.error(
            "recompute failed",
            detector=f"det_{detector_id}",
            rests_seconds=rest,
            exc_info=error,
        )
