"""Audits from a program: begun, labelled until their goal, narrowed and closed."""

import pytest
from tracker_client import ServerError, Tracker

from client.tests.service import Service


def truth_of(key: str) -> str:
    number = int(key.removeprefix("q"))
    return "NO" if number % 4 == 0 else "YES"


@pytest.fixture
def door(service: Service, tracker: Tracker):
    made = tracker.detector(service.new_name(), question="?", classes=["YES", "NO"])
    for number in range(60):
        said = truth_of(f"q{number}") if number % 9 else "YES"
        made.log(said, confidence=0.6 if number % 9 == 0 else 0.95, key=f"q{number}")
    assert tracker.flush(timeout=30)
    return made


def test_a_schedule_is_begun_and_has_made_nothing_yet(door):
    schedule = door.begin_schedule("Weekly", every="week", labels=40)
    assert (schedule["every"], schedule["audits"]) == ("week", 0)
    door.begin_audit("Now", half_width=0.3)
    assert len(door.audits()) == 1
    assert door.audits(every="week") == []


@pytest.mark.slow
def test_an_audit_is_labelled_until_its_goal_and_closed(door):
    audit = door.begin_audit("November", half_width=0.2, seed="1", version="*")
    assert audit["queries"] == 60
    answers = 0
    for draw in audit.draws():
        audit.label(draw, truth_of(draw["key"]), note="looked twice")
        answers += 1
    found = audit.estimate()
    assert found["is_reached"]
    assert found["labels_used"] == answers < 60
    narrower = audit.narrow(0.1)
    assert narrower["half_width"] == 0.1
    with pytest.raises(ServerError, match="not narrower"):
        audit.narrow(0.3)
    assert audit.pause()["paused_at"]
    with pytest.raises(ServerError, match="is paused"):
        audit.next()
    assert audit.resume()["paused_at"] is None
    assert [one["draws"] for one in audit.history()][-1] == answers
    assert len(audit.record()["draws"]) == answers
    closed = audit.close()
    assert closed["result"]["balanced"] == audit.estimate()["balanced"]
    assert len(closed["key"]) == 64
    assert "60 queries" in repr(closed)


@pytest.mark.thorough
def test_audits_are_listed_the_newest_first(door):
    for name in ("a", "b"):
        door.begin_audit(name, aim="NO", half_width=0.1)
    assert [one["name"] for one in door.audits()] == ["b", "a"]
    with pytest.raises(ServerError, match="already"):
        door.begin_audit("a")
