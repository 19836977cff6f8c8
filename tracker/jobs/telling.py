"""The tasks that send webhooks, mail and estimates to a collector."""

import smtplib
import ssl
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from typing import Any

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.services.http_client import Target, post
from tracker.services.tasks import retry
from tracker.services.telling import deliveries, mail
from tracker.services.telling.events import tell_stalls
from tracker.services.telling.telemetry import write_estimates
from tracker.storage import tasks as storage
from tracker.storage.tasks import Task
from tracker.storage.telling import Webhook, list_reachable, list_unsent, note_sent

log = structlog.get_logger("tracker.job")


@dataclass(slots=True, kw_only=True, eq=False)
class Deliveries(Handler):
    """Sends the outbox, one message at a time to each webhook."""

    allowed_hosts: Collection[str] = ()
    timeout_seconds: float = 15.0
    kind = storage.DELIVERY

    def lanes(self, session: Session, at: datetime) -> Collection[str]:
        return [str(one) for one in list_reachable(session, at=at)]

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send the first delivery of one task."""
        [task] = tasks
        at = self.clock()
        with self.database.read() as session:
            delivery = deliveries.find_next(session, task)
            webhook = session.get(Webhook, int(task.lane))
        if delivery is None or webhook is None:
            self.database.run(
                lambda session: deliveries.go_on(
                    session, storage.hold(session, task), at
                )
            )
            return 0
        answer = post(
            webhook.url,
            delivery.body.encode(),
            deliveries.sign(webhook, delivery, at),
            allowed_hosts=self.allowed_hosts,
            seconds=self.timeout_seconds,
        )
        self.database.run(
            lambda session: deliveries.finish_or_retry(
                session, task, delivery.id, answer, at=self.clock()
            )
        )
        log.info(
            "told a webhook" if answer.is_success else "a webhook was not told",
            webhook=f"whk_{webhook.id}",
            message=deliveries.name_message(delivery),
            status=answer.status,
            error=answer.error,
        )
        return 1


class Stalls(Handler):
    """Reports detectors that get no new labels."""

    kind = storage.STALLS

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Report every stalled detector."""
        [task] = tasks

        def look(session: Session) -> int:
            row = storage.hold(session, task)
            told = tell_stalls(session, self.clock())
            storage.finish(session, row)
            return told

        return self.database.run(look)


@dataclass(frozen=True, slots=True)
class MailServer:
    """The SMTP server that takes our mail."""

    host: str
    port: int
    # tls, starttls or none.
    security: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_seconds: float = 15.0

    def hand_over(self, message: EmailMessage) -> mail.Failure | None:
        """Send *message*, and return the failure if it was not taken."""
        place, seconds = (self.host, self.port), self.timeout_seconds
        try:
            context = ssl.create_default_context()
            with (
                smtplib.SMTP_SSL(*place, timeout=seconds, context=context)
                if self.security == "tls"
                else smtplib.SMTP(*place, timeout=seconds)
            ) as server:
                if self.security == "starttls":
                    # It raises if the server has no TLS: nothing goes in the clear.
                    server.starttls(context=context)
                if self.user:
                    server.login(self.user, self.password)
                server.send_message(message)
        except (OSError, smtplib.SMTPException) as error:
            # A 5xx for the recipient is permanent; anything else may pass.
            is_final = isinstance(error, smtplib.SMTPRecipientsRefused) and all(
                code >= 500 for code, _ in error.recipients.values()
            )
            return mail.Failure(f"{type(error).__name__}: {error}", is_final)
        return None


@dataclass(slots=True, kw_only=True, eq=False)
class _Mail(Handler):
    server: MailServer
    head: mail.Letterhead

    def send(
        self,
        message: EmailMessage,
        note: Callable[[Session, mail.Failure | None], bool],
        **names: Any,
    ) -> int:
        """Send *message* and let *note* store the result; return 1 if it was taken."""
        failure = self.server.hand_over(message)
        is_over = self.database.run(lambda session: note(session, failure))
        names["message"] = message["Message-ID"]
        if failure is None:
            log.info("sent mail", **names)
            return 1
        log.warning(
            "mail was not taken", error=failure.reason, given_up=is_over, **names
        )
        return 0


class AddressMail(_Mail):
    """Asks account owners to confirm their addresses."""

    kind = storage.ADDRESS

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send one confirmation mail."""
        [task] = tasks
        with self.database.read() as session:
            message = mail.compose_check(session, task, self.head, self.clock())
        if message is None:
            self.finish(task)
            return 0
        return self.send(
            message,
            lambda session, failure: mail.note_check(
                session, task, failure, self.clock()
            ),
            account=task.key,
        )


class DigestMail(_Mail):
    """Sends each person at most one mail an hour about each detector.

    A mail whose worker was killed is sent again under the same Message-ID.
    """

    kind = storage.DIGEST

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send one digest."""
        [task] = tasks
        message, told = self.database.run(
            lambda session: mail.begin_digest(session, task, self.head, self.clock())
        )

        def end(session: Session, failure: mail.Failure | None) -> bool:
            return mail.end_digest(session, task, told, failure, self.clock())

        if message is None:
            self.database.run(lambda session: end(session, None))
            return 0
        return self.send(message, end, account=task.key, events=len(told))


@dataclass(slots=True, kw_only=True, eq=False)
class Exporter(Handler):
    """Sends each new estimate at least once, of each version the newest.

    They are looked up from time to time: a fold that added a task would wait for other
    folds at that one row.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    every_seconds: float = 10.0
    _next_look: float = field(default=0.0, init=False)
    kind = storage.ESTIMATES

    def has_unplanned(self, session: Session, at: datetime) -> bool:  # noqa: ARG002
        if time.monotonic() < self._next_look or storage.find_task(
            session, storage.ESTIMATES, ""
        ):
            return False
        self._next_look = time.monotonic() + self.every_seconds
        return bool(list_unsent(session, limit=1))

    def plan(self, session: Session, at: datetime) -> None:
        storage.enqueue(session, storage.ESTIMATES, due_at=at)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send some new estimates, and count the versions."""
        [task] = tasks
        with self.database.read() as session:
            found = write_estimates(session)
        if found is None:
            self.finish(task)
            return 0
        body, versions = found
        url = f"{self.endpoint}/v1/logs"
        # The operator chose the host, so it may be private.
        hosts = (Target.of(url).host,)
        answer = post(url, body, self.headers, allowed_hosts=hosts)
        reason = answer.error or f"it answered {answer.status}"

        def note(session: Session) -> None:
            at, row = self.clock(), storage.hold(session, task)
            if answer.is_success:
                note_sent(session, versions)
                storage.repeat(session, row, due_at=at)
            else:
                retry(session, row, reason, at=at)

        self.database.run(note)
        if answer.is_success:
            return len(versions)
        log.warning("estimates were not taken", error=reason)
        return 0
