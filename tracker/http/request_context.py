"""What belongs to one request: its instant, who asks, and the application's parts."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

# This module and authentication keep things for the length of a request.
from flask import current_app, g, request  # noqa: TID251

from tracker.clock import Clock
from tracker.services.by import NOBODY, Actor, By
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import ImageStore


@dataclass(frozen=True, slots=True)
class Context:
    """Settings, database and clock of an application; made once by ``create_app``."""

    settings: Settings
    database: Database
    images: ImageStore
    recompute: Callable[[int], Any]
    clock: Clock


def context() -> Context:
    """Return the context of the running application."""
    found = current_app.extensions["tracker"]
    assert isinstance(found, Context)
    return found


def database() -> Database:
    """Return the database of the running application."""
    return context().database


def now() -> datetime:
    """Return the instant of this request, the same at every call."""
    instant = g.get("now")
    if instant is None:
        instant = g.now = context().clock()
    assert isinstance(instant, datetime)
    return instant


def account() -> Actor:
    """Return the account or key of this request."""
    found = g.account
    assert isinstance(found, Actor)
    return found


def find_account() -> Actor | None:
    """Return the account or key of this request; None on a public page."""
    found = g.get("account")
    assert found is None or isinstance(found, Actor)
    return found


def by() -> By:
    """Return who sends this request, when and from where, for services that write."""
    return By(find_account() or NOBODY, now(), request.remote_addr or "")
