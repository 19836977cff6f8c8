"""The queue that a visitor labels from, as a URL or a form has it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import session as cookie
from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError
from tracker.http import account, by, database
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling.queues import RECHECK, QueueChoice, build_queue, reserve
from tracker.storage.detectors import Detector
from tracker.storage.labelling.queues import (
    AuditQueue,
    DisagreementQueue,
    Queue,
    RecheckQueue,
    TargetedQueue,
)
from tracker.web.forms import Form, failed_form, filled_in
from tracker.words import RANDOM, TARGETED

_TEXTS = ("queue", "audit", "order", "predicted", "version", "where")
_VERSIONS = ("old", "new")
_NUMBERS = ("min_confidence", "max_confidence")
# What the page calls min_confidence.
_FROM = "\N{LEFT DOUBLE QUOTATION MARK}Confidence from\N{RIGHT DOUBLE QUOTATION MARK}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A queue, and the parameters of URLs that lead back to it."""

    queue: Queue
    address: Mapping[str, str]

    @property
    def is_targeted(self) -> bool:
        """Whether labels given here are left out of the accuracy."""
        return self.queue.sampling == TARGETED

    @property
    def is_between_versions(self) -> bool:
        return isinstance(self.queue, DisagreementQueue)

    @property
    def is_picked(self) -> bool:
        return isinstance(self.queue, TargetedQueue)

    @property
    def is_recheck(self) -> bool:
        return isinstance(self.queue, RecheckQueue)

    @property
    def is_audit(self) -> bool:
        return isinstance(self.queue, AuditQueue)


def by_browser() -> By:
    """Return for whom queries are reserved here.

    Everybody at the pages may have the same account, and two browsers must not be
    shown the same query.
    """
    if "browser" not in cookie:
        cookie["browser"] = secrets.token_hex(8)
    return by().credit(f"{account().name} {cookie['browser']}")


def choose_queue(
    session: Session, detector: Detector, asked: Mapping[str, str]
) -> Chosen:
    """Return the requested queue; raises InvalidInputError."""
    given: dict[str, Any] = filled_in(asked, *_TEXTS, *_NUMBERS)
    if "audit" in given:
        given = filled_in(asked, "audit")
    elif given.get("queue", RANDOM) in {RANDOM, RECHECK}:
        # The fields of the other queue stay in the form that leads back to it.
        given = filled_in(asked, "queue", "version")
    elif given["queue"] == "disagreements":
        given = filled_in(asked, "queue", *_VERSIONS)
    address = {name: str(value) for name, value in given.items()}
    if "where" in given:
        given["where"] = [given["where"]]
    for name in _NUMBERS:
        if name in given:
            given[name] = _parse_number(given[name])
    queue = build_queue(
        session, detector, parse_input(QueueChoice, given), by_browser()
    )
    return Chosen(queue, address)


def reserve_next(
    detector_id: str, asked: Mapping[str, str], *, ahead: int
) -> list[int]:
    """Reserve the next queries, and return their numbers.

    A page takes longer than a reservation, and a write keeps other writers out.
    """

    def work(session: Session) -> list[int]:
        detector = get_open_detector(session, detector_id)
        queue = choose_queue(session, detector, asked).queue
        found = reserve(session, queue, by_browser(), ahead=ahead)
        return [query.id for query in found]

    return database().run(work)


def failed_filter(asked: Mapping[str, str], error: InvalidInputError) -> Form:
    """Return what was asked for with each error at its field of the filter.

    Raises *error* again where something is wrong that nobody types there.
    """
    if any(wrong.field not in _NUMBERS for wrong in error.errors):
        raise error
    named = [
        FieldError(wrong.field, wrong.message.replace("min_confidence", _FROM))
        for wrong in error.errors
    ]
    return failed_form(asked, InvalidInputError(named))


def without_bounds(asked: Mapping[str, str]) -> dict[str, str]:
    """Return the request without the bounds of the confidence."""
    return {name: value for name, value in asked.items() if name not in _NUMBERS}


def _parse_number(text: str) -> float | str:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        # The field says what is wrong with it.
        return text
