"""The watch for drift: alarms that follow a fall, and how rarely they are false."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.conftest import START, Clock, by
from tests.telling.conftest import events_of
from tests.web.conftest import Visitor
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.estimates.drift import (
    DRIFT,
    REFERENCE_LABELS,
    Replay,
    Watch,
    find_replay,
)
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.services.telling.deliveries import say
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.projections import Projection
from tracker.storage.queries.queries import Query

CLASSES = ["NO", "YES"]
WATCHES = select(Projection).where(Projection.name == DRIFT)


def stream(seed: int, lengths: Sequence[tuple[int, float]]) -> list[tuple[int, bool]]:
    """Labels of two classes, so many with each accuracy after the other."""
    rng = np.random.default_rng(seed)
    found = []
    for length, accuracy in lengths:
        classes, right = rng.integers(0, 2, length), rng.random(length) < accuracy
        found += list(zip(classes.tolist(), right.tolist(), strict=True))
    return found


def feed(watch: Watch, labels: Sequence[tuple[int, bool]], start: int = 0) -> Watch:
    for number, (position, is_right) in enumerate(labels, start + 1):
        watch.add(position, is_right=is_right, mark=number)
    return watch


@pytest.mark.parametrize("seed", range(5))
def test_a_fall_from_95_to_80_percent_is_noticed_soon_and_dated(seed: int) -> None:
    watch = feed(Watch(CLASSES, 0.95), stream(seed, [(600, 0.95), (600, 0.8)]))

    first = watch.alarms[0]
    assert 600 < first.labels < 1000
    assert 450 < first.since_label <= first.labels
    assert 0.8 < first.reference < 0.96
    assert first.reference_labels in {REFERENCE_LABELS, 2 * REFERENCE_LABELS}
    # What follows is the new reference: nothing falls any further.
    assert len(watch.alarms) == 1


def test_a_fall_of_one_class_names_it() -> None:
    labels = [(number % 2, True) for number in range(400)]
    labels += [(number % 2, number % 2 == 0 or number % 4 == 1) for number in range(80)]
    (alarm,) = feed(Watch(CLASSES, 0.95), labels).alarms

    assert alarm.scope in {"YES", "balanced"}
    assert alarm.since_label > 400


@pytest.mark.thorough
def test_false_alarms_are_as_rare_as_promised() -> None:
    # 100 steady lives of 1,000 watched labels: at most 1 alarm in 10,000 labels.
    lives = (
        feed(Watch(CLASSES, 0.95), stream(seed, [(1_200, 0.9)])) for seed in range(100)
    )
    assert sum(len(life.alarms) for life in lives) <= 10


def test_stored_after_each_label_it_continues_to_the_last_bit() -> None:
    labels = stream(3, [(500, 0.97), (300, 0.7)])
    whole = feed(Watch(CLASSES, 0.95), labels)
    state, alarms = None, []
    for number, label in enumerate(labels):
        part = feed(Watch(CLASSES, 0.95, state), [label], number)
        state = json.loads(json.dumps(part.dump()))
        alarms += part.alarms

    assert alarms == whole.alarms != []
    assert state == json.loads(json.dumps(whole.dump()))


def test_a_class_that_came_later_gets_its_reference_first() -> None:
    state = feed(Watch(CLASSES, 0.95), stream(1, [(400, 0.95)])).dump()
    assert state["balanced"]
    watch = Watch([*CLASSES, "MAYBE"], 0.95, json.loads(json.dumps(state)))
    feed(watch, [(2, True)] * (REFERENCE_LABELS - 1), 400)

    assert watch.dump()["balanced"] is None
    assert watch.dump()["watch"]["classes"] == state["watch"]["classes"]
    feed(watch, [(2, True)], 500)
    assert len(watch.dump()["round_of"]) == 3
    assert watch.alarms == []


@pytest.mark.slow
def test_a_fall_is_told_once_with_the_snapshot_however_labels_come(
    new_database: Callable[[str], Database], clock: Clock
) -> None:
    labels = stream(2, [(300, 0.97), (120, 0.5)])
    told: list[list[Any]] = []
    for pieces in (1, 21):
        database = new_database("sqlite")
        with database.write() as session:
            new = NewDetector(
                name="door",
                question="Closed?",
                classes=CLASSES,
                label_sampling="random",
            )
            create_detector(session, new, by(at=START))
        for piece in np.array_split(np.arange(len(labels)), pieces):
            log_labels(database, [labels[place] for place in piece])
            recompute_all(database, worker="w", clock=clock)
        drifts = [one for one in events_of(database) if one.type == "drift.detected"]
        told.append([one.data for one in drifts])
        with database.read() as session:
            assert len(session.scalars(WATCHES).all()) == 1

    assert told[0] == told[1]
    (alarm,) = told[0]
    assert alarm["version"] == "v1"
    assert 300 < alarm["labels"] <= 420
    assert alarm["since_label"] > 280
    said = say("drift.detected", alarm)
    assert said.startswith("door, version v1: the accuracy (")


def log_labels(database: Database, labels: Sequence[tuple[int, bool]]) -> None:
    with database.write() as session:
        detector = get_detector(session, "door")
        for position, is_right in labels:
            said = CLASSES[position if is_right else 1 - position]
            query = NewQuery(predicted=said, label=CLASSES[position], version="v1")
            log_query(session, detector, query, by("a", START))


def test_a_correction_and_a_targeted_label_are_not_watched(
    database: Database, recompute: Callable[[], None]
) -> None:
    with database.write() as session:
        new = NewDetector(
            name="door",
            question="Closed?",
            classes=CLASSES,
            label_sampling="random",
        )
        detector = create_detector(session, new, by(at=START))
        for sampling, label in (("targeted", "NO"), ("random", "UNCLEAR")):
            query = NewQuery(predicted="YES", label=label, sampling=sampling)
            log_query(session, detector, query, by("a", START))
    recompute()
    with database.read() as session:
        assert session.scalars(WATCHES).all() == []


@pytest.mark.slow
def test_after_many_corrections_a_replay_goes_by_the_labels_of_today(
    app: Flask, database: Database, recompute: Callable[[], None]
) -> None:
    visitor = Visitor(app)
    with database.write() as session:
        new = NewDetector(
            name="door",
            question="Closed?",
            classes=CLASSES,
            label_sampling="random",
        )
        create_detector(session, new, by(at=START))
    log_labels(database, stream(2, [(300, 0.97), (120, 0.5)]))
    recompute()
    assert read_replay(database) is None
    told = [one.data for one in events_of(database) if one.type == "drift.detected"]
    for which, is_fallen in ((slice(0, 380), True), (slice(380, 420), False)):
        correct(database, which)
        recompute()
        replay = read_replay(database)
        assert replay is not None
        assert replay.labels == 420
        again = feed(Watch(CLASSES, 0.95), current_labels(database))
        assert replay.alarms == [alarm.dump() for alarm in again.alarms]
        assert bool(replay.alarms) is is_fallen
        page = visitor.get("/detectors/door/changes").text
        said = f"after {replay.corrections} corrections) "
        assert said + ("an alarm sounds after" if is_fallen else "no alarm") in page
    # What was told stays, and so does what the watch made of the first labels.
    events = [one.data for one in events_of(database) if one.type == "drift.detected"]
    assert events == told
    assert len(told) == 1
    with database.read() as session:
        (watch,) = session.scalars(WATCHES).all()
    assert watch.state["alarms"] == 1


@pytest.mark.slow
def test_a_replay_waits_for_one_correction_in_a_hundred_labels(
    database: Database, recompute: Callable[[], None]
) -> None:
    with database.write() as session:
        new = NewDetector(
            name="door",
            question="Closed?",
            classes=CLASSES,
            label_sampling="random",
        )
        create_detector(session, new, by(at=START))
    log_labels(database, [(number % 2, number >= 10) for number in range(200)])
    recompute()
    for corrected, replayed in ((2, None), (3, 3), (5, 3), (6, 6)):
        correct(database, slice(0, corrected))
        recompute()
        found = read_replay(database)
        assert (found and found.corrections) == replayed


def read_replay(database: Database) -> Replay | None:
    with database.read() as session:
        (version,) = list_versions(session, get_detector(session, "door").id)
        return find_replay(session, version)


def correct(database: Database, which: slice) -> None:
    """Label each of these queries as what was predicted, where it was not."""
    with database.write() as session:
        for query in all_queries(session)[which]:
            if query.label != query.predicted:
                new = NewLabel(label=query.predicted)
                add_label(session, query.id, new, by("a", START))


def current_labels(database: Database) -> list[tuple[int, bool]]:
    with database.read() as session:
        return [
            (CLASSES.index(str(query.label)), query.label == query.predicted)
            for query in all_queries(session)
        ]


def all_queries(session: Session) -> Sequence[Query]:
    return session.scalars(select(Query).order_by(Query.id)).all()
