"""Events: written once, with what caused them, no matter who writes them."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from tests.conftest import START, Clock, by
from tests.telling.conftest import events_of
from tracker.jobs.recompute import Recomputer
from tracker.jobs.webhooks import Courier
from tracker.services.detectors import (
    DetectorChange,
    NewDetector,
    change_detector,
    create_detector,
    get_detector,
)
from tracker.services.estimates.stream.points import Stretch
from tracker.services.queries.queries import NewQuery, log_query
from tracker.services.telling.deliveries import say
from tracker.services.telling.events import Look, follow_verdict
from tracker.stats import balanced_interval
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.telling.events import Event

Log = Callable[..., None]


@pytest.mark.slow
def test_a_verdict_is_an_event_once_when_it_changes(
    database: Database, door: Detector, log: Log, recompute: Callable[[], None]
) -> None:
    log("YES", "YES", 60)
    log("NO", "NO", 60)
    recompute()
    first, met = events_of(database)
    assert first.type == "version.first_seen"
    assert met.type == "verdict.changed"
    assert met.data["verdict"] == "met"
    assert met.data["before"] == "undecided"
    assert met.data["version"] == "v1"
    assert met.data["low"] > met.data["target"] == 0.7
    assert say(met.type, met.data).startswith("door, version v1: met after ")
    log("YES", "YES", 30)
    recompute()
    assert len(events_of(database)) == 2
    log("NO", "YES", 400)
    recompute()
    # The fall is told of too, as drift.
    found = [one for one in events_of(database)[2:] if one.type == "verdict.changed"]
    kinds = [event.data["verdict"] for event in found]
    assert kinds in (["missed"], ["undecided", "missed"], ["undecided"])


@pytest.mark.slow
def test_the_same_labels_give_the_same_events_in_one_run_or_many(
    new_database: Callable[[str], Database], clock: Clock
) -> None:
    rng = np.random.default_rng(5)
    truths = rng.choice(["YES", "NO"], 90)
    hits = rng.random(90) < 0.97
    said = np.where(hits, truths, np.where(truths == "YES", "NO", "YES"))
    told: list[list[tuple[Any, ...]]] = []
    for run_after in (1, 7, 90):
        database = new_database("sqlite")
        with database.write() as session:
            new = NewDetector(name="door", question="Closed?", target=0.7)
            create_detector(session, new, by(at=START))
        for number in range(90):
            with database.write() as session:
                query = NewQuery(predicted=said[number], label=truths[number])
                detector = get_detector(session, "door")
                log_query(session, detector, query, by("a", START))
            if (number + 1) % run_after == 0:
                Recomputer(database, "w", clock).run()
        Recomputer(database, "w", clock).run()
        told.append([(one.type, one.data) for one in events_of(database)])
    assert told[0] == told[1] == told[2]
    assert len(told[0]) >= 2


@pytest.mark.slow
def test_workers_at_once_tell_once(
    database: Database, clock: Clock, door: Detector, log: Log
) -> None:
    log("YES", "YES", 60)
    log("NO", "NO", 60)
    workers = [Recomputer(database, f"w{i}", clock) for i in range(4)]
    threads = [
        threading.Thread(target=one.run, kwargs={"is_forced": True}) for one in workers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [event.type for event in events_of(database)]
    assert kinds == ["version.first_seen", "verdict.changed"]


def look(correct: int, labelled: int) -> Look:
    k, n = [correct, 50], [labelled, 50]
    low, high = balanced_interval("anytime", k, n, 0.95)
    return Look(k, n, float(low), float(high))


def test_a_verdict_is_left_only_when_the_labels_no_longer_speak_for_it() -> None:
    looks = [look(99, 100), look(95, 100), look(60, 100)]
    assert looks[0].low > 0.9 > looks[1].low
    changes = follow_verdict(looks, 0.9, 0.95, None)
    assert [one.verdict for one in changes][:1] == ["met"]
    # The bare verdict is left at the second look, this one only later.
    assert [one.labels for one in changes].count(150) == len(changes)
    (left,) = changes[1:]
    assert left.before == "met"
    assert (left.low, left.high) == (looks[2].low, looks[2].high)


def test_without_labels_or_under_another_target_the_bare_verdict_counts() -> None:
    (met,) = follow_verdict([look(99, 100)], 0.9, 0.95, None)
    last = Event(data=met.dump())
    weaker = look(95, 100)
    assert follow_verdict([weaker], 0.9, 0.95, last) == []
    (other,) = follow_verdict([weaker], 0.91, 0.95, last)
    assert (other.verdict, other.before) == ("undecided", "met")
    (none,) = follow_verdict([Look([0, 0], [0, 0], 0.0, 1.0)], 0.9, 0.95, last)
    assert none.verdict == "undecided"


def test_missed_is_left_as_late_as_met() -> None:
    (missed,) = follow_verdict([look(60, 100)], 0.9, 0.95, None)
    assert missed.verdict == "missed"
    last = Event(data=missed.dump())
    near = look(68, 100)
    assert near.low < 0.9 < near.high
    changes = follow_verdict([near, look(100, 100)], 0.9, 0.95, last)
    assert [one.verdict for one in changes] == ["met"]


def since(alarms: int, correct: int, labelled: int) -> Stretch:
    return Stretch(alarms, (correct, correct), (labelled, labelled))


def test_a_drift_alarm_ends_met_until_the_labels_since_then_say_so_too() -> None:
    sure = look(990, 1_000)
    assert sure.low > 0.7
    looks = [
        replace(sure, stretch=stretch)
        for stretch in (None, since(1, 0, 0), since(1, 20, 22), since(1, 99, 100))
    ]
    changes = follow_verdict(looks, 0.7, 0.95, None)
    # The whole is met at each of them.
    assert [one.verdict for one in changes] == ["met", "undecided", "met"]
    assert [one.alarms for one in changes] == [0, 1, 1]
    # What follows the alarm is as hard to leave as any verdict.
    last = Event(data=changes[-1].dump())
    weaker = replace(sure, stretch=since(1, 85, 100))
    assert follow_verdict([weaker], 0.7, 0.95, last) == []
    (left,) = follow_verdict([replace(sure, stretch=since(2, 9, 9))], 0.7, 0.95, last)
    assert (left.verdict, left.alarms) == ("undecided", 2)


def test_later_stretches_need_more_labels_to_be_met_again() -> None:
    sure = look(990, 1_000)

    def needed(alarms: int) -> int:
        """How many right labels of each class since the alarm say *met* again."""
        for n in range(1, 200):
            looks = [replace(sure, stretch=since(alarms, n, n))]
            if follow_verdict(looks, 0.7, 0.95, None):
                return n
        return 200

    counts = [needed(alarms) for alarms in (1, 4, 20)]
    assert counts == sorted(set(counts))


def test_an_alarm_leaves_missed_as_it_is() -> None:
    low = look(10, 100)
    (missed,) = follow_verdict([low], 0.7, 0.95, None)
    last = Event(data=missed.dump())
    alarmed = replace(low, stretch=since(1, 0, 0))
    assert follow_verdict([alarmed], 0.7, 0.95, last) == []


@pytest.mark.slow
def test_a_fall_that_stays_above_the_target_ends_met_and_later_begins_it_again(
    database: Database, door: Detector, log: Log, recompute: Callable[[], None]
) -> None:
    def give(times: int, *pairs: tuple[str, str]) -> None:
        for _ in range(times):
            for said, truth in pairs:
                log(said, truth, 1)
        recompute()

    right = (("YES", "YES"), ("NO", "NO"))
    give(150, *right)
    # 86 % from now on: better than the target of 70 %, and worse than before.
    mixed = (*right, *right, *right, ("YES", "YES"), ("YES", "NO"))
    for _ in range(25):
        give(3, *mixed)
    found = [
        (one.type, one.data.get("verdict"), one.data.get("alarms"))
        for one in events_of(database)[1:]
    ]
    assert found == [
        ("verdict.changed", "met", 0),
        # They are told in the order in which they follow from each other.
        ("drift.detected", None, None),
        ("verdict.changed", "undecided", 1),
        ("verdict.changed", "met", 1),
    ]


@pytest.mark.slow
def test_a_detector_that_fails_is_one_event_until_it_works_again(
    database: Database, clock: Clock, door: Detector, log: Log
) -> None:
    log("YES", "YES", 1)
    Recomputer(database, "w", clock).run()
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["only one"]
    log_raw(database, door.id)
    for _ in range(3):
        clock.at += timedelta(hours=2)
        Recomputer(database, "w", clock).run()
    kinds = [event.type for event in events_of(database)]
    assert kinds.count("detector.failing") == 1
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["YES", "NO"]
    clock.at += timedelta(hours=2)
    Recomputer(database, "w", clock).run()
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["only one"]
    log_raw(database, door.id)
    Recomputer(database, "w", clock).run()
    kinds = [event.type for event in events_of(database)]
    assert kinds.count("detector.failing") == 2


def log_raw(database: Database, detector_id: int) -> None:
    with database.write() as session:
        detector = session.get_one(Detector, detector_id)
        broken, detector.classes = detector.classes, ["YES", "NO"]
        query = NewQuery(predicted="NO", label="NO", version="v1")
        log_query(session, detector, query, by("a", START))
        detector.classes = broken


def test_a_stall_is_one_event_and_another_after_the_next_label(
    database: Database,
    clock: Clock,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
) -> None:
    courier = Courier(database, "w", clock=clock)
    clock.at += timedelta(days=30)
    assert courier.look_around() == 0
    with database.write() as session:
        change = DetectorChange(stalled_after_hours=48)
        change_detector(session, session.get_one(Detector, door.id), change, by())
    assert courier.look_around() == 1
    assert courier.look_around() == 0
    log("YES", "YES", 1, at=clock())
    recompute()
    clock.at += timedelta(hours=47)
    assert courier.look_around() == 0
    clock.at += timedelta(hours=1)
    assert courier.look_around() == 1
    assert courier.look_around() == 0
    stalls = [one for one in events_of(database) if one.type == "labels.stalled"]
    assert [one.data["last_label_at"] is None for one in stalls] == [True, False]
    assert say(stalls[0].type, stalls[0].data) == "door: no label for 48 hours."


@pytest.mark.parametrize(
    "statement", ["UPDATE events SET type = 'x'", "DELETE FROM events"]
)
def test_events_cannot_be_changed(
    database: Database,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
    statement: str,
) -> None:
    log("YES", "YES", 1)
    recompute()
    with (
        pytest.raises(DBAPIError, match="append-only"),
        database.write() as session,
    ):
        session.execute(text(statement))
    assert [event.type for event in events_of(database)] == ["version.first_seen"]
