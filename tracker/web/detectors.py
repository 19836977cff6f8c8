"""The detectors, and how sure we are of one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database, now, requires
from tracker.services.detectors import create_detector, get_detector
from tracker.services.estimates.estimate import (
    NOW,
    Estimate,
    get_estimate,
)
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.queues import QueueChoice, build_queue
from tracker.services.labelling.reservations import count_waiting
from tracker.services.versions import choose_versions
from tracker.storage.base import dump_id
from tracker.storage.detectors import (
    Detector,
    Version,
    list_versions,
)
from tracker.storage.queries.queries import count_disputed
from tracker.storage.tasks import RECOMPUTE, Task, find_failures
from tracker.web.blueprint import answer_live, pages
from tracker.web.drawing import confusion
from tracker.web.drawing.measures import read_measures
from tracker.web.drawing.readings import (
    MOST_ROWS,
    Axis,
    Reading,
    build_axis,
    read_balanced,
    read_classes,
    read_published,
)
from tracker.web.drawing.words import roughly
from tracker.web.forms import Form, failed_form, parse_new_detector
from tracker.web.labelling.rechecks import Reread, read_errors

# Of more classes than these the others are folded away.
MOST_OPEN = 6
# Of more that wait nobody needs the number, and pages ask again every few seconds.
MOST_WAITING = 100_000
_NEW = {
    "classes": "YES\nNO",
    "confidence_level": "95",
    "queue_rate": "100",
    "labels_wanted": "1",
    "measure": "balanced",
    "consensus": "majority",
    "method": "joint",
}


@dataclass(frozen=True, slots=True)
class Report:
    """The page of a detector for one version, or for all pooled."""

    detector: Detector
    estimate: Estimate
    balanced: Reading
    classes: Sequence[Reading]
    axis: Axis
    matrix: confusion.Matrix
    versions: Sequence[Version]
    version: Version | None
    queries: int
    # In the random queue, to which the button leads; counted no further than what
    # decides the verdict.
    waiting: int
    # Of all versions.
    disputed: int
    reread: Reread | None
    failure: Task | None

    @property
    def measure(self) -> str:
        """What the target is on, in words."""
        return read_measure(self.detector.measure).name

    @property
    def lowest(self) -> Sequence[Reading]:
        """The classes that are shown at once: of many those that are lowest."""
        return self._ranked[:MOST_OPEN] if self._is_folded else self.classes

    @property
    def folded(self) -> Sequence[Reading]:
        """The other classes, from the lowest upwards."""
        return self._ranked[MOST_OPEN:] if self._is_folded else ()

    @property
    def _ranked(self) -> Sequence[Reading]:
        return sorted(self.classes, key=lambda reading: reading.score.low)

    @property
    def _is_folded(self) -> bool:
        return len(self.classes) > MOST_OPEN

    @property
    def mistakes(self) -> int:
        """The scored labels that the detector had not predicted."""
        return self.estimate.labels - sum(self.estimate.correct)

    @property
    def fingerprint(self) -> str:
        """Changes whenever a number on the page, or its chart, changes.

        The estimate counts labels that wait, and the chart does not: it goes on with
        the fold of those labels, which is the next revision of the detector.
        """
        seen = (
            self.detector.revision,
            self.detector.target,
            self.detector.confidence_level,
            self.detector.method,
            self.detector.archived_at,
            [version.name for version in self.versions],
            self.version.name if self.version else None,
            self.estimate.unclear,
            self.estimate.targeted_left_out,
            self.estimate.corrections,
            self.estimate.last_label_at,
            self.estimate.confusion,
            self.queries,
            self.waiting,
            self.disputed,
            self.reread and self.reread.fingerprint,
            self.failure and self.failure.attempts,
        )
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def _count_waiting(session: Session, detector: Detector, estimate: Estimate) -> int:
    found = estimate.decision
    if not found or not found.labels_to_decide:
        return 0
    queue = build_queue(session, detector, QueueChoice(version=estimate.version), by())
    enough = min(roughly(found.labels_to_decide), MOST_WAITING)
    return count_waiting(session, queue, at_most=enough)


@pages.get("/detectors/new")
@requires("editor")
def new_detector() -> ResponseReturnValue:
    """Show the form for a detector to be made."""
    return render_template("detectors/new.html", form=Form(_NEW))


@pages.post("/detectors/new")
@requires("editor")
def make_detector() -> ResponseReturnValue:
    """Make the detector that was described."""
    try:
        new = parse_new_detector(request.form)
        with database().write() as session:
            detector = create_detector(session, new, by())
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error)
        return render_template("detectors/new.html", form=form), 422
    return redirect(
        url_for("pages.show_detector", detector_id=dump_id("det", detector.id)), 303
    )


@pages.get("/detectors/<detector_id>")
@requires("viewer")
def show_detector(detector_id: str) -> ResponseReturnValue:
    """Show how accurate a detector is, and how sure that is."""
    with database().read() as session:
        report = build_report(
            session,
            get_detector(session, detector_id),
            version=request.args.get("version") or None,
            limit=None if "all" in request.args else MOST_ROWS,
        )
        return answer_live(
            "detectors/detector.html",
            seen=request.args.get("seen", ""),
            fingerprint=report.fingerprint,
            report=report,
            measures=read_measures(report.estimate),
            detector=report.detector,
        )


def build_report(
    session: Session,
    detector: Detector,
    *,
    version: str | None,
    limit: int | None = MOST_ROWS,
) -> Report:
    """Return the contents of the page of *detector*."""
    chosen = choose_versions(session, detector, version)
    one = chosen[0] if chosen and version != "*" else None
    estimate = get_estimate(
        session,
        detector,
        version=version,
        method=detector.method,
        span=NOW,
        computed_at=now(),
    )
    balanced = read_balanced(estimate)
    if estimate.labels and estimate.method != "exact":
        balanced = replace(balanced, published=read_published(estimate))
    classes = read_classes(estimate, limit=limit)
    return Report(
        detector=detector,
        estimate=estimate,
        balanced=balanced,
        classes=classes,
        axis=build_axis([balanced, *classes], detector.target),
        matrix=confusion.build_matrix(estimate),
        versions=list_versions(session, detector.id),
        version=one,
        queries=sum(each.queries for each in chosen),
        waiting=_count_waiting(session, detector, estimate),
        disputed=count_disputed(session, detector.id),
        reread=read_errors(session, detector, estimate),
        failure=find_failures(session, RECOMPUTE, [detector.id]).get(detector.id),
    )
