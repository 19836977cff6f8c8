"""A mail server on loopback that takes mail or refuses it, and how mail is read."""

import re
import time
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from typing import Any

from sqlalchemy.orm import Session

from tests.conftest import SECRET_KEY, by
from tracker.services.people.accounts import get_account
from tracker.services.telling.mail import (
    Letterhead,
    MailChoice,
    choose_mail,
    confirm_address,
    sign_address,
)
from tracker.storage.database import Database
from tracker.storage.people import Account
from tracker.storage.telling import find_address_check

HEAD = Letterhead("tracker@example.org", "https://tracker.example.org", SECRET_KEY)


@dataclass
class Mailbox:
    """What a server took, and what it answers instead, for a while."""

    taken: list[Message] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    refused: str = ""
    pause: float = 0.0

    async def handle_RCPT(self, server, session, envelope, address, options):  # noqa: N802
        if self.refused:
            return self.refused
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        time.sleep(self.pause)
        if self.answers:
            return self.answers.pop(0)
        self.taken.append(message_from_bytes(envelope.content))
        return "250 OK"


def body(message: Message) -> str:
    content = message.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def choose(database: Database, name: str, **said: Any) -> None:
    choice = MailChoice.model_validate({"email": f"{name}@example.org", **said})
    with database.write() as session:
        account = get_account(session, name)
        choose_mail(session, account, choice, by())
        confirm(session, account)


def confirm(session: Session, account: Account) -> None:
    """What the link in the mail does that asks for it."""
    check = find_address_check(session, account.id)
    if check is not None:
        token = sign_address(SECRET_KEY, account.id, check.email)
        confirm_address(session, account, SECRET_KEY, token, by())


def link_of(message: Message) -> str:
    (found,) = re.findall(r"https://\S+/confirm/\S+", body(message))
    return str(found).removeprefix(HEAD.public_url)
