"""Detectors that have little to do are folded together, with the bits of each alone."""

import random
from collections.abc import Callable, Sequence

from tests.conftest import START, Clock, by
from tracker.jobs.recompute import Recomputer, recompute_detector, recompute_small
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.operations.recompute import compute_fold, compute_folds
from tracker.services.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.estimates.pending import list_pending_detectors
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.words import MEASURES

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
                for row in iter_intervals(session, [version.id], measure=measure)
            ]
            for detector in list_detectors(session)
        }


def test_together_they_give_the_bits_of_each_alone(database: Database) -> None:
    make_detectors(database)
    with database.read() as session:
        detectors = list(list_detectors(session))
        alone = [compute_fold(session, one) for one in detectors]
        together = compute_folds(session, detectors)
    by_id = {fold.detector_id: fold for fold in together}
    assert len(by_id) == len(detectors) == 6
    for fold in alone:
        assert fold is not None
        found = by_id[fold.detector_id]
        assert fold.labels == 1 + 6 * (fold.detector_id - 1)
        assert found.intervals == fold.intervals
        assert found.measures == fold.measures
        assert found.verdicts == fold.verdicts
        assert sum(map(len, fold.intervals.values())) >= 2 * fold.labels


def test_what_is_stored_is_what_each_alone_stores(
    database: Database, new_database: Callable[[str], Database]
) -> None:
    other = new_database(database.engine.dialect.name)
    for one in (database, other):
        make_detectors(one)
    ids = range(1, 7)
    done = recompute_small(database, ids, worker="w", clock=lambda: START)
    assert [one.labels for one in done] == [1 + 6 * (number - 1) for number in ids]
    for detector_id in ids:
        recompute_detector(other, detector_id, worker="w", clock=lambda: START)
    assert stored(database) == stored(other)
    assert min(map(len, stored(other).values())) > 0


def test_who_has_much_to_do_is_left_for_later(database: Database) -> None:
    make_detectors(database)
    with database.read() as session:
        detectors = list_detectors(session)
        small = compute_folds(session, detectors, below=8)
    assert sorted(fold.labels for fold in small) == [1, 7]


def test_one_that_fails_holds_up_none_beside_it(
    database: Database, clock: Clock
) -> None:
    make_detectors(database)
    with database.write() as session:
        # The program cannot do this; a hand in the database can.
        session.get_one(Detector, 3).classes = ["none", "of", "them"]
    done = Recomputer(database, "w", clock).run()
    assert sorted(one.detector_id for one in done) == [1, 2, 4, 5, 6]
    with database.read() as session:
        assert list(list_pending_detectors(session)) == [3]
