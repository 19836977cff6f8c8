"""The job that sends mail to people."""

import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from threading import Event as Flag

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.services.telling.addresses import (
    compose_check,
    note_check_failure,
    note_check_sent,
)
from tracker.services.telling.letters import Letterhead
from tracker.services.telling.mail import compose, note_failure, note_sent
from tracker.storage.database import Database
from tracker.storage.telling.addresses import (
    AddressCheck,
    is_check_due,
    take_address_check,
)
from tracker.storage.telling.mail import Digest, is_due, take_digest

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

    def send(self, message: EmailMessage) -> None:
        """Hand *message* over; raises OSError or smtplib.SMTPException."""
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


@dataclass(frozen=True, slots=True)
class Postman:
    """Sends each person one mail an hour at most about each detector.

    Several workers share the outbox by leases.  A mail whose worker was killed is sent
    again under the same Message-ID.
    """

    database: Database
    worker: str
    server: MailServer
    head: Letterhead
    clock: Clock = utc_now
    _stop: Flag = field(default_factory=Flag, init=False)

    def stop(self) -> None:
        """Begin no further mail."""
        self._stop.set()

    def run(self) -> int:
        """Send what is due, and count it: first what asks to confirm an address."""
        sent = 0
        while not self._stop.is_set() and (check := self._take_check()) is not None:
            sent += self._ask(check)
        while not self._stop.is_set() and (digest := self._take()) is not None:
            sent += self._send(digest)
        return sent

    def _take_check(self) -> AddressCheck | None:
        with self.database.read() as session:
            if not is_check_due(session, at=self.clock()):
                return None

        def take(session: Session) -> AddressCheck | None:
            return take_address_check(session, self.worker, at=self.clock())

        return self.database.run(take)

    def _ask(self, check: AddressCheck) -> bool:
        with self.database.read() as session:
            message = compose_check(session, check, self.head, self.clock())
        failure = self._hand_over(message)

        def note(session: Session) -> bool:
            at = self.clock()
            if failure is None:
                note_check_sent(session, check, worker=self.worker, at=at)
                return False
            return note_check_failure(
                session,
                check,
                failure.reason,
                worker=self.worker,
                is_final=failure.is_final,
                at=at,
            )

        is_over = self.database.run(note)
        names = {"account": check.account_id, "message": message["Message-ID"]}
        if failure is not None:
            log.warning(
                "mail was not taken", error=failure.reason, given_up=is_over, **names
            )
            return False
        log.info("asked to confirm an address", **names)
        return True

    def _hand_over(self, message: EmailMessage) -> "_Failure | None":
        try:
            self.server.send(message)
        except (OSError, smtplib.SMTPException) as error:
            # 5xx for the recipient is its last word; anything else may pass.
            refused = isinstance(error, smtplib.SMTPRecipientsRefused) and all(
                code >= 500 for code, _ in error.recipients.values()
            )
            return _Failure(f"{type(error).__name__}: {error}", refused)
        return None

    def _take(self) -> Digest | None:
        # SQLite has one writer at a time, who is not disturbed to find nothing.
        with self.database.read() as session:
            if not is_due(session, at=self.clock()):
                return None

        def take(session: Session) -> Digest | None:
            return take_digest(session, self.worker, at=self.clock())

        return self.database.run(take)

    def _send(self, digest: Digest) -> bool:
        with self.database.read() as session:
            message, told = compose(session, digest, self.head, self.clock())
        if message is None:
            self._note_sent(digest, told)
            return False
        names = {
            "account": digest.account_id,
            "detector": f"det_{digest.detector_id}",
            "message": message["Message-ID"],
        }
        failure = self._hand_over(message)
        if failure is not None:
            is_over = self._note_failure(digest, told, failure)
            log.warning(
                "mail was not taken", error=failure.reason, given_up=is_over, **names
            )
            return False
        self._note_sent(digest, told)
        log.info("sent mail", events=len(told), **names)
        return True

    def _note_sent(self, digest: Digest, told: list[int]) -> None:
        def note(session: Session) -> bool:
            at = self.clock()
            return note_sent(session, digest, worker=self.worker, told=told, at=at)

        self.database.run(note)

    def _note_failure(
        self, digest: Digest, told: list[int], failure: "_Failure"
    ) -> bool:
        def note(session: Session) -> bool:
            return note_failure(
                session,
                digest,
                failure.reason,
                worker=self.worker,
                told=told,
                is_final=failure.is_final,
                at=self.clock(),
            )

        return self.database.run(note)


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    is_final: bool
