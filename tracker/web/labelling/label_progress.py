"""The queue that a visitor labels from, and the panel of how far it has come."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flask import request
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.http import account, by, database, now
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.measures import score_named
from tracker.services.evidence.measure import read_measure
from tracker.services.fields import parse_input
from tracker.services.labelling import queues
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.labels import count_today
from tracker.shapes import Accuracy
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.labelling import queues as storage
from tracker.storage.labelling.audits import Audit
from tracker.storage.labelling.labelers import Assignment
from tracker.web.blueprint import answer_live, page, reading
from tracker.web.drawing import readings
from tracker.web.forms import filled_in
from tracker.web.labelling.audits import read_aimed
from tracker.words import BALANCED, DECIDING_METHOD, RANDOM, TARGETED

_TEXTS = ("queue", "order", "version", "where")
_VERSIONS = ("old", "new")
# Leads from detector to detector.
STREAM = "stream"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A queue, and the parameters of URLs that lead back to it."""

    queue: storage.Queue
    address: Mapping[str, str]

    @property
    def is_targeted(self) -> bool:
        """Whether labels given here are left out of the accuracy."""
        return self.queue.sampling == TARGETED

    @property
    def is_stream(self) -> bool:
        """Whether the next detector follows once this one needs no more labels."""
        return STREAM in self.address


def by_browser() -> By:
    # All may have the same account, and two browsers must not be shown the same query.
    if "browser" not in cookie:
        cookie["browser"] = secrets.token_hex(8)
    return by().credit(f"{account().name} {cookie['browser']}")


# Between two conditions in the one field; a value may have "and" in it, too.
_AND = re.compile(
    r" and (?=(?:predicted|version|group|confidence|asked_at|metadata\.[^:]+):)"
)


def choose_queue(
    session: Session, detector: Detector, asked: Mapping[str, str]
) -> Chosen:
    """Return the requested queue; raises InvalidInputError."""
    if audit := filled_in(asked, "audit"):
        queue = queues.build_audit_queue(
            session, detector, audit["audit"], by_browser()
        )
        return Chosen(queue, audit)
    given: dict[str, Any] = filled_in(asked, *_TEXTS)
    if given.get("queue", RANDOM) in {RANDOM, queues.RECHECK}:
        # The fields of the other queue stay in the form that leads back to it.
        given = filled_in(asked, "queue", "version", STREAM)
    elif given["queue"] == "disagreements":
        given = filled_in(asked, "queue", *_VERSIONS)
    address = {name: str(value) for name, value in given.items()}
    given.pop(STREAM, None)
    if "where" in given:
        given["where"] = _AND.split(given["where"])
    choice = parse_input(queues.QueueChoice, given)
    return Chosen(queues.build_queue(session, detector, choice, by_browser()), address)


def reserve_next(
    detector_id: str, asked: Mapping[str, str], *, ahead: int
) -> list[int]:
    """Reserve the next queries, and return their numbers.

    A page takes longer than a reservation, and a write keeps other writers out.
    """

    def work(session: Session) -> list[int]:
        detector = get_open_detector(session, detector_id)
        queue = choose_queue(session, detector, asked).queue
        found = queues.reserve(session, queue, by_browser(), ahead=ahead)
        return [query.id for query in found]

    return database().run(work)


@page("GET /detectors/<detector_id>/label/progress", "labeler")
def show_progress(detector_id: str) -> ResponseReturnValue:
    """Show how far labelling has come."""
    with reading(detector_id) as (session, detector):
        chosen = choose_queue(session, detector, request.args)
        progress = build_progress(session, detector, chosen)
        return answer_live(
            "labels/_progress.html",
            seen=request.args.get("seen", ""),
            fingerprint=progress["fingerprint"],
            progress=progress,
            detector=detector,
            chosen=chosen,
        )


def build_progress(
    session: Session, detector: Detector, chosen: Chosen
) -> dict[str, Any]:
    """Return how far labelling has come: of all versions, and of the one labelled."""
    queue, name = chosen.queue, account().name
    if isinstance(queue, storage.AuditQueue):
        audit = session.get_one(Audit, (queue.detector_id, queue.audit_id))
        estimate = get_audit_estimate(session, audit, computed_at=now())
        aimed = read_aimed(audit, estimate)
        found: dict[str, Any] = {
            "estimate": estimate,
            "reading": aimed,
            "axis": readings.build_axis([aimed], audit.target),
            "labels": estimate.labels + estimate.unclear,
            "versions": 1,
            "audit_left": estimate.labels_left,
        }
    else:
        found = _read_versions(session, detector, chosen.address.get("version"))
    waiting = queues.count_waiting(session, queue)
    for_others = 0 if waiting else queues.count_for_others(session, queue)
    today = count_today(session, detector, labeler=name, at=now())
    assignment = session.get(Assignment, (detector.id, name))
    # Live numbers would tell which answers are no labels.
    is_blind = detector.gold_rate > 0 and isinstance(queue, storage.RandomQueue)
    asked = assignment and f"{assignment.done}-{assignment.labels}"
    shown = [asked, today.by_labeler, today.by_all]
    if not is_blind:
        bounds = found["reading"].low, found["reading"].high
        counts = found["labels"], waiting or for_others, today.by_all, today.a_minute
        shown = [asked, *counts, *bounds]
    return found | {
        "waiting": waiting or for_others,
        "has_more": (waiting or for_others) == queues.MOST_COUNTED,
        # Whether all of that waits for other people, because this one has answered it.
        "is_for_others": for_others > 0,
        "today": today,
        "assignment": assignment,
        "is_blind": is_blind,
        # Changes whenever a shown number changes.
        "fingerprint": "-".join(map(str, shown)),
    }


def _read_versions(
    session: Session, detector: Detector, version: str | None
) -> dict[str, Any]:
    asked: dict[str, Any] = {
        "version": version,
        "computed_at": now(),
        "is_dated": False,
    }
    estimate = get_estimate(session, detector, **asked, method=DECIDING_METHOD)
    versions = list_versions(session, detector.id)
    pooled = estimate
    if len(versions) > 1:
        pooled = get_estimate(session, detector, **asked | {"version": "*"})
    measure, found = read_measure(detector.measure), estimate.decision
    if measure.kind == BALANCED:
        measured = readings.read_balanced(estimate)
    else:
        score = score_named(estimate, measure)
        measured = readings.read(score, name=measure.name, tone=0)
        if found is not None:
            bounds = Accuracy(accuracy=found.accuracy, low=found.low, high=found.high)
            measured = replace(measured, score=bounds, beside=found.target)
    return {
        "estimate": estimate,
        "reading": measured,
        "axis": readings.build_axis([measured], detector.target),
        "labels": pooled.labels + pooled.unclear + pooled.targeted_left_out,
        "versions": len(versions),
        "audit_left": None,
    }
