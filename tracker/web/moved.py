"""Addresses that pages had before: each leads to where its page is now."""

from typing import Any

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.web.blueprint import pages

_MOVED = {
    "/detectors": "show_detectors",
    "/detectors/<detector_id>/history": "show_history",
    "/detectors/<detector_id>/weeks": "show_history",
    "/detectors/<detector_id>/compare": "show_history",
    "/detectors/<detector_id>/plan": "show_plan",
    "/detectors/<detector_id>/settings": "edit_detector",
    "/settings": "show_settings",
    "/settings/accounts": "show_accounts",
    "/settings/accounts/<int:account_id>": "edit_account",
    "/settings/audit": "show_audit_log",
    "/settings/audit.<suffix>": "download_audit_log",
    "/webhooks": "show_webhooks",
    "/webhooks/<webhook_id>": "show_webhook",
}


@requires("viewer")
def find_moved_page(**names: Any) -> ResponseReturnValue:
    """Redirect an old address of a page, with the version and every filter."""
    if "detector_id" in names:
        with database().read() as session:
            get_detector(session, names["detector_id"])
    asked = request.args.to_dict(flat=False) | names
    endpoint = _MOVED[str(request.url_rule)]
    return redirect(url_for(f"pages.{endpoint}", **asked), 301)


for _address in _MOVED:
    pages.get(_address)(find_moved_page)
