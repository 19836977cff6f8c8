"""Archived detectors: the list of them, into it and out of it."""

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, database, requires
from tracker.services.archive import archive_detector, bring_back_detector
from tracker.services.detectors import get_detector, get_open_detector
from tracker.storage.base import parse_id
from tracker.storage.detectors import list_archived
from tracker.web.blueprint import cut_page, pages
from tracker.web.drawing.words import sentence

_PAGE = 50


@pages.get("/detectors/archived")
@requires("viewer")
def show_archived() -> ResponseReturnValue:
    """Show the detectors that were archived, the newest first."""
    before = parse_id("det", request.args.get("before", ""))
    with database().read() as session:
        found = list_archived(
            session, before=before, limit=_PAGE + 1, among=account().detectors
        )
        detectors, last = cut_page(found, _PAGE)
        return render_template(
            "detectors/archived.html",
            detectors=detectors,
            last=last,
            is_first=before is None,
        )


@pages.post("/detectors/<detector_id>/archive")
@requires("admin")
def archive(detector_id: str) -> ResponseReturnValue:
    """Archive a detector, once the visitor has said yes."""
    if request.form.get("sure") != "yes":
        raise InvalidInputError.of("sure", "say yes to archive the detector")
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        archive_detector(session, detector, by())
        flash(f"{detector.name} is archived.")
    return redirect(url_for("pages.show_detectors"), 303)


@pages.post("/detectors/<detector_id>/bring-back")
@requires("editor")
def bring_back(detector_id: str) -> ResponseReturnValue:
    """Bring an archived detector back, unless another one has its name."""
    try:
        with database().write() as session:
            detector = get_detector(session, detector_id)
            if detector.archived_at is not None:
                bring_back_detector(session, detector, by())
                flash(f"{detector.name} is back.")
    except ConflictError as error:
        flash(sentence(str(error)))
    return redirect(url_for("pages.show_detector", detector_id=detector_id), 303)
