"""What every page has at hand: the inbox, pinned detectors, and what is found."""

from collections.abc import Sequence
from typing import NamedTuple

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue

from tracker.http import account, database, requires
from tracker.services.detectors import get_detector
from tracker.services.fields import is_storable
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.people import Account, list_pins, set_pin
from tracker.storage.queries.queries import list_by_key
from tracker.web.blueprint import may, pages
from tracker.web.detector_list import build_rows, has_words
from tracker.web.telling.inbox import count_needy

_MOST = 8
# The pages that Find knows, and those of the detector that is found first.
_PAGES = {
    "Inbox": "show_inbox",
    "Detectors": "show_detectors",
    "New detector": "new_detector",
    "Label": "choose_label",
    "Alerts": "show_webhooks",
    "Mail": "show_mail",
    "People": "show_accounts",
    "Keys": "show_settings",
    "Activity": "show_audit",
    "Server": "show_server",
    "Your account": "show_account",
    "Archived detectors": "show_archived",
}
_TABS = {
    "Label": "show_next",
    "Mistakes": "show_mistakes",
    "Slices": "show_slices",
    "Changes": "show_history",
    "Begin an audit": "show_audits",
    "Setup": "edit_detector",
}


class Rail(NamedTuple):
    """What the rail shows of the visitor's own."""

    needy: int
    pinned: Sequence[Detector]


@pages.app_template_global()
def read_rail() -> Rail:
    """Return what is new for the visitor, and what they pinned."""
    with database().read() as session:
        own = session.get_one(Account, account().row)
        pins = [one for one in list_pins(session, own.id) if account().sees(one)]
        pinned = list_detectors(session, among=pins) if pins else []
        return Rail(count_needy(session, own), pinned)


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
    text = request.args.get("q", "").strip()
    with database().read() as session:
        seen = list_detectors(session, among=account().detectors)
        found = [one for one in seen if has_words(one, text)][:_MOST] if text else []
        named = {name: to for name, to in _PAGES.items() if may(to)}
        return render_template(
            "detectors/find.html",
            text=text,
            rows=build_rows(session, found),
            tabs={name: to for name, to in _TABS.items() if may(to)} if found else {},
            places={
                name: url_for(f"pages.{to}")
                for name, to in named.items()
                if text.casefold() in name.casefold()
            },
            queries=list_by_key(session, text, among=account().detectors, limit=_MOST)
            if text and is_storable(text)
            else [],
        )
