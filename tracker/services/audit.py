"""What was done, by whom, when and from where."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.access import Actor
from tracker.services.fields import dump_instant
from tracker.storage import audit as storage
from tracker.storage.audit import AuditEvent

NOBODY = Actor("nobody", "viewer", "nobody")
COLUMNS = (
    *("happened_at", "actor", "actor_kind"),
    *("action", "subject", "details", "address"),
)


def record(  # noqa: PLR0913 - who did what to what, when and from where.
    session: Session,
    actor: Actor,
    action: str,
    subject: str,
    *,
    happened_at: datetime,
    address: str,
    **details: Any,
) -> None:
    """Add an event to the log, in the transaction of what is being done."""
    session.add(
        AuditEvent(
            happened_at=happened_at,
            actor=actor.name,
            actor_kind=actor.kind,
            action=action,
            subject=subject,
            details=details,
            address=address,
        )
    )
    session.flush()


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
