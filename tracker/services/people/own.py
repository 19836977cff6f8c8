"""What people store for themselves: pins, saved views, and what they have seen."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.detectors import get_detector
from tracker.services.fields import Input, Instant, VersionWanted
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage import people as storage
from tracker.storage.base import dump_id, list_detector_ids, set_row
from tracker.storage.people import Account, ApiKey

_MOST_VIEWS = 30


class View(Input):
    """A saved view of the list of detectors."""

    name: VersionWanted
    query: Annotated[str, Field(max_length=2000)] = Field(
        description="The query of its address, such as `state=dropped&tag=dock`."
    )


class Own(Shape):
    """The pins, saved views and inbox of an account."""

    name: str
    role: str
    pins: list[str] = Field(description="The ids of the detectors in its rail.")
    views: list[View] = Field(description="Its saved views of the list.")
    last_looked_at: Instant | None = Field(
        description="When it last said that it has seen its inbox."
    )


class OwnChange(Input):
    """The fields to change; a field that is left out keeps its value."""

    pins: list[str] | None = Field(
        default=None, max_length=100, description="Ids or names; all of them."
    )
    views: list[View] | None = Field(
        default=None, max_length=_MOST_VIEWS, description="All of them, by name."
    )
    has_looked: bool = Field(
        default=False, description="true: what is in the inbox now has been seen."
    )


def get_own(session: Session, by: By) -> Account:
    """Return the caller's account; a key acts for its owner."""
    if by.actor.kind == "account":
        return session.get_one(Account, by.actor.row)
    owner = session.get_one(ApiKey, by.actor.row).owner
    found = storage.find_account(session, owner) if owner else None
    if found is None:
        raise ConflictError("the owner of this key has no account")
    return found


def describe_own(session: Session, own: Account) -> Own:
    """Return the API's answer about an account's own data."""
    return Own(
        name=own.name,
        role=own.role,
        pins=[dump_id("det", one) for one in _list_pins(session, own)],
        views=[View(name=name, query=query) for name, query in own.views],
        last_looked_at=own.last_looked_at,
    )


def _list_pins(session: Session, own: Account) -> Sequence[int]:
    return list_detector_ids(session, storage.Pin, account_id=own.id)


def change_own(
    session: Session, own: Account, change: OwnChange, by: By, *, newest_event: int = 0
) -> None:
    """Change the given fields; *newest_event* is the last event seen."""
    if change.pins is not None:
        wanted = {get_detector(session, one).id: one for one in change.pins}
        for number, named in wanted.items():
            if not by.actor.sees(number):
                raise missing("detector", named)
        before = _list_pins(session, own)
        for number in {*wanted, *before}:
            row = {"account_id": own.id, "detector_id": number}
            set_row(session, storage.Pin, is_there=number in wanted, **row)
    if change.views is not None:
        named_views = {one.name: one.query for one in change.views}
        own.views = [list(pair) for pair in named_views.items()]
    if change.has_looked:
        own.last_looked_at = by.at
        own.seen_event_id = max(own.seen_event_id, newest_event)
