"""The detectors, and how sure we are of one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, audit, database, now, requires
from tracker.services.access import grant
from tracker.services.detectors import (
    choose_versions,
    create_detector,
    get_detector,
)
from tracker.services.estimates import Decision, Estimate, decide, get_estimate
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import (
    Detector,
    Version,
    count_archived,
    list_detectors,
    list_versions,
)
from tracker.storage.leases import Lease, find_failure
from tracker.storage.queries import count_disputed
from tracker.web import confusion
from tracker.web.blueprint import answer_live, cut_page, pages
from tracker.web.forms import Form, failed_form, parse_new_detector
from tracker.web.readings import (
    MOST_ROWS,
    Axis,
    Reading,
    build_axis,
    read_balanced,
    read_classes,
)
from tracker.web.sparklines import draw_sparkline

_PAGE = 12
_NEW = {
    "classes": "YES\nNO",
    "confidence_level": "95",
    "audit_rate": "100",
    "labels_wanted": "1",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One detector of the list."""

    detector: Detector
    estimate: Estimate
    reading: Reading
    decision: Decision | None
    sparkline: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the page of a detector says of one version, or of all pooled."""

    detector: Detector
    estimate: Estimate
    balanced: Reading
    classes: Sequence[Reading]
    axis: Axis
    decision: Decision | None
    matrix: confusion.Matrix
    versions: Sequence[Version]
    version: Version | None
    queries: int
    # Of all versions.
    disputed: int
    failure: Lease | None

    @property
    def deciding(self) -> Reading | None:
        """The interval that the verdict goes by, in words."""
        found, balanced = self.decision, self.estimate.balanced
        if found is None:
            return None
        return read_balanced(
            replace(
                self.estimate,
                balanced=replace(balanced, low=found.low, high=found.high),
            )
        )

    @property
    def fingerprint(self) -> str:
        """Another one whenever a number on the page is another one."""
        seen = (
            self.detector.revision,
            self.detector.target,
            self.detector.confidence_level,
            self.detector.archived_at,
            self.version.name if self.version else None,
            self.estimate.unclear,
            self.estimate.targeted_left_out,
            self.estimate.confusion,
            self.queries,
            self.disputed,
            self.failure and self.failure.failures,
        )
        return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


@pages.get("/")
@requires("viewer")
def show_detectors() -> ResponseReturnValue:
    """Show every detector with its balanced accuracy."""
    after = parse_id("det", request.args.get("after", ""))
    with database().read() as session:
        found = list_detectors(
            session, after=after, limit=_PAGE + 1, among=account().detectors
        )
        detectors, last = cut_page(found, _PAGE)
        rows = [build_row(session, detector) for detector in detectors]
        return render_template(
            "detectors/list.html",
            rows=rows,
            axis=_build_common_axis(rows),
            last=last,
            is_first=after is None,
            archived=count_archived(session, among=account().detectors),
        )


@pages.get("/detectors")
@requires("viewer")
def find_detectors() -> ResponseReturnValue:
    """Lead whoever cut an address short to the list."""
    return redirect(url_for("pages.show_detectors"), 301)


def _build_common_axis(rows: Sequence[Row]) -> Axis:
    targets = [row.detector.target for row in rows if row.detector.target]
    known = [row.reading for row in rows if row.reading.estimate]
    return build_axis(known, min(targets, default=None))


def build_row(session: Session, detector: Detector) -> Row:
    """Return what the list says of *detector*, whose newest version it shows."""
    estimate = get_estimate(session, detector, computed_at=now())
    versions = choose_versions(session, detector, None)
    return Row(
        detector=detector,
        estimate=estimate,
        reading=read_balanced(estimate),
        decision=decide(estimate),
        sparkline=draw_sparkline(session, versions[0] if versions else None),
    )


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
            detector = create_detector(session, new, created_at=now())
            grant(session, account(), detector.id)
            audit(session, "detector made", detector.name)
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
            detector=report.detector,
        )


def build_report(
    session: Session,
    detector: Detector,
    *,
    version: str | None,
    limit: int | None = MOST_ROWS,
) -> Report:
    """Return what the page of *detector* says."""
    chosen = choose_versions(session, detector, version)
    estimate = get_estimate(session, detector, version=version, computed_at=now())
    balanced = read_balanced(estimate)
    classes = read_classes(estimate, limit=limit)
    return Report(
        detector=detector,
        estimate=estimate,
        balanced=balanced,
        classes=classes,
        axis=build_axis([balanced, *classes], detector.target),
        decision=decide(estimate),
        matrix=confusion.build_matrix(estimate),
        versions=list_versions(session, detector.id),
        version=None if version == "*" or not chosen else chosen[0],
        queries=sum(one.queries for one in chosen),
        disputed=count_disputed(session, detector.id),
        failure=find_failure(session, detector.id),
    )
