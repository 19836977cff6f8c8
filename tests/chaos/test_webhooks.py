"""Workers are killed in the middle of deliveries, again and again."""

import time
from pathlib import Path

from tests.chaos.service import WEB, Service
from tests.conftest import IS_LONG, START, by
from tests.processes import wait_until
from tests.telling.receiver import Message, answer, receiving, write
from tracker.services.detectors import get_detector
from tracker.services.telling.events import tell
from tracker.services.telling.webhooks import NewWebhook, create_webhook
from tracker.storage.database import Database, open_database

KILLS, EVENTS = (20, 300) if IS_LONG else (2, 30)


def test_killed_workers_lose_no_message_and_repeat_under_the_same_id(
    durable_url: str, tmp_path: Path, record_figure
) -> None:
    database = open_database(durable_url)
    with receiving() as receiver, receiving(answer(500)) as failing:
        # Long enough that a kill hits an attempt whose answer is on its way.
        receiver.behaviour = lambda handler: (
            time.sleep(0.1),  # type: ignore[func-returns-value]
            write(handler, b"HTTP/1.1 204 X\r\n\r\n"),
        )[1]
        service = Service(durable_url, tmp_path, workers=2)
        service.environ["TRACKER_WEBHOOK_HOSTS"] = "127.0.0.1"
        with service:
            service.ask("POST", "/detectors", {"name": "door", "question": "?"})
            with database.write() as session:
                for url in (failing.url, receiver.url):
                    new = NewWebhook(url=url)
                    named = ("127.0.0.1",)
                    create_webhook(session, new, by(at=START), allowed_hosts=named)
            happen(database)
            for number in range(KILLS):
                seen = len(receiver.messages)
                wait_until(lambda seen=seen: len(receiver.messages) > seen)
                service.kill(service.workers[number % 2])
            wait_until(lambda: len(texts(receiver.messages)) == EVENTS)
        assert service.running[WEB].popen.poll() is not None
    database.close()
    ids = {message.id for message in receiver.messages}
    repeats = len(receiver.messages) - len(ids)
    record_figure(f"{EVENTS} events, {KILLS} kills, {repeats} repeats, 0 lost")
    assert texts(receiver.messages) == [f"{number}" for number in range(EVENTS)]
    # One id is one event, and one event one id.
    assert len(ids) == EVENTS
    assert failing.messages


def happen(database: Database) -> None:
    for number in range(EVENTS):
        with database.write() as session:
            door = get_detector(session, "door")
            data = {"error": f"{number}"}
            tell(session, "detector.failing", door, at=START, data=data)


def texts(messages: list[Message]) -> list[str]:
    """What was told, each once, in the order in which it first came."""
    return list(dict.fromkeys(one.json["data"]["error"] for one in messages))
