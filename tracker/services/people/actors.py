"""Whom an account or an API key stands for."""

from sqlalchemy.orm import Session

from tracker.services.by import Actor
from tracker.storage.people import accounts, api_keys
from tracker.storage.people.accounts import Account
from tracker.storage.people.api_keys import ShownKey
from tracker.storage.prepared import Asked
from tracker.words import ADMIN


def actor_of_account(session: Session, account: Account) -> Actor:
    """Return *account* as one who asks."""
    seen = None
    if account.role != ADMIN and not account.has_all_detectors:
        seen = frozenset(accounts.list_detector_ids(session, account.id))
    return Actor(account.name, account.role, "account", account.id, seen)


def actor_of_key(session: Asked, key: ShownKey) -> Actor:
    """Return the program that shows *key* as one who asks."""
    seen = None
    if not key.has_all_detectors:
        seen = frozenset(api_keys.list_key_detector_ids(session, key.id))
    return Actor(key.name, key.role, "key", key.id, seen)
