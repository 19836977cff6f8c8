"""The panel beside a query to label: how far labelling has come."""

from dataclasses import dataclass, replace

from flask import request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.http import account, database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.measures import score_named
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.auditing.audit_estimates import (
    get_audit_estimate,
)
from tracker.services.labelling.labels import Today, count_today
from tracker.services.labelling.queues import (
    MOST_COUNTED,
    count_for_others,
    count_waiting,
)
from tracker.shapes import Accuracy
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.labelling.auditing.audits import Audit
from tracker.storage.labelling.labelers import Assignment, find_assignment
from tracker.storage.labelling.queues import AuditQueue, RandomQueue
from tracker.web.blueprint import answer_live, pages
from tracker.web.drawing.readings import (
    Axis,
    Reading,
    build_axis,
    read,
    read_balanced,
    read_classes,
)
from tracker.web.labelling.audit_reading import read_aimed
from tracker.web.labelling.label_queues import Chosen, choose_queue
from tracker.words import BALANCED, DECIDING_METHOD


@dataclass(frozen=True, slots=True)
class Progress:
    """How far labelling has come."""

    estimate: Estimate
    reading: Reading
    axis: Axis
    labels: int
    waiting: int
    # Whether all of that waits for other people, because this one has answered it.
    is_for_others: bool
    today: Today
    versions: int
    # What this person is asked for; None for nothing.
    assignment: Assignment | None
    # Whether live numbers are left out: they would tell which answers are no labels.
    is_blind: bool = False
    # How many more labels the goal of an audit takes; None where none is labelled.
    audit_left: int | None = None

    @property
    def has_more(self) -> bool:
        return self.waiting == MOST_COUNTED

    @property
    def fingerprint(self) -> str:
        """Changes whenever a shown number changes."""
        asked = self.assignment and f"{self.assignment.done}-{self.assignment.labels}"
        if self.is_blind:
            return f"{self.today.by_labeler}-{self.today.by_all}-{asked}"
        parts = (
            asked,
            self.labels,
            self.waiting,
            self.today.by_all,
            self.reading.low,
            self.reading.high,
        )
        return "-".join(map(str, parts))


@pages.get("/detectors/<detector_id>/label/progress")
@requires("labeler")
def show_progress(detector_id: str) -> ResponseReturnValue:
    """Show how far labelling has come."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        chosen = choose_queue(session, detector, request.args)
        progress = build_progress(session, detector, chosen)
        return answer_live(
            "labels/_progress.html",
            seen=request.args.get("seen", ""),
            fingerprint=progress.fingerprint,
            progress=progress,
            detector=detector,
            chosen=chosen,
        )


def build_progress(session: Session, detector: Detector, chosen: Chosen) -> Progress:
    """Return how far labelling has come: of all versions, and of the one labelled."""
    if isinstance(chosen.queue, AuditQueue):
        return _audit_progress(session, detector, chosen, chosen.queue)
    version = chosen.address.get("version")
    estimate = get_estimate(
        session,
        detector,
        version=version,
        method=DECIDING_METHOD,
        computed_at=now(),
    )
    versions = list_versions(session, detector.id)
    pooled = estimate
    if len(versions) > 1:
        pooled = get_estimate(session, detector, version="*", computed_at=now())
    labels = pooled.labels + pooled.unclear + pooled.targeted_left_out
    reading = _read_measured(detector, estimate)
    waiting = count_waiting(session, chosen.queue)
    for_others = 0 if waiting else count_for_others(session, chosen.queue)
    return Progress(
        estimate=estimate,
        reading=reading,
        axis=build_axis([reading], detector.target),
        labels=labels,
        today=count_today(session, detector, labeler=account().name, at=now()),
        waiting=waiting or for_others,
        is_for_others=for_others > 0,
        versions=len(versions),
        assignment=find_assignment(session, detector.id, account().name),
        is_blind=detector.gold_rate > 0 and isinstance(chosen.queue, RandomQueue),
    )


def _read_measured(detector: Detector, estimate: Estimate) -> Reading:
    """Return the measure that the target is on, with the bounds that decide."""
    measure, found = read_measure(detector.measure), estimate.decision
    if measure.kind == BALANCED:
        return read_balanced(estimate)
    reading = read(score_named(estimate, measure), name=measure.name, tone=0)
    if found is None:
        return reading
    score = Accuracy(accuracy=found.accuracy, low=found.low, high=found.high)
    return replace(reading, score=score, beside=found.target)


def _audit_progress(
    session: Session, detector: Detector, chosen: Chosen, queue: AuditQueue
) -> Progress:
    """Return the progress of an audit, which ignores other queries."""
    audit = session.get_one(Audit, queue.audit_id)
    found = get_audit_estimate(session, audit, computed_at=now())
    balanced, classes = read_balanced(found), read_classes(found)
    reading = read_aimed(audit, found, [balanced, *classes])
    return Progress(
        estimate=found,
        reading=reading,
        axis=build_axis([reading], audit.target),
        labels=found.labels + found.unclear,
        today=count_today(session, detector, labeler=account().name, at=now()),
        waiting=count_waiting(session, chosen.queue),
        is_for_others=False,
        versions=1,
        assignment=find_assignment(session, detector.id, account().name),
        audit_left=found.labels_left,
    )
