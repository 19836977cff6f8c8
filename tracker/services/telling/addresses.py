"""Addresses for mail, which their owners confirm before anything is sent to them."""

from datetime import datetime, timedelta
from email.message import EmailMessage

from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy.orm import Session

from tracker.services import tasks
from tracker.services.by import By
from tracker.services.telling.letters import Failure, Letterhead, begin_letter
from tracker.services.wording import missing
from tracker.storage.people.accounts import Account
from tracker.storage.tasks import (
    ADDRESS,
    Task,
    enqueue,
    find_task,
    finish,
    hold,
    withdraw,
)
from tracker.storage.telling import addresses as storage

# Nobody can fill the mailboxes of others by typing their addresses.
_ASK_EVERY = timedelta(minutes=10)
_GOOD_FOR = timedelta(days=7)


def give_address(
    session: Session, account: Account, email: str | None, at: datetime
) -> None:
    """Ask for an address to be confirmed, unless it is; None takes all of them away.

    Until then mail goes on to the address that was confirmed before.
    """
    if email is None:
        account.email = None
    asked = storage.find_address_check(session, account.id)
    if email is None or email == account.email:
        _forget(session, account.id)
    elif asked is None or asked.email != email:
        ask_address(session, account.id, email, at)


def ask_address(session: Session, account_id: int, email: str, at: datetime) -> None:
    """Let a mail ask the owner of an address to confirm it."""
    asked = storage.find_address_check(session, account_id)
    storage.set_address_check(session, account_id, email, at=at)
    due_at = at
    # An instant that is yet to come was written before the clock was set back.
    if asked is not None and asked.sent_at is not None and asked.sent_at <= at:
        due_at = max(at, asked.sent_at + _ASK_EVERY)
    enqueue(session, ADDRESS, str(account_id), due_at=due_at, replaces=True)


def is_being_asked(session: Session, account_id: int) -> bool:
    """Whether the mail to the address of an account is still to be sent."""
    return find_task(session, ADDRESS, str(account_id)) is not None


def _forget(session: Session, account_id: int) -> None:
    storage.delete_address_check(session, account_id)
    withdraw(session, ADDRESS, str(account_id))


def ask_again(session: Session, account: Account, by: By) -> None:
    """Send the mail that asks for confirmation once more.

    Raises NotFoundError unless an address waits for it.
    """
    check = storage.find_address_check(session, account.id)
    if check is None:
        raise missing("address to confirm", account.name)
    ask_address(session, account.id, check.email, by.at)
    by.record(session, "mail address asked again", account.name)


def compose_check(
    session: Session, task: Task, head: Letterhead, at: datetime
) -> EmailMessage | None:
    """Return the mail that asks the owner of an address to confirm it.

    None where nobody is asked any more.
    """
    check = storage.find_address_check(session, int(task.key))
    account = session.get_one(Account, int(task.key))
    if check is None or account.disabled_at is not None:
        return None
    message = begin_letter(head, check.email, at)
    message["Subject"] = "Confirm your address"
    number = f"{account.id}.{check.asked_at:%Y%m%d%H%M%S%f}"
    message["Message-ID"] = f"<address.{number}@{head.host}>"
    token = sign_address(head.secret_key, account.id, check.email)
    message.set_content(
        "\n".join(
            [
                f"The account {account.name} of Tracker at {head.public_url} asks for "
                "mail about its detectors at this address.",
                "",
                f"If that is you, confirm it: {head.public_url}/account/mail/"
                f"confirm/{token}",
                "",
                "If not, do nothing: you will get no mail.",
                "",
            ]
        )
    )
    return message


def note_check(
    session: Session, task: Task, failure: Failure | None, at: datetime
) -> bool:
    """Write what came of an attempt to ask; returns whether it is given up.

    Raises LostTaskError, also if the person gave another address meanwhile.
    """
    row = hold(session, task)
    check = storage.find_address_check(session, int(task.key))
    assert check is not None
    if failure is None:
        check.sent_at, check.error = at, None
        finish(session, row)
        return False
    check.error = tasks.dump_error(failure.reason)
    session.flush()
    return tasks.retry(session, row, failure.reason, at=at, is_final=failure.is_final)


def sign_address(secret_key: str, account_id: int, email: str) -> str:
    """Return what proves that a person reads the mail of an address."""
    return str(_signer(secret_key).dumps([account_id, email]))


def find_asked_address(
    session: Session, account: Account, secret_key: str, token: str, at: datetime
) -> str:
    """Return the address that a link confirms.

    Raises NotFoundError for a link that is not of this account, is older than a week
    or names an address that the account no longer asks for.
    """
    try:
        account_id, email = _signer(secret_key).loads(token)
    except BadSignature as error:
        raise missing("address to confirm", token) from error
    check = storage.find_address_check(session, account.id)
    if check is None or (account_id, email) != (account.id, check.email):
        raise missing("address to confirm", token)
    if at - max(check.asked_at, check.sent_at or check.asked_at) > _GOOD_FOR:
        raise missing("address to confirm", token)
    return check.email


def confirm_address(
    session: Session, account: Account, secret_key: str, token: str, by: By
) -> None:
    """Let an account get its mail at the address of a link.

    Raises NotFoundError as `find_asked_address` does.
    """
    account.email = find_asked_address(session, account, secret_key, token, by.at)
    _forget(session, account.id)
    by.record(session, "mail address confirmed", account.name)


def _signer(secret_key: str) -> URLSafeSerializer:
    return URLSafeSerializer(secret_key, salt="mail-address")
