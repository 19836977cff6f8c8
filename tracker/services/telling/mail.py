"""Mail to people about detectors, at addresses that they have confirmed."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Annotated
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeSerializer
from pydantic import AfterValidator, Field
from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.services import tasks
from tracker.services.by import By
from tracker.services.fields import Input, must
from tracker.services.people.accounts import actor_of_account
from tracker.services.telling.deliveries import check_events, say, say_in_full
from tracker.services.wording import dump_instant, missing
from tracker.storage import base
from tracker.storage import telling as storage
from tracker.storage.detectors import Detector
from tracker.storage.people import Account
from tracker.storage.tasks import (
    ADDRESS,
    DIGEST,
    Task,
    enqueue,
    find_task,
    finish,
    hold,
    repeat,
    withdraw,
)
from tracker.storage.telling import Event, Notice
from tracker.words import EVENTS

# Folding a header would encode the address in it, and mail programs would not find
# the address.
_UNFOLDED = SMTP.clone(max_line_length=998)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason that a mail server did not take a mail."""

    reason: str
    # Whether retrying is useless.
    is_final: bool


@dataclass(frozen=True, slots=True)
class Letterhead:
    """The sender of mail, the server of its links, and the key that signs them."""

    sender: str
    public_url: str
    secret_key: str


def _write(  # noqa: PLR0913, PLR0917 - the parts of a mail.
    head: Letterhead, to: str, at: datetime, subject: str, name: str, lines: list[str]
) -> EmailMessage:
    message = EmailMessage(policy=_UNFOLDED)
    message["From"], message["To"] = head.sender, to
    message["Date"] = format_datetime(at)
    # Tells programs not to answer.
    message["Auto-Submitted"] = "auto-generated"
    message["Subject"] = subject
    host = urlsplit(head.public_url).hostname or "localhost"
    message["Message-ID"] = f"<{name}@{host}>"
    message.set_content("\n".join([*lines, ""]))
    return message


# So that nobody can flood a mailbox by entering its address.
_ASK_EVERY = timedelta(minutes=10)
_GOOD_FOR = timedelta(days=7)


def ask_address(session: Session, account_id: int, email: str, at: datetime) -> None:
    """Queue the mail that asks to confirm an address."""
    asked = storage.find_address_check(session, account_id)
    storage.set_address_check(session, account_id, email, at=at)
    due_at = at
    # An instant in the future was written before the clock was set back.
    if asked is not None and asked.sent_at is not None and asked.sent_at <= at:
        due_at = max(at, asked.sent_at + _ASK_EVERY)
    enqueue(session, ADDRESS, str(account_id), due_at=due_at, replaces=True)


def is_being_asked(session: Session, account_id: int) -> bool:
    return find_task(session, ADDRESS, str(account_id)) is not None


def _forget(session: Session, account_id: int) -> None:
    base.delete_rows(session, storage.AddressCheck, account_id=account_id)
    withdraw(session, ADDRESS, str(account_id))


def ask_again(session: Session, account: Account, by: By) -> None:
    """Send the confirmation mail again; raises NotFoundError if no address waits."""
    check = storage.find_address_check(session, account.id)
    if check is None:
        raise missing("address to confirm", account.name)
    ask_address(session, account.id, check.email, by.at)
    by.record(session, "mail address asked again", account.name)


def compose_check(
    session: Session, task: Task, head: Letterhead, at: datetime
) -> EmailMessage | None:
    """Return the confirmation mail; None if no address waits any more."""
    check = storage.find_address_check(session, int(task.key))
    account = session.get_one(Account, int(task.key))
    if check is None or account.disabled_at is not None:
        return None
    token = sign_address(head.secret_key, account.id, check.email)
    lines = [
        f"The account {account.name} of Tracker at {head.public_url} asks for mail "
        "about its detectors at this address.",
        "",
        f"If that is you, confirm it: {head.public_url}/account/mail/confirm/{token}",
        "",
        "If not, do nothing: you will get no mail.",
    ]
    name = f"address.{account.id}.{check.asked_at:%Y%m%d%H%M%S%f}"
    return _write(head, check.email, at, "Confirm your address", name, lines)


def note_check(
    session: Session, task: Task, failure: Failure | None, at: datetime
) -> bool:
    """Store the result of a confirmation mail; return whether it is given up."""
    row = hold(session, task)
    check = storage.find_address_check(session, int(task.key))
    assert check is not None
    check.error = None if failure is None else tasks.dump_error(failure.reason)
    if failure is None:
        check.sent_at = at
        finish(session, row)
        return False
    session.flush()
    return tasks.retry(session, row, failure.reason, at=at, is_final=failure.is_final)


