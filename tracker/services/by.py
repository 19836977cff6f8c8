"""The actor of a change, when and from where."""

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.storage.people import AuditEvent
from tracker.words import HAS_ROLES, ActorKind


@dataclass(frozen=True, slots=True)
class Actor:
    """An account, an API key, or a person at the command line."""

    name: str
    # None if unknown; background work was allowed when it was queued.
    role: str | None
    kind: ActorKind
    row: int = 0
    # The ids of the visible detectors; None for all.
    detectors: frozenset[int] | None = None

    def may(self, role: str) -> bool:
        return role in HAS_ROLES[self.role]

    def sees(self, detector_id: int) -> bool:
        return self.detectors is None or detector_id in self.detectors


NOBODY = Actor("nobody", None, "nobody")


@dataclass(frozen=True, slots=True)
class By:
    """The actor, instant and address of a change; services that write take one."""

    actor: Actor
    at: datetime
    address: str = ""
    # The name to credit, if it is not the actor's.
    credited: str | None = None

    @property
    def name(self) -> str:
        return self.credited or self.actor.name

    @property
    def person(self) -> str:
        """The name of the labeler: an account's own, whatever name is credited."""
        return self.name if self.actor.kind == "key" else self.actor.name

    def may(self, role: str) -> bool:
        return self.actor.may(role)

    def credit(self, name: str | None) -> "By":
        """Return a copy that credits *name*; None changes nothing."""
        return replace(self, credited=name) if name else self

    def record(
        self, session: Session, action: str, subject: str, **details: Any
    ) -> None:
        """Add an event to the audit log, in the transaction of the change."""
        event = AuditEvent(
            happened_at=self.at,
            actor=self.actor.name,
            actor_kind=self.actor.kind,
            action=action,
            subject=subject,
            details=details,
            address=self.address,
        )
        session.add(event)
        session.flush()


def network_of(address: str) -> str:
    """Return the /64 of an IPv6 address, which one line has; others unchanged."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
