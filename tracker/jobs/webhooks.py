"""The job that tells webhooks of events, and that notices where no labels come."""

from collections.abc import Collection, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event as Flag

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.errors import UnavailableError
from tracker.services.http_client import Answer, post
from tracker.services.telling.deliveries import (
    MOST_WEBHOOKS,
    name_message,
    note_answer,
    sign,
)
from tracker.services.telling.events import tell_stalls
from tracker.storage.database import Database
from tracker.storage.telling.deliveries import (
    Delivery,
    delete_ended,
    list_due,
    renew_deliveries,
    take_due,
)
from tracker.storage.telling.webhooks import find_webhook

log = structlog.get_logger("tracker.job")

_LOOK_SECONDS = 0.25
_KEPT_DAYS = 30


@dataclass(frozen=True, slots=True)
class Courier:
    """Sends what is in the outbox, to each webhook one message at a time.

    Each webhook has a thread of its own, so that none waits for the receiver of
    another.  Several workers share the outbox by leases.  An attempt whose worker was
    killed is made again under the same id.
    """

    database: Database
    worker: str
    allowed_hosts: Collection[str] = ()
    clock: Clock = utc_now
    timeout_seconds: float = 15.0
    _stop: Flag = field(default_factory=Flag, init=False)

    def stop(self) -> None:
        """Begin no further attempt."""
        self._stop.set()

    def run(self) -> int:
        """Send what is due, now or meanwhile, and count the attempts."""
        attempts = 0
        flights: dict[Future[None], Delivery] = {}
        with ThreadPoolExecutor(MOST_WEBHOOKS, "webhook") as pool:
            while True:
                if not self._stop.is_set():
                    for delivery in self._take(flights.values()):
                        flights[pool.submit(self._attempt, delivery)] = delivery
                if not flights:
                    return attempts
                ended, _ = wait(flights, _LOOK_SECONDS, FIRST_COMPLETED)
                for flight in ended:
                    del flights[flight]
                    attempts += 1
                    self._check(flight)
                self._renew(flights.values())

    def _check(self, flight: Future[None]) -> None:
        error = flight.exception()
        if isinstance(error, UnavailableError):
            # It is no fault of the webhook's: the whole run waits.
            raise error
        if error is not None:
            # The other webhooks go on; this one is tried again when its lease ends.
            log.error("telling a webhook failed", exc_info=error)

    def _take(self, flying: Collection[Delivery]) -> Sequence[Delivery]:
        busy = {delivery.webhook_id for delivery in flying}
        # SQLite has one writer at a time, who is not disturbed to find nothing.
        with self.database.read() as session:
            if not list_due(session, at=self.clock(), busy=busy):
                return ()

        def take(session: Session) -> Sequence[Delivery]:
            return take_due(session, self.worker, at=self.clock(), busy=busy)

        return self.database.run(take)

    def _renew(self, flying: Collection[Delivery]) -> None:
        if not flying:
            return
        ids = [delivery.id for delivery in flying]
        with self.database.write() as session:
            renew_deliveries(session, self.worker, ids, at=self.clock())

    def _attempt(self, delivery: Delivery) -> None:
        at = self.clock()
        with self.database.read() as session:
            webhook = find_webhook(session, delivery.webhook_id)
        if webhook is None or webhook.disabled_at is not None:
            return
        answer = self._post(webhook.url, delivery, sign(webhook, delivery, at))

        def note(session: Session) -> None:
            note_answer(session, delivery, answer, worker=self.worker, at=self.clock())

        self.database.run(note)
        log.info(
            "told a webhook" if answer.is_success else "a webhook was not told",
            webhook=f"whk_{delivery.webhook_id}",
            message=name_message(delivery),
            status=answer.status,
            error=answer.error,
        )

    def _post(self, url: str, delivery: Delivery, headers: dict[str, str]) -> Answer:
        return post(
            url,
            delivery.body.encode(),
            headers,
            allowed_hosts=self.allowed_hosts,
            seconds=self.timeout_seconds,
        )

    def look_around(self) -> int:
        """Report detectors without new labels, and delete old deliveries."""

        def look(session: Session) -> int:
            delete_ended(session, at=self.clock(), days=_KEPT_DAYS)
            return tell_stalls(session, self.clock())

        return self.database.run(look)
