"""Who does something, when and from where."""

import ipaddress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.storage.people import AuditEvent
from tracker.words import ActorKind, has_role


@dataclass(frozen=True, slots=True)
class Actor:
    """An account, an API key, or a person at the command line."""

    name: str
    # None where it is not known; what is done in the background was allowed before.
    role: str | None
    kind: ActorKind
    row: int = 0
    # The ids of those they may see; None for all there are.
    detectors: frozenset[int] | None = None

    def may(self, role: str) -> bool:
        return has_role(self.role, role)

    def sees(self, detector_id: int) -> bool:
        return self.detectors is None or detector_id in self.detectors


NOBODY = Actor("nobody", None, "nobody")


@dataclass(frozen=True, slots=True)
class By:
    """Who does something, when and from where; every service that writes takes one."""

    actor: Actor
    at: datetime
    address: str = ""
    # Whose name the work carries, where it is not the actor's own.
    credited: str | None = None

    @property
    def name(self) -> str:
        return self.credited or self.actor.name

    @property
    def person(self) -> str:
        """Who labels: an account does by its own name, whatever its browser is."""
        return self.name if self.actor.kind == "key" else self.actor.name

    def may(self, role: str) -> bool:
        return self.actor.may(role)

    def credit(self, name: str | None) -> "By":
        """Return the same, with the work to carry *name*; None changes nothing."""
        return replace(self, credited=name) if name else self

    def record(
        self, session: Session, action: str, subject: str, **details: Any
    ) -> None:
        """Add an event to the audit log, in the transaction of what is being done."""
        session.add(
            AuditEvent(
                happened_at=self.at,
                actor=self.actor.name,
                actor_kind=self.actor.kind,
                action=action,
                subject=subject,
                details=details,
                address=self.address,
            )
        )
        session.flush()


def network_of(address: str) -> str:
    """Return the /64 of an IPv6 address, which one line has, and others as they are."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
