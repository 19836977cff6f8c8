"""Which queue a visitor labels from, as an address or a form says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError
from tracker.http import account
from tracker.services.fields import parse_input
from tracker.services.queues import QueueChoice, build_queue
from tracker.storage.detectors import Detector
from tracker.storage.queues import Queue
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.planning import CHOICES, parse_points

_TEXTS = ("queue", "order", "predicted", "version")
_NUMBERS = ("min_confidence", "max_confidence")
# What the page calls min_confidence.
_FROM = "\N{LEFT DOUBLE QUOTATION MARK}Confidence from\N{RIGHT DOUBLE QUOTATION MARK}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A queue, and what stands in addresses that lead to it again."""

    queue: Queue
    address: Mapping[str, str]

    @property
    def points(self) -> str:
        """How well the visitor wants to know each class, in points up or down."""
        return parse_points(self.address.get("within"))

    @property
    def is_targeted(self) -> bool:
        """Whether labels given here are left out of the accuracy."""
        return self.queue.sampling == "targeted"


def choose_queue(
    session: Session, detector: Detector, asked: Mapping[str, str]
) -> Chosen:
    """Return the queue that was asked for; raises InvalidInputError."""
    given: dict[str, Any] = filled_in(asked, *_TEXTS, *_NUMBERS)
    if given.get("queue", "random") == "random":
        # The fields of the other queue stay in the form that leads back to it.
        given = filled_in(asked, "queue")
    address = {name: str(value) for name, value in given.items()}
    if asked.get("within") in CHOICES:
        address["within"] = asked["within"]
    for name in _NUMBERS:
        if name in given:
            given[name] = _parse_number(given[name])
    queue = build_queue(
        session, detector, parse_input(QueueChoice, given), labeler=account().name
    )
    return Chosen(queue, address)


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
    """Return what was asked for without the bounds of the confidence."""
    return {name: value for name, value in asked.items() if name not in _NUMBERS}


def _parse_number(text: str) -> float | str:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        # The field says what is wrong with it.
        return text
