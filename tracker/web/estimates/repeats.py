"""Questions that were asked several times."""

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.repeats import get_repeats
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import read


@pages.get("/detectors/<detector_id>/repeats")
@requires("viewer")
def show_repeats(detector_id: str) -> ResponseReturnValue:
    """Show pass@k, pass^k and how often the answers to a question differ."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        version = request.args.get("version") or None
        found = get_repeats(session, detector, version=version)
    return render_template(
        "repeats/repeats.html",
        detector=detector,
        found=found,
        differing=read(found.differing, name="Differing", tone=0),
    )
