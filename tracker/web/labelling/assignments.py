"""Assignments, made and ended on the page of the labelers."""

from flask import flash, redirect, request, url_for
from flask.typing import ResponseReturnValue

from tracker.errors import InvalidInputError
from tracker.http import by, database, requires
from tracker.services.detectors import get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling import assignments as services
from tracker.services.labelling.assignments import Assignee, NewAssignment
from tracker.storage.base import parse_whole
from tracker.web.blueprint import pages
from tracker.web.drawing.words import sentence


@pages.post("/detectors/<detector_id>/assignments")
@requires("editor")
def assign(detector_id: str) -> ResponseReturnValue:
    """Ask a person for so many labels."""
    typed = request.form
    given = {
        "labeler": typed.get("labeler", "").strip(),
        "labels": parse_whole(typed.get("labels", "")),
    }
    try:
        new = parse_input(NewAssignment, given)
        with database().write() as session:
            services.assign(session, get_open_detector(session, detector_id), new, by())
    except InvalidInputError as error:
        flash(sentence(str(error)))
    return _back(detector_id)


@pages.post("/detectors/<detector_id>/assignments/end")
@requires("editor")
def end_assignment(detector_id: str) -> ResponseReturnValue:
    """End the assignment of a person."""
    try:
        whose = parse_input(Assignee, {"labeler": request.form.get("labeler", "")})
        with database().write() as session:
            detector = get_open_detector(session, detector_id)
            services.end_assignment(session, detector, whose.labeler, by())
    except InvalidInputError as error:
        flash(sentence(str(error)))
    return _back(detector_id)


def _back(detector_id: str) -> ResponseReturnValue:
    return redirect(url_for("pages.show_labelers", detector_id=detector_id), 303)
