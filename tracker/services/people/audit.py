"""What was done, by whom, when and from where."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.wording import dump_instant
from tracker.storage import people as storage

COLUMNS = (
    *("happened_at", "actor", "actor_kind"),
    *("action", "subject", "details", "address"),
)


def iter_rows(session: Session) -> Iterator[dict[str, Any]]:
    """Yield every event as it is exported, the oldest first."""
    for event in storage.iter_events(session):
        yield {
            "happened_at": dump_instant(event.happened_at),
            "actor": event.actor,
            "actor_kind": event.actor_kind,
            "action": event.action,
            "subject": event.subject,
            "details": event.details,
            "address": event.address,
        }
