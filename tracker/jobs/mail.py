"""The job that sends mail to people."""

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.services.telling.addresses import compose_check, note_check
from tracker.services.telling.letters import Failure, Letterhead
from tracker.services.telling.mail import begin_digest, end_digest
from tracker.storage.tasks import ADDRESS, DIGEST, Task

log = structlog.get_logger("tracker.job")


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over, and how."""

    host: str
    port: int
    # tls from the first byte, starttls before anything else is said, or none.
    security: str
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_seconds: float = 15.0

    def hand_over(self, message: EmailMessage) -> Failure | None:
        """Hand *message* over, and return why it was not taken."""
        try:
            self._send(message)
        except (OSError, smtplib.SMTPException) as error:
            # A 5xx for the recipient is permanent; anything else may pass.
            is_final = isinstance(error, smtplib.SMTPRecipientsRefused) and all(
                code >= 500 for code, _ in error.recipients.values()
            )
            return Failure(f"{type(error).__name__}: {error}", is_final)
        return None

    def _send(self, message: EmailMessage) -> None:
        with self._connect() as server:
            if self.security == "starttls":
                # It raises where the server has none: nothing goes in the clear.
                server.starttls(context=ssl.create_default_context())
            if self.user:
                server.login(self.user, self.password)
            server.send_message(message)

    def _connect(self) -> smtplib.SMTP:
        place, seconds = (self.host, self.port), self.timeout_seconds
        if self.security != "tls":
            return smtplib.SMTP(*place, timeout=seconds)
        context = ssl.create_default_context()
        return smtplib.SMTP_SSL(*place, timeout=seconds, context=context)


@dataclass(slots=True, kw_only=True)
class _Mail(Handler):
    server: MailServer
    head: Letterhead


class AddressMail(_Mail):
    """Asks the owners of addresses to confirm them."""

    kind = ADDRESS

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send one mail."""
        [task] = tasks
        with self.database.read() as session:
            message = compose_check(session, task, self.head, self.clock())
        if message is None:
            self.finish(task)
            return 0
        failure = self.server.hand_over(message)

        def note(session: Session) -> bool:
            return note_check(session, task, failure, self.clock())

        _log(message, failure, is_over=self.database.run(note), account=task.key)
        return failure is None


def _log(
    message: EmailMessage, failure: Failure | None, *, is_over: bool, **names: Any
) -> None:
    names["message"] = message["Message-ID"]
    if failure is None:
        log.info("sent mail", **names)
    else:
        log.warning(
            "mail was not taken", error=failure.reason, given_up=is_over, **names
        )


class DigestMail(_Mail):
    """Sends each person one mail an hour at most about each detector.

    A mail whose worker was killed is sent again under the same Message-ID.
    """

    kind = DIGEST

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send one mail."""
        [task] = tasks

        def begin(session: Session) -> tuple[EmailMessage | None, list[int]]:
            return begin_digest(session, task, self.head, self.clock())

        message, told = self.database.run(begin)
        failure = None if message is None else self.server.hand_over(message)

        def end(session: Session) -> bool:
            at, is_sent = self.clock(), message is not None
            return end_digest(session, task, told, failure, at, is_sent=is_sent)

        is_over = self.database.run(end)
        if message is None:
            return 0
        _log(message, failure, is_over=is_over, account=task.key, events=len(told))
        return failure is None
