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
from tests.telling.evidence import follow_all
from tracker.jobs.loop import Loop
from tracker.jobs.recompute import recompute_all
from tracker.jobs.telling import Stalls
from tracker.services.detectors import (
    DetectorChange,
    NewDetector,
    change_detector,
    create_detector,
    get_detector,
)
from tracker.services.queries.queries import NewQuery, log_query
from tracker.services.telling.deliveries import say
from tracker.services.telling.events import Look, follow_verdict
from tracker.stats import balanced_interval
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.telling import Event

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
    assert met.data["before"] is None
    assert met.data["version"] == "v1"
    assert met.data["low"] > met.data["target"] == 0.7
    assert say(met.type, met.data) == "door, version v1: met after 120 labels."
    log("YES", "YES", 30)
    recompute()
    assert len(events_of(database)) == 2
    log("NO", "YES", 400)
    recompute()
    found = [one for one in events_of(database)[2:] if one.type == "verdict.changed"]
    kinds = [event.data["verdict"] for event in found]
    assert kinds in (["missed"], ["undecided", "missed"], ["undecided"])


@pytest.mark.slow
def test_the_same_labels_give_the_same_verdict_in_one_run_or_many(
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
            new = NewDetector(
                name="door", question="Closed?", target=0.7, label_sampling="random"
            )
            create_detector(session, new, by(at=START))
        for number in range(90):
            with database.write() as session:
                query = NewQuery(predicted=said[number], label=truths[number])
                detector = get_detector(session, "door")
                log_query(session, detector, query, by("a", START))
            if (number + 1) % run_after == 0:
                recompute_all(database, worker="w", clock=clock)
        recompute_all(database, worker="w", clock=clock)
        told.append(
            [(one.type, one.data.get("verdict")) for one in events_of(database)]
        )
    # A verdict that was told is told once, whenever the worker looks.
    assert told[0] == told[1] == told[2]
    assert [verdict for _, verdict in told[0]] == [None, "met"]


@pytest.mark.slow
def test_workers_at_once_tell_once(
    database: Database, clock: Clock, door: Detector, log: Log
) -> None:
    log("YES", "YES", 60)
    log("NO", "NO", 60)
    threads = [
        threading.Thread(
            target=recompute_all,
            args=(database,),
            kwargs={"worker": f"w{i}", "clock": clock},
        )
        for i in range(4)
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
    # The bare verdict is left at the second look, this one only later.
    met, left = follow_all(looks, 0.9, 0.95)
    assert (met["verdict"], left["before"]) == ("met", "met")
    assert (left["low"], left["high"]) == (looks[2].low, looks[2].high)


def test_without_labels_or_under_another_target_the_bare_verdict_counts() -> None:
    (met,) = follow_all([look(99, 100)], 0.9, 0.95)
    last = Event(data=met)
    weaker = look(95, 100)
    assert follow_verdict(weaker, 0.9, 0.95, last) is None
    other = follow_verdict(weaker, 0.91, 0.95, last)
    # What was told is of another target, so it was not the verdict before.
    assert (other["verdict"], other["before"]) == ("undecided", None)
    none = follow_verdict(Look([0, 0], [0, 0], 0.0, 1.0), 0.9, 0.95, last)
    assert none["verdict"] == "undecided"


def test_missed_is_left_as_late_as_met() -> None:
    missed, met = follow_all(
        [look(60, 100), near := look(68, 100), look(100, 100)], 0.9, 0.95
    )
    assert near.low < 0.9 < near.high
    assert (missed["verdict"], met["verdict"]) == ("missed", "met")


def test_since_another_day_the_bare_verdict_counts() -> None:
    sure, weaker = look(99, 100), look(95, 100)
    met, left = follow_all(
        [sure, weaker, replace(weaker, since="2026-01-31")], 0.9, 0.95
    )
    assert (met["since"], left["since"]) == (None, "2026-01-31")
    assert met["before"] is None
    assert (left["before"], left["verdict"]) == ("met", "undecided")


@pytest.mark.slow
def test_a_detector_that_fails_is_one_event_until_it_works_again(
    database: Database, clock: Clock, door: Detector, log: Log
) -> None:
    log("YES", "YES", 1)
    recompute_all(database, worker="w", clock=clock)
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["only one"]
    log_raw(database, door.id)
    for _ in range(3):
        clock.at += timedelta(hours=2)
        recompute_all(database, worker="w", clock=clock)
    kinds = [event.type for event in events_of(database)]
    assert kinds.count("detector.failing") == 1
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["YES", "NO"]
    clock.at += timedelta(hours=2)
    recompute_all(database, worker="w", clock=clock)
    with database.write() as session:
        session.get_one(Detector, door.id).classes = ["only one"]
    log_raw(database, door.id)
    recompute_all(database, worker="w", clock=clock)
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
    loop = Loop(database, "w", [Stalls(database=database, clock=clock)], clock)

    def look() -> int:
        loop.enqueue("stalls")
        return loop.run()

    clock.at += timedelta(days=30)
    assert look() == 0
    with database.write() as session:
        change = DetectorChange(stalled_after_hours=48)
        change_detector(session, session.get_one(Detector, door.id), change, by())
    assert look() == 1
    assert look() == 0
    log("YES", "YES", 1, at=clock())
    recompute()
    clock.at += timedelta(hours=47)
    assert look() == 0
    clock.at += timedelta(hours=1)
    assert look() == 1
    assert look() == 0
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
