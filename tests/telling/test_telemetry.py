"""Estimates sent to a collector, which is a little server on loopback."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
)

from tests.conftest import START, Clock
from tests.telling.receiver import Message, Receiver, answer
from tracker.jobs.loop import Loop
from tracker.jobs.telling import Exporter
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.projections import QUIET
from tracker.storage.database import Database
from tracker.storage.detectors import Detector

Log = Callable[..., None]


def read(message: Message) -> list[dict[str, Any]]:
    """The attributes of each event, as a collector reads them."""
    request = Parse(message.body, ExportLogsServiceRequest())
    (resource,) = request.resource_logs
    (scope,) = resource.scope_logs
    assert {one.event_name for one in scope.log_records} == {"gen_ai.evaluation.result"}
    assert all(one.time_unix_nano for one in scope.log_records)
    return [
        {
            one.key: getattr(one.value, one.value.WhichOneof("value"))
            for one in record.attributes
        }
        for record in scope.log_records
    ]


def exporter(database: Database, receiver: Receiver, clock: Clock) -> Loop:
    where, headers = f"http://{receiver.host}", {"api-key": "secret"}
    handler = Exporter(
        database=database,
        endpoint=where,
        headers=headers,
        every_seconds=0,
        clock=clock,
    )
    return Loop(database, "w", [handler], clock)


@pytest.mark.thorough
def test_estimates_go_out_with_counts_and_intervals(
    database: Database,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
    receiver: Receiver,
    clock: Clock,
) -> None:
    log("YES", "YES", 60)
    log("NO", "NO", 59)
    log("YES", "NO", 1)
    recompute()
    # 120 labels are no checkpoint, so they get a snapshot once no more have come.
    clock.at += QUIET
    recompute()
    assert exporter(database, receiver, clock).run() == 1
    (message,) = receiver.messages
    assert (message.path, message.headers["api-key"]) == ("/v1/logs", "secret")
    events = read(message)
    assert len(events) == 3 * 3
    with database.read() as session:
        detector = get_detector(session, "door")
        for method in ("exact", "joint", "anytime"):
            found = get_estimate(session, detector, computed_at=START, method=method)
            balanced, no, yes = sorted(
                (one for one in events if one["tracker.method"] == method),
                key=lambda one: ("balanced", "NO", "YES").index(one["tracker.class"]),
            )
            assert (balanced["tracker.low"], balanced["tracker.high"]) == (
                found.balanced.low,
                found.balanced.high,
            )
            assert (no["tracker.correct"], no["tracker.labelled"]) == (59, 60)
            assert yes["gen_ai.evaluation.score.value"] == 1.0
            said = balanced.get("gen_ai.evaluation.score.label")
            assert said == ("met" if method == "anytime" else None)


@pytest.mark.parametrize("measure", ["balanced", "overall"])
def test_a_verdict_is_sent_of_any_measure_with_others_beside_it(
    database: Database,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
    receiver: Receiver,
    clock: Clock,
    measure: str,
) -> None:
    with database.write() as session:
        detector = get_detector(session, "door")
        detector.measure, detector.also = measure, [["recall:YES", 0.5]]
    log("YES", "YES", 60)
    log("NO", "NO", 60)
    recompute()
    clock.at += QUIET
    recompute()
    exporter(database, receiver, clock).run()
    (said,) = (
        one
        for one in read(receiver.messages[0])
        if "gen_ai.evaluation.score.label" in one
    )
    assert said["gen_ai.evaluation.score.label"] == "met"
    assert (said["tracker.measure"], said["tracker.class"]) == (measure, "balanced")


def test_the_verdict_is_of_the_days_since_the_last_change(
    database: Database,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
    receiver: Receiver,
    clock: Clock,
) -> None:
    for ago in range(30, 0, -1):
        wrong, day = 0 if ago > 10 else 6, START - timedelta(days=ago)
        for one, other in (("YES", "NO"), ("NO", "YES")):
            log(one, one, 10 - wrong, day)
            log(other, one, wrong, day)
    recompute()
    clock.at += QUIET
    recompute()
    exporter(database, receiver, clock).run()
    (said,) = (
        one["gen_ai.evaluation.score.label"]
        for one in read(receiver.messages[0])
        if "gen_ai.evaluation.score.label" in one
    )
    with database.read() as session:
        door = get_detector(session, "door")
        found = get_estimate(session, door, computed_at=START, method="anytime")
    assert found.decision is not None
    assert said == found.decision.verdict == "missed"


@pytest.mark.thorough
def test_what_is_not_taken_comes_again_and_nothing_twice(
    database: Database,
    door: Detector,
    log: Log,
    recompute: Callable[[], None],
    receiver: Receiver,
    clock: Clock,
) -> None:
    sender = exporter(database, receiver, clock)
    assert sender.run() == 0
    assert receiver.messages == []
    log("YES", "YES", 1)
    recompute()
    receiver.behaviour = answer(503)
    assert sender.run() == 0
    receiver.behaviour = None
    clock.at += timedelta(seconds=11)
    assert sender.run() == 1
    assert sender.run() == 0
    assert receiver.messages[0].body == receiver.messages[1].body
    assert len(receiver.messages) == 2
    log("NO", "NO", 1)
    recompute()
    assert sender.run() == 1
