"""Judges beside the labels."""

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.labelling.judgements import Judge, build_report
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import Reading, read, tone_of


@pages.get("/detectors/<detector_id>/judges")
@requires("viewer")
def show_judges(detector_id: str) -> ResponseReturnValue:
    """Show how each judge agrees with the labels."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        version = request.args.get("version") or None
        report = build_report(session, detector, version=version)
    return render_template(
        "judges/judges.html",
        detector=detector,
        report=report,
        rows=[(judge, _read(judge)) for judge in report.items],
    )


def _read(judge: Judge) -> list[tuple[str, Reading, Reading]]:
    return [
        (
            one.name,
            read(one.sensitivity, name="Sensitivity", tone=tone_of(place)),
            read(one.specificity, name="Specificity", tone=tone_of(place)),
        )
        for place, one in enumerate(judge.classes)
    ]
