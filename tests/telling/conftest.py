"""A detector, ways to fill it, and receivers of webhooks and mail on loopback."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import select

from tests.conftest import START, Clock, by
from tests.processes import free_port
from tests.telling.mailbox import HEAD, Mailbox
from tests.telling.receiver import Receiver, receiving
from tracker.jobs.loop import Loop
from tracker.jobs.telling import AddressMail, Deliveries, DigestMail, MailServer
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.queries.queries import NewQuery, log_query
from tracker.services.telling.events import tell
from tracker.services.telling.mail import Letterhead
from tracker.services.telling.webhooks import NewWebhook, create_webhook
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.telling import Delivery, Event, Webhook


def events_of(database: Database) -> Sequence[Event]:
    with database.read() as session:
        return session.scalars(select(Event).order_by(Event.id)).all()


def deliveries_of(database: Database) -> Sequence[Delivery]:
    with database.read() as session:
        return session.scalars(select(Delivery).order_by(Delivery.id)).all()


def rows(database: Database, of: Any) -> list[Any]:
    with database.read() as session:
        return list(session.scalars(select(of)))


def happen(
    database: Database, clock: Clock, words: str = "broken", kind: str = ""
) -> None:
    with database.write() as session:
        door = get_detector(session, "door")
        data = {"error": words, "version": "v1", "hours": 3, "last_label_at": None}
        tell(session, kind or "detector.failing", door, at=clock(), data=data)


@pytest.fixture
def door(database: Database) -> Detector:
    new = NewDetector(
        name="door", question="Closed?", target=0.7, label_sampling="random"
    )
    with database.write() as session:
        return create_detector(session, new, by(at=START))


@pytest.fixture
def log(database: Database, door: Detector) -> Callable[..., None]:
    def add(said: str, truth: str, number: int, at: datetime = START) -> None:
        with database.write() as session:
            detector = get_detector(session, "door")
            for _ in range(number):
                query = NewQuery(predicted=said, label=truth, version="v1")
                log_query(session, detector, query, by("a", at))

    return add


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


def webhook_loop(database: Database, worker: str = "w", **said: Any) -> Loop:
    """A worker that tells webhooks on loopback."""
    handler = Deliveries(database=database, allowed_hosts=("127.0.0.1",), **said)
    return Loop(database, worker, [handler], handler.clock)


@pytest.fixture
def courier(database: Database, clock: Clock) -> Loop:
    return webhook_loop(database, clock=clock, timeout_seconds=1.0)


@pytest.fixture
def subscribe(database: Database) -> Callable[..., Webhook]:
    def add(to: Receiver, **said: Any) -> Webhook:
        new = NewWebhook.model_validate({"url": to.url, **said})
        with database.write() as session:
            return create_webhook(
                session, new, by(at=START), allowed_hosts=("127.0.0.1",)
            )

    return add


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def server(mailbox: Mailbox) -> Iterator[MailServer]:
    # Port 0 would be asked for by its number.
    controller = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield MailServer("127.0.0.1", controller.port, "none", timeout_seconds=5)
    controller.stop()


def mail_loop(
    database: Database,
    clock: Clock,
    server: MailServer,
    worker: str,
    head: Letterhead = HEAD,
) -> Loop:
    """A worker that sends mail."""
    parts: Any = {"database": database, "server": server, "head": head, "clock": clock}
    return Loop(database, worker, [AddressMail(**parts), DigestMail(**parts)], clock)


@pytest.fixture
def postman(database: Database, clock: Clock, server: MailServer) -> Loop:
    return mail_loop(database, clock, server, "w")
