"""What happened to a detector."""

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.telling.deliveries import say_in_full
from tracker.storage.base import parse_id
from tracker.storage.telling import list_detector_events
from tracker.web.blueprint import cut_page, pages
from tracker.web.drawing.words import narrow

_PAGE = 50


@pages.get("/detectors/<detector_id>/events")
@requires("viewer")
def show_events(detector_id: str) -> ResponseReturnValue:
    """Show what happened to a detector, the newest first."""
    before = parse_id("evt", request.args.get("before", ""))
    with database().read() as session:
        detector = get_detector(session, detector_id)
        found = list_detector_events(
            session, detector.id, before=before, limit=_PAGE + 1
        )
        events, last = cut_page(found, _PAGE)
        told = [narrow(say_in_full(event.type, event.data)) for event in events]
        return render_template(
            "events/list.html",
            detector=detector,
            events=list(zip(events, told, strict=True)),
            last=last,
            is_first=before is None,
        )