def sign_address(secret_key: str, account_id: int, email: str) -> str:
    return str(_signer(secret_key, "address").dumps([account_id, email]))


def find_asked_address(
    session: Session, account: Account, secret_key: str, token: str, at: datetime
) -> str:
    """Return the address that a link confirms.

    Raises NotFoundError for a link of another account, older than a week, or with an
    address that no longer waits.
    """
    signed = None
    with suppress(BadSignature):
        signed = _signer(secret_key, "address").loads(token)
    check = storage.find_address_check(session, account.id)
    if check is not None and signed == [account.id, check.email]:
        asked_at = max(check.asked_at, check.sent_at or check.asked_at)
        if at - asked_at <= _GOOD_FOR:
            return check.email
    raise missing("address to confirm", token)


def confirm_address(
    session: Session, account: Account, secret_key: str, token: str, by: By
) -> None:
    account.email = find_asked_address(session, account, secret_key, token, by.at)
    _forget(session, account.id)
    by.record(session, "mail address confirmed", account.name)


def _signer(secret_key: str, what: str) -> URLSafeSerializer:
    return URLSafeSerializer(secret_key, salt=f"mail-{what}")


_DIGEST_EVERY = timedelta(hours=1)
_MOST_SHOWN = 50
_ADDRESS = re.compile(
    r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@"
    r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*",
    re.ASCII,
)


EmailAddress = Annotated[
    str,
    Field(min_length=3, max_length=254),
    must(_ADDRESS.fullmatch, "it must be an address like anna@example.org"),
]


class MailChoice(Input):
    """The address and the events that a person gets mail about; no address, no mail."""

    email: EmailAddress | None = None
    events: Annotated[
        list[str], Field(max_length=100), AfterValidator(check_events)
    ] = Field(default=list(EVENTS))


def choose_mail(session: Session, account: Account, choice: MailChoice, by: By) -> None:
    """Set the events of an account's mail, and ask to confirm a new address.

    Until then mail goes to the last confirmed address; no address removes all.
    """
    email, asked = choice.email, storage.find_address_check(session, account.id)
    account.mail_events = choice.events
    if email is None:
        account.email = None
        base.delete_rows(session, Notice, account_id=account.id, state=storage.WAITING)
    if email is None or email == account.email:
        _forget(session, account.id)
    elif asked is None or asked.email != email:
        ask_address(session, account.id, email, by.at)
    told = {"is_told": email is not None, "events": choice.events}
    by.record(session, "mail chosen", account.name, **told)


def queue_notices(session: Session, event: Event) -> None:
    """Add a notice of an event for each of its readers, in the same transaction."""
    for account in base.list_rows(session, Account, Account.email.is_not(None)):
        if _wants(account, event) and _is_told(session, account, event.detector_id):
            notice = Notice(
                account_id=account.id,
                detector_id=event.detector_id,
                event_id=event.id,
                created_at=event.happened_at,
                state=storage.WAITING,
            )
            session.add(notice)
            enqueue(
                session,
                DIGEST,
                f"{account.id}/{event.detector_id}",
                detector_id=event.detector_id,
                due_at=event.happened_at,
            )
    session.flush()


def list_mailed(session: Session, detector_id: int) -> list[Account]:
    readers = base.list_rows(session, Account, Account.email.is_not(None))
    return [one for one in readers if _is_told(session, one, detector_id)]


def _wants(account: Account, event: Event) -> bool:
    # An event may ask people for labels.
    is_asked = account.name in event.data.get("labelers", ())
    return is_asked or event.type in (account.mail_events or ())


def _is_told(session: Session, account: Account, detector_id: int) -> bool:
    """Return whether a person gets mail about a detector, and may see it."""
    return (
        account.email is not None
        and account.disabled_at is None
        and actor_of_account(session, account).sees(detector_id)
        and detector_id
        not in base.list_detector_ids(session, storage.MailMute, account_id=account.id)
    )


