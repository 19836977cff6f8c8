"""What every page has at hand: the inbox, pinned detectors, and what is found."""

from collections.abc import Sequence

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from tracker.http import account, database, requires
from tracker.services.detectors import get_detector
from tracker.services.fields import is_storable
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.people import Account, list_pins, set_pin
from tracker.storage.queries.queries import list_by_key
from tracker.web.blueprint import pages
from tracker.web.detector_list import build_rows, has_words
from tracker.web.telling.inbox import count_needy

_MOST = 8


@pages.app_template_global()
def read_rail() -> tuple[int, Sequence[Detector]]:
    """Return how much that is new needs the visitor, and what they pinned."""
    with database().read() as session:
        own = session.get_one(Account, account().row)
        pins = [one for one in list_pins(session, own.id) if account().sees(one)]
        pinned = list_detectors(session, among=pins) if pins else []
        return count_needy(session, own), pinned


@pages.post("/detectors/<detector_id>/pin")
@requires("viewer")
def pin(detector_id: str) -> ResponseReturnValue:
    """Put a detector into the rail of this person, or take it out."""
    with database().write() as session:
        found = get_detector(session, detector_id)
        is_pinned = request.form.get("pinned") == "yes"
        set_pin(session, account().row, found.id, is_pinned=is_pinned)
    return redirect(url_for("pages.show_detector", detector_id=detector_id), 303)


@pages.get("/find")
@requires("viewer")
def find() -> ResponseReturnValue:
    """Show the detectors, pages and queries that fit what was typed."""
    text, among = request.args.get("q", "").strip(), account().detectors
    with database().read() as session:
        seen = list_detectors(session, among=among) if text else []
        found = [one for one in seen if has_words(one, text)][:_MOST]
        is_key = text and is_storable(text)
        return render_template(
            "detectors/find.html",
            text=text,
            rows=build_rows(session, found),
            queries=list_by_key(session, text, among, limit=_MOST) if is_key else [],
        )
