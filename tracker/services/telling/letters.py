"""What every mail has: who sends it, where its links lead, and that a program did."""

from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from urllib.parse import urlsplit

# A header with an address in it would be encoded where it is folded, and no mail
# program would find the address again.
_UNFOLDED = SMTP.clone(max_line_length=998)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a mail server did not take a mail."""

    reason: str
    # Whether to try again is of no use.
    is_final: bool


@dataclass(frozen=True, slots=True)
class Letterhead:
    """Who sends mail, where its links lead, and what signs them."""

    sender: str
    public_url: str
    secret_key: str

    @property
    def host(self) -> str:
        """The name of this server, as it stands in the id of a message."""
        return urlsplit(self.public_url).hostname or "localhost"


def begin_letter(head: Letterhead, to: str, at: datetime) -> EmailMessage:
    """Return a mail to an address, without subject, id and content."""
    message = EmailMessage(policy=_UNFOLDED)
    message["From"], message["To"] = head.sender, to
    message["Date"] = format_datetime(at)
    # No program is to answer it.
    message["Auto-Submitted"] = "auto-generated"
    return message
