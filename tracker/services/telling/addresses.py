"""Addresses for mail, which their owners confirm before anything is sent to them."""

from datetime import datetime, timedelta
from email.message import EmailMessage

from itsdangerous import BadSignature, URLSafeSerializer
from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.telling.deliveries import rest_seconds
from tracker.services.telling.letters import Letterhead, begin_letter
from tracker.services.wording import missing
from tracker.storage.operations.leases import rest_from
from tracker.storage.people.accounts import Account
from tracker.storage.telling import addresses as storage
from tracker.storage.telling.addresses import AddressCheck

# With the pauses between them these take about three hours.
_MOST_ATTEMPTS = 8
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
        storage.delete_address_check(session, account.id)
    elif asked is None or asked.email != email:
        storage.ask_address(session, account.id, email, at=at)


def ask_again(session: Session, account: Account, by: By) -> None:
    """Send the mail that asks for confirmation once more.

    Raises NotFoundError unless an address waits for it.
    """
    check = storage.find_address_check(session, account.id)
    if check is None:
        raise missing("address to confirm", account.name)
    storage.ask_address(session, account.id, check.email, at=by.at)
    by.record(session, "mail address asked again", account.name)


def compose_check(
    session: Session, check: AddressCheck, head: Letterhead, at: datetime
) -> EmailMessage:
    """Return the mail that asks the owner of an address to confirm it."""
    account = session.get_one(Account, check.account_id)
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


def note_check_sent(
    session: Session, check: AddressCheck, *, worker: str, at: datetime
) -> None:
    """Note that the owner of an address was asked."""
    values = {"is_waiting": False, "sent_at": at, "attempts": 0, "error": None}
    storage.note_address_check(
        session, check, worker=worker, values={**values, "since": at, "until": at}
    )


def note_check_failure(  # noqa: PLR0913 - what came of an attempt.
    session: Session,
    check: AddressCheck,
    error: str,
    *,
    worker: str,
    is_final: bool,
    at: datetime,
) -> bool:
    """Note that the mail was not taken; returns whether it is given up."""
    is_over = is_final or check.attempts + 1 >= _MOST_ATTEMPTS
    values = {
        "is_waiting": not is_over,
        "attempts": check.attempts + 1,
        "error": error[:500],
        **rest_from(at, rest_seconds(check.attempts)),
    }
    storage.note_address_check(session, check, worker=worker, values=values)
    return is_over


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
    storage.delete_address_check(session, account.id)
    by.record(session, "mail address confirmed", account.name)


def _signer(secret_key: str) -> URLSafeSerializer:
    return URLSafeSerializer(secret_key, salt="mail-address")
