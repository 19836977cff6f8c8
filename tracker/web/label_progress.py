"""The panel beside a query to label: how far labelling has come."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.http import account, database, now, requires
from tracker.services.detectors import choose_versions, get_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.labels import Today, count_today
from tracker.services.planning import choose_next, labels_for_class
from tracker.services.reservations import (
    MOST_COUNTED,
    count_for_others,
    count_waiting,
)
from tracker.storage.detectors import Detector, list_versions
from tracker.web.blueprint import answer_live, pages
from tracker.web.label_queues import Chosen, choose_queue
from tracker.web.planning import CHOICES
from tracker.web.readings import Axis, Reading, build_axis, read_balanced, read_classes
from tracker.web.sparklines import draw_sparkline

# More of them would push the page down on a phone.
_MOST_CLASSES = 4


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
    classes: Sequence[Reading]
    next_class: str
    needed: int | None
    versions: int
    sparkline: str

    @property
    def has_more(self) -> bool:
        """Whether more wait than were counted."""
        return self.waiting == MOST_COUNTED

    @property
    def fingerprint(self) -> str:
        """Another one whenever a number of the panel is another one."""
        parts = (
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
            choices=CHOICES,
        )


def build_progress(session: Session, detector: Detector, chosen: Chosen) -> Progress:
    """Return how far labelling has come: of all versions, and of the newest."""
    estimate = get_estimate(session, detector, computed_at=now())
    newest = choose_versions(session, detector, None)
    versions = list_versions(session, detector.id)
    pooled = estimate
    if len(versions) > 1:
        pooled = get_estimate(session, detector, version="*", computed_at=now())
    labels = pooled.labels + pooled.unclear + pooled.targeted_left_out
    reading = read_balanced(estimate)
    classes = read_classes(estimate, limit=_MOST_CLASSES)
    scope = choose_next(estimate).scope
    width = 2 * float(chosen.points) / 100
    waiting = count_waiting(session, chosen.queue)
    for_others = 0 if waiting else count_for_others(session, chosen.queue)
    return Progress(
        estimate=estimate,
        reading=reading,
        axis=build_axis([reading, *classes], detector.target),
        labels=labels,
        today=count_today(session, detector, labeler=account().name, at=now()),
        classes=classes,
        next_class=scope.scope,
        needed=labels_for_class(
            scope.correct, scope.labelled, width, estimate.confidence_level
        ),
        waiting=waiting or for_others,
        is_for_others=for_others > 0,
        versions=len(versions),
        sparkline=draw_sparkline(session, newest[0] if newest else None),
    )
