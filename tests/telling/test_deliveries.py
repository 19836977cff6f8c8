"""What is in the outbox reaches its receiver: signed, in order, at least once."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pytest
from standardwebhooks import Webhook as Verifier

from tests.conftest import START, Clock, by
from tests.telling.conftest import deliveries_of, webhook_loop
from tests.telling.receiver import (
    Receiver,
    answer,
    drip,
    endless_head,
    receiving,
    reset,
    stay_silent,
    stream,
)
from tracker.jobs.loop import Loop
from tracker.jobs.retention import Retention
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.telling.deliveries import queue_message
from tracker.services.telling.events import tell
from tracker.services.telling.webhooks import (
    WebhookChange,
    change_webhook,
    delete_webhook,
    rotate_secret,
)
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.tasks import take
from tracker.storage.telling import Webhook
from tracker.words import TEST_EVENT

Subscribe = Callable[..., Webhook]


@pytest.fixture
def happen(database: Database, clock: Clock) -> Callable[..., None]:
    def add(detector: Detector, *texts: str) -> None:
        for text in texts:
            with database.write() as session:
                found = session.get_one(Detector, detector.id)
                data = {"error": text}
                tell(session, "detector.failing", found, at=clock(), data=data)

    return add


@pytest.fixture
def other(database: Database) -> Detector:
    """A second detector, beside the door."""
    new = NewDetector(name="other", question="?")
    with database.write() as session:
        return create_detector(session, new, by(at=START))


def texts(receiver: Receiver) -> list[str]:
    return [message.json["data"]["error"] for message in receiver.messages]


@pytest.mark.thorough
def test_a_message_is_signed_as_the_standard_says(
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    database: Database,
    clock: Clock,
) -> None:
    webhook = subscribe(receiver)
    happen(door, "\u00e9 \U0001f600 <b>")
    # A receiver takes no message that is older than some minutes.
    real = webhook_loop(database)
    real.run()
    (message,) = receiver.messages
    checked = Verifier(webhook.secret).verify(message.body.decode(), message.headers)
    assert checked["type"] == "detector.failing"
    assert checked["timestamp"].startswith("2026-01-31T12:00:00")
    assert checked["data"]["detector"] == f"det_{door.id}"
    assert checked["data"]["error"] == "\u00e9 \U0001f600 <b>"
    assert message.id.startswith("evt_")
    assert message.headers["content-type"] == "application/json"
    (delivery,) = deliveries_of(database)
    assert (delivery.state, delivery.status, delivery.attempts) == ("delivered", 204, 1)


@pytest.mark.thorough
def test_a_replaced_secret_signs_for_a_day(
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    database: Database,
    clock: Clock,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver)
    with database.write() as session:
        found = session.get_one(Webhook, webhook.id)
        made = rotate_secret(session, found, by(at=clock()))
    happen(door, "a")
    courier.run()
    clock.at += timedelta(hours=24)
    happen(door, "b")
    courier.run()
    both, one = (m.headers["webhook-signature"].split() for m in receiver.messages)
    assert (len(both), len(one)) == (2, 1)
    stamp = receiver.messages[0]
    verifier = Verifier(made.secret)
    old = Verifier(webhook.secret)
    for signer, signature in ((verifier, both[0]), (old, both[1])):
        at = START.replace(second=0, microsecond=0)
        assert signer.sign(stamp.id, at, stamp.body.decode()) == signature


@pytest.mark.thorough
def test_messages_about_a_detector_come_in_order_and_repeats_keep_their_id(
    door: Detector,
    other: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    subscribe(receiver)
    receiver.behaviour = answer(500)
    happen(door, "a", "b")
    courier.run()
    assert texts(receiver) == ["a"]
    receiver.behaviour = None
    happen(other, "x")
    courier.run()
    assert texts(receiver) == ["a", "x"]
    clock.at += timedelta(seconds=6)
    courier.run()
    assert texts(receiver) == ["a", "x", "a", "b"]
    first, _, again, last = (message.id for message in receiver.messages)
    assert first == again != last
    assert receiver.messages[0].body == receiver.messages[2].body


@pytest.mark.thorough
def test_pauses_grow_for_three_days_and_then_the_webhook_is_disabled(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver)
    receiver.behaviour = answer(500)
    happen(door, "a", "b")
    tried = []
    for _ in range(40):
        if courier.run():
            tried.append(clock.at)
        waiting = deliveries_of(database)[0]
        if waiting.state == "failed":
            break
        assert waiting.next_try_at is not None
        clock.at = max(clock.at, waiting.next_try_at)
    assert 12 <= len(tried) <= 16
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert timedelta(seconds=5) <= pauses[0] < timedelta(seconds=6)
    assert max(pauses) < timedelta(hours=13.5)
    assert timedelta(days=3) <= tried[-1] - tried[0] < timedelta(days=3.6)
    with database.read() as session:
        found = session.get_one(Webhook, webhook.id)
        assert found.disabled_because == "it accepted nothing for three days"
    receiver.behaviour = None
    assert courier.run() == 0
    with database.write() as session:
        found = session.get_one(Webhook, webhook.id)
        change = WebhookChange(is_enabled=True)
        change_webhook(session, found, change, by(at=clock()), allowed_hosts=())
    courier.run()
    # The second one waited, and was not lost.
    assert texts(receiver)[-1] == "b"
    assert [one.state for one in deliveries_of(database)] == ["failed", "delivered"]


@pytest.mark.thorough
def test_410_disables_at_once(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver)
    receiver.behaviour = answer(410)
    happen(door, "a", "b")
    courier.run()
    happen(door, "c")
    assert courier.run() == 0
    assert texts(receiver) == ["a"]
    with database.read() as session:
        found = session.get_one(Webhook, webhook.id)
        assert found.disabled_because == "it answered 410: it is gone"


@pytest.mark.thorough
def test_a_receiver_is_left_alone_for_as_long_as_it_asks(
    door: Detector,
    other: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    subscribe(receiver)
    receiver.behaviour = answer(429, "Retry-After: 600")
    happen(door, "a")
    courier.run()
    receiver.behaviour = None
    happen(other, "x")
    clock.at += timedelta(seconds=590)
    assert courier.run() == 0
    clock.at += timedelta(seconds=20)
    courier.run()
    assert sorted(texts(receiver)) == ["a", "a", "x"]


@pytest.mark.thorough
@pytest.mark.parametrize("event", ["verdict.changed", "detector.failing"])
@pytest.mark.parametrize("detector", ["door", "other"])
def test_only_what_was_asked_for_is_told(
    door: Detector,
    other: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    courier: Loop,
    event: str,
    detector: str,
) -> None:
    subscribe(receiver, events=[event], detectors=[detector])
    happen(door, "a")
    courier.run()
    is_told = (event, detector) == ("detector.failing", "door")
    assert len(receiver.messages) == is_told


@pytest.mark.slow
def test_a_receiver_that_misbehaves_holds_up_no_other(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
) -> None:
    bad = [stay_silent] * 12 + [drip, stream, endless_head, reset, answer(500)]
    courier = webhook_loop(database, timeout_seconds=4.0)
    contexts = [receiving(one) for one in [*bad, answer(302, "Location: /x")]]
    receivers = [one.__enter__() for one in contexts]
    try:
        for one in receivers:
            subscribe(one)
        subscribe(receiver)
        happen(door, *"abcde")
        thread = threading.Thread(target=courier.run)
        begun = time.monotonic()
        thread.start()
        while len(receiver.messages) < 5 and time.monotonic() - begun < 30:
            time.sleep(0.05)
        seconds = time.monotonic() - begun
        is_held_up = not thread.is_alive()
        courier.stop.set()
        thread.join(30)
    finally:
        for one in contexts:
            one.__exit__(None, None, None)
    assert texts(receiver) == list("abcde")
    # All five were there while the silent ones were still being waited for.
    assert not is_held_up, seconds
    assert all(one.messages for one in receivers)


@pytest.mark.thorough
def test_workers_at_once_send_each_message_once_and_in_order(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
) -> None:
    subscribe(receiver)
    happen(door, *"abcdefgh")
    couriers = [webhook_loop(database, f"w{i}") for i in range(3)]
    threads = [threading.Thread(target=one.run) for one in couriers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    couriers[0].run()
    assert texts(receiver) == list("abcdefgh")


@pytest.mark.thorough
def test_what_a_dead_worker_held_is_sent_by_another(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver)
    happen(door, "a")
    with database.write() as session:
        lane = str(webhook.id)
        assert take(session, "delivery", "dead", at=clock(), lane=lane)
    assert courier.run() == 0
    clock.at += timedelta(seconds=6)
    assert courier.run() == 1
    assert texts(receiver) == ["a"]


@pytest.mark.thorough
def test_an_event_that_is_rolled_back_is_not_told(
    database: Database,
    door: Detector,
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    subscribe(receiver)

    def fail() -> None:
        with database.write() as session:
            found = session.get_one(Detector, door.id)
            tell(session, "detector.failing", found, at=clock(), data={"error": "a"})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert courier.run() == 0
    assert deliveries_of(database) == []


@pytest.mark.thorough
def test_a_deleted_webhook_is_told_no_more(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver, detectors=["door"])
    happen(door, "a")
    with database.write() as session:
        delete_webhook(session, session.get_one(Webhook, webhook.id), by())
    happen(door, "b")
    assert courier.run() == 0
    assert deliveries_of(database) == []


@pytest.mark.thorough
def test_what_ended_long_ago_is_forgotten(
    database: Database,
    door: Detector,
    happen: Callable[..., None],
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    subscribe(receiver)
    happen(door, "a")
    courier.run()
    keeper = Loop(
        database, "w", [Retention(database=database, days=0, clock=clock)], clock
    )
    for days, left in ((29, 1), (2, 0)):
        clock.at += timedelta(days=days)
        keeper.enqueue("retention")
        keeper.run()
        assert len(deliveries_of(database)) == left


@pytest.mark.thorough
def test_a_test_that_fails_holds_up_no_other_test(
    database: Database,
    subscribe: Subscribe,
    receiver: Receiver,
    clock: Clock,
    courier: Loop,
) -> None:
    webhook = subscribe(receiver)
    receiver.behaviour = answer(500)
    for number in range(2):
        with database.write() as session:
            hook = session.get_one(Webhook, webhook.id)
            queue_message(session, hook, TEST_EVENT, {}, clock())
        assert courier.run() == 1
        receiver.behaviour = None
        assert len(receiver.messages) == number + 1
    assert [one.state for one in deliveries_of(database)] == ["waiting", "delivered"]
