"""The job: bring every detector with new labels up to date."""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import structlog
from sqlalchemy.orm import Session

from tracker.errors import UnavailableError
from tracker.services.estimates.stream.drift import compute_replays, store_replays
from tracker.services.estimates.stream.fold import (
    Fold,
    StaleFoldError,
    read_ends,
    read_folds,
    read_piece,
    read_slices,
    score_folds,
    store_folds,
    store_slices,
)
from tracker.services.telling.events import FAILING, tell
from tracker.services.telling.fold_events import FoldEvents
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector, load_detectors
from tracker.storage.estimates.slices import list_uncounted
from tracker.storage.operations.job_runs import JobRun, add_job_runs, beat
from tracker.storage.operations.leases import (
    LEASE_SECONDS,
    count_failures,
    end_leases,
    let_rest,
    renew_leases,
    take_leases,
)

log = structlog.get_logger("tracker.job")

Clock = Callable[[], datetime]
_TRIES = 5
# Detectors with fewer new queries and labels are folded together.
_FEW = 400
# So many are written in one transaction, for which labels wait on SQLite.
_WRITTEN_AT_ONCE = 16
_FIRST_REST_SECONDS = 10.0
_LONGEST_REST_SECONDS = 3600.0


def utc_now() -> datetime:
    """Return the present instant."""
    return datetime.now(UTC)


class Recomputed(NamedTuple):
    """What one run did for one detector."""

    detector_id: int
    labels: int
    snapshots: int


def recompute_detector(
    database: Database, detector_id: int, *, worker: str, clock: Clock = utc_now
) -> Recomputed | None:
    """Fold in what waits for a detector, piece by piece; None if nothing does.

    Where another worker is faster it has done the work, or part of it: look again.
    Slices by keys that were declared since are counted first.  New labels wait
    meanwhile, a minute for some million, and nobody who writes them does.
    """
    done: list[Recomputed] = []
    tries = _TRIES
    while tries:
        begun = time.perf_counter()
        with database.read() as session:
            detector = find_detector(session, detector_id)
            if detector is None:
                break
            events = FoldEvents()
            slices = read_slices(session, detector, listeners=[events])
            fold = None if slices else read_piece(session, detector, listeners=[events])
        folds = [fold] if fold else []
        score_folds(folds)
        seconds = time.perf_counter() - begun
        try:
            if slices is not None:
                _store_slices(database, slices, clock=clock, seconds=seconds)
            elif fold is None:
                break
            else:
                done += _store(
                    database, folds, worker=worker, clock=clock, seconds=seconds
                )
                if fold.until is None:
                    break
        except StaleFoldError:
            tries -= 1
    else:
        log.info("left to another worker", detector=f"det_{detector_id}")
    if not done:
        return None
    labels, snapshots = (sum(one) for one in zip(*(d[1:] for d in done), strict=True))
    return Recomputed(detector_id, labels, snapshots)


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
        folds = read_folds(session, ready, below=_FEW, listeners=[FoldEvents()])
    score_folds(folds)
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
        # A worker keeps a detector until its last piece.
        ended = [one.detector_id for one in folds if one.until is None]
        end_leases(session, ended)
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


def _end_runs(database: Database, *, worker: str, clock: Clock) -> None:
    """Store the run snapshots that are due; another worker may be faster."""
    begun = time.perf_counter()
    with database.read() as session:
        folds = read_ends(session, at=clock(), listeners=[FoldEvents()])
    if not folds:
        return
    score_folds(folds)
    seconds = (time.perf_counter() - begun) / len(folds)
    with suppress(StaleFoldError):
        _store(database, folds, worker=worker, clock=clock, seconds=seconds)


def _store_slices(
    database: Database, found: Fold, *, clock: Clock, seconds: float
) -> None:
    """Write slices that took so many *seconds* to count.

    Raises StaleFoldError if another worker folded in labels meanwhile.
    """
    begun = time.perf_counter()
    with database.write() as session:
        store_slices(session, found, computed_at=clock())
    log.info(
        "slices counted",
        detector=f"det_{found.detector_id}",
        keys=found.cut_by,
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
        store_replays(session, detector_id, found)
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
        _end_runs(self.database, worker=self.worker, clock=self.clock)
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