def begin_digest(
    session: Session, task: Task, head: Letterhead, at: datetime
) -> tuple[EmailMessage | None, list[int]]:
    """Return a mail and the ids of its notices; None if there is nothing to send.

    Each attempt has the same notices, less those that are no longer wanted: the person
    may have been disabled, have lost the detector or have changed their choice.
    """
    row = hold(session, task)
    account_id, detector_id = map(int, task.key.split("/"))
    last = (row.payload or {}).get("last_notice_id")
    if last is None:
        last = storage.find_last_notice(session, account_id, detector_id)
    if last is None:
        return None, []
    row.payload = {"last_notice_id": last}
    session.flush()
    account = session.get_one(Account, account_id)
    detector = session.get_one(Detector, detector_id)
    told = storage.list_notices(session, account_id, detector_id, last=last)
    is_told = _is_told(session, account, detector.id)
    wanted = {id_: event for id_, event in told if is_told and _wants(account, event)}
    vain = Notice.id.in_([id_ for id_, _ in told if id_ not in wanted])
    base.delete_rows(session, Notice, vain, detector_id=detector_id)
    if not wanted:
        return None, []
    name, events = f"digest.{account_id}.{detector_id}.{last}", [*wanted.values()]
    return _write_digest(head, account, detector, events, at, name), [*wanted]


def _write_digest(  # noqa: PLR0913, PLR0917 - the parts of a mail.
    head: Letterhead,
    account: Account,
    detector: Detector,
    events: Sequence[Event],
    at: datetime,
    name: str,
) -> EmailMessage:
    lines = []
    for event in events[-_MOST_SHOWN:]:
        said = say_in_full(event.type, event.data)
        lines.append(f"{dump_instant(event.happened_at)}  {said}")
        # Who is asked for labels comes to the button *Label* of that audit.
        if event.type.startswith("audit.") and "id" in event.data:
            lines.append(f"  {head.public_url}/audits/{event.data['id']}")
    if len(events) > _MOST_SHOWN:
        lines.insert(0, f"The last {_MOST_SHOWN} of {len(events):,} events:")
    token = _signer(head.secret_key, "unsubscribe").dumps([account.id, detector.id])
    ending = f"{head.public_url}/mail/unsubscribe/{token}"
    lines += [
        "",
        f"The detector: {head.public_url}/detectors/{base.dump_id('det', detector.id)}",
        f"Turn off mail about it: {ending}",
        f"Choose what you get mail about: {head.public_url}/account/mail",
    ]
    subject = f"{detector.name}: {len(events):,} events"
    if len(events) == 1:
        subject = say(events[0].type, events[0].data)
    message = _write(head, str(account.email), at, subject, name, lines)
    message["List-Unsubscribe"] = f"<{ending}>"
    message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    return message


def end_digest(
    session: Session,
    task: Task,
    told: Sequence[int],
    failure: Failure | None,
    at: datetime,
) -> bool:
    """Store the result of an attempt; return whether it is given up.

    After a mail the task waits for an hour, and then sends the new notices.  Raises
    LostTaskError.
    """
    row = hold(session, task)
    is_over = failure is not None and tasks.retry(
        session, row, failure.reason, at=at, is_final=failure.is_final
    )
    if failure is not None and not is_over:
        return False
    account_id, detector_id = map(int, task.key.split("/"))
    # By id: one with a lower id may have come since.
    theirs = Notice.id.in_(told), Notice.detector_id == detector_id
    state = storage.DELIVERED if failure is None else storage.FAILED
    base.change_rows(session, Notice, *theirs, state=state)
    if told and failure is None:
        repeat(session, row, due_at=at + _DIGEST_EVERY)
        return False
    if failure is None:
        finish(session, row)
    if storage.find_last_notice(session, account_id, detector_id) is not None:
        enqueue(session, DIGEST, task.key, detector_id=detector_id, due_at=at)
    return is_over


def read_unsubscribe(
    session: Session, secret_key: str, token: str
) -> tuple[Account, Detector]:
    """Return the account and detector of an unsubscribe token; raises NotFoundError."""
    try:
        account_id, detector_id = _signer(secret_key, "unsubscribe").loads(token)
    except BadSignature as error:
        raise NotFoundError("there is no mail with this link") from error
    return session.get_one(Account, account_id), session.get_one(Detector, detector_id)


def mute(
    session: Session, account: Account, detector: Detector, by: By, *, is_muted: bool
) -> None:
    row = {"account_id": account.id, "detector_id": detector.id}
    base.set_row(session, storage.MailMute, is_there=is_muted, **row)
    if is_muted:
        base.delete_rows(session, Notice, **row, state=storage.WAITING)
    action = "mail ended" if is_muted else "mail wanted again"
    by.record(session, action, account.name, detector=detector.name)
