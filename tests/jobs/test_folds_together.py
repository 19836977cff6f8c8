"""Detectors that have little to do are folded together, with the bits of each alone."""

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import START, Clock, by
from tests.services.folds import compute_fold, compute_folds
from tracker.jobs.recompute import (
    Recompute,
    recompute_all,
)
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.fold import StaleFoldError, store_folds
from tracker.services.estimates.recount import recount
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.estimates.pending import list_pending_detectors
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.storage.tasks import RECOMPUTE, find_failures
from tracker.words import MEASURES, RECALL

CLASSES = (["YES", "NO"], ["a", "b", "c"], [f"c{number}" for number in range(10)])
LEVELS = (0.95, 0.95, 0.9)


def make_detectors(database: Database) -> None:
    """Six detectors of 2, 3 and 10 classes, two levels, and one to thirty labels."""
    draw = random.Random(5)
    with database.write() as session:
        for number in range(6):
            names = CLASSES[number % 3]
            new = NewDetector(
                name=f"d{number}",
                question="Which?",
                classes=names,
                confidence_level=LEVELS[(number + 1) % 3],
                target=0.5,
            )
            detector = create_detector(session, new, by(at=START))
            for _ in range(1 + 6 * number):
                query = NewQuery(
                    predicted=draw.choice(names),
                    label=draw.choice(names),
                    version=draw.choice(["v1", "v2"]),
                )
                log_query(session, detector, query, by("ann", START))


def stored(database: Database) -> dict[str, list[Sequence[object]]]:
    """Return all that the history of each detector says."""
    with database.read() as session:
        return {
            detector.name: [
                tuple(row)
                for version in list_versions(session, detector.id)
                for measure in MEASURES
                for row in iter_intervals(session, [version], measure=measure)
            ]
            for detector in list_detectors(session)
        }


@pytest.mark.slow
def test_together_they_give_the_bits_of_each_alone(database: Database) -> None:
    make_detectors(database)
    with database.read() as session:
        detectors = list(list_detectors(session))
        alone = [compute_fold(session, one) for one in detectors]
        together = compute_folds(session, detectors)
    by_id = {fold.detector.id: fold for fold in together}
    assert len(by_id) == len(detectors) == 6
    for fold in alone:
        assert fold is not None
        found = by_id[fold.detector.id]
        assert fold.labels == 1 + 6 * (fold.detector.id - 1)
        assert found.taken == fold.taken
        [mine], [its] = found.listeners, fold.listeners
        for version_id in fold.versions:
            assert mine.verdicts.get(version_id) == its.verdicts.get(version_id)
        scored = [one for _, some in fold.taken.values() for one in some]
        assert sum(one[1] == RECALL for one in scored) >= 2 * fold.labels


@pytest.mark.slow
def test_what_is_stored_is_what_each_alone_stores(
    database: Database, new_database: Callable[[str], Database]
) -> None:
    other = new_database(database.engine.dialect.name)
    for one in (database, other):
        make_detectors(one)
    ids = range(1, 7)
    job, alone = (
        Recompute(database=one, worker="w", clock=lambda: START)
        for one in (database, other)
    )
    done = list(job.recompute_small(ids))
    assert [one.labels for one in done] == [1 + 6 * (number - 1) for number in ids]
    for detector_id in ids:
        alone.recompute(detector_id)
    assert stored(database) == stored(other)
    assert min(map(len, stored(other).values())) > 0


def test_who_has_much_to_do_is_left_for_later(database: Database) -> None:
    make_detectors(database)
    with database.read() as session:
        detectors = list_detectors(session)
        small = compute_folds(session, detectors, below=15)
    assert sorted(fold.labels for fold in small) == [1, 7]


@pytest.mark.thorough
def test_where_another_worker_was_faster_with_one_none_is_written(
    database: Database, clock: Clock
) -> None:
    make_detectors(database)
    with database.read() as session:
        late = compute_folds(session, list_detectors(session))
    Recompute(database=database, worker="fast", clock=clock).recompute(3)
    before = stored(database)
    with pytest.raises(StaleFoldError), database.write() as session:
        store_folds(session, late, worker="w", computed_at=START, seconds=0.1)
    assert stored(database) == before
    done = recompute_all(database, worker="w", clock=clock)
    assert sorted(one.detector_id for one in done) == [1, 2, 4, 5, 6]


@pytest.mark.thorough
def test_workers_at_the_same_detectors_never_wait_for_each_other_forever(
    database: Database, clock: Clock
) -> None:
    make_detectors(database)
    workers = [f"w{number}" for number in range(3)]
    folded: list[int] = []

    def work(worker: str) -> None:
        while True:
            # What another has taken up as well: both write the same detectors.
            done = recompute_all(database, worker=worker, clock=clock)
            folded.extend(one.labels for one in done)
            with database.read() as session:
                if not list_pending_detectors(session):
                    return

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, workers))
    assert sum(folded) == 1 + 7 + 13 + 19 + 25 + 31
    with database.read() as session:
        for detector in list_detectors(session):
            assert recount(session, detector) == []
            assert find_failures(session, RECOMPUTE, [detector.id]) == {}


@pytest.mark.thorough
def test_one_that_fails_holds_up_none_beside_it(
    database: Database, clock: Clock
) -> None:
    make_detectors(database)
    with database.write() as session:
        # The program cannot do this; a hand in the database can.
        session.get_one(Detector, 3).classes = ["none", "of", "them"]
    done = recompute_all(database, worker="w", clock=clock)
    assert sorted(one.detector_id for one in done) == [1, 2, 4, 5, 6]
    with database.read() as session:
        assert list(list_pending_detectors(session)) == [3]


@pytest.mark.thorough
def test_what_is_stored_before_one_fails_is_in_what_the_run_did(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracker.jobs.recompute._WRITTEN_AT_ONCE", 2)
    make_detectors(database)
    recompute_all(database, worker="w", clock=clock)
    with database.write() as session:
        for detector in list_detectors(session):
            name = detector.classes[0]
            new = NewQuery(predicted=name, label=name, version="v1")
            log_query(session, detector, new, by("ann", START))
        # A hand in the database: the number of its next snapshot is taken.
        for version in list_versions(session, 3):
            version.sequence -= 1
    done = recompute_all(database, worker="w", clock=clock)
    assert sorted(one.detector_id for one in done) == [1, 2, 4, 5, 6]
    with database.read() as session:
        assert list(list_pending_detectors(session)) == [3]
