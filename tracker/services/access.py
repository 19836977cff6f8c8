"""Who asks, what they may do, and which detectors exist for them."""

from dataclasses import dataclass
from typing import Literal

from sqlalchemy.orm import Session

from tracker.services.background_imports import get_import
from tracker.services.detectors import get_detector
from tracker.services.fields import ROLES, missing
from tracker.services.queries import get_query
from tracker.services.studies import get_study
from tracker.storage import accounts, api_keys
from tracker.storage.accounts import Account
from tracker.storage.api_keys import ApiKey

Kind = Literal["account", "key", "command", "nobody"]


@dataclass(frozen=True, slots=True)
class Actor:
    """Whoever asks: an account, an API key, or somebody at the command line."""

    name: str
    role: str
    kind: Kind
    row: int = 0
    # The ids of those they may see; None for all there are.
    detectors: frozenset[int] | None = None

    def may(self, role: str) -> bool:
        """Return whether this actor has *role* or a stronger one."""
        return ROLES.index(self.role) >= ROLES.index(role)

    def sees(self, detector_id: int) -> bool:
        """Return whether that detector exists for this actor."""
        return self.detectors is None or detector_id in self.detectors


def actor_of_account(session: Session, account: Account) -> Actor:
    """Return *account* as one who asks."""
    seen = None
    if account.role != "admin" and not account.has_all_detectors:
        seen = frozenset(accounts.list_detector_ids(session, account.id))
    return Actor(account.name, account.role, "account", account.id, seen)


def actor_of_key(session: Session, key: ApiKey) -> Actor:
    """Return the program that shows *key* as one who asks."""
    seen = None
    if not key.has_all_detectors:
        seen = frozenset(api_keys.list_key_detector_ids(session, key.id))
    return Actor(key.name, key.role, "key", key.id, seen)


def check_sees(session: Session, actor: Actor, noun: str, reference: str) -> None:
    """Raise NotFoundError unless *actor* sees what the first part of a path names.

    What they were not given looks exactly like what does not exist.
    """
    match noun:
        case "detectors":
            name, detector_id = "detector", get_detector(session, reference).id
        case "queries":
            name, detector_id = "query", get_query(session, reference).detector_id
        case "studies":
            name, detector_id = "study", get_study(session, reference).detector_id
        case "imports":
            name, detector_id = "import", get_import(session, reference).detector_id
        case _:
            raise missing(noun, reference)
    if not actor.sees(detector_id):
        raise missing(name, reference)


def grant(session: Session, actor: Actor, detector_id: int) -> None:
    """Let *actor*, who made a detector, see it."""
    if actor.detectors is None:
        return
    if actor.kind == "account":
        accounts.add_detector_id(session, actor.row, detector_id)
    else:
        api_keys.add_key_detector_id(session, actor.row, detector_id)
