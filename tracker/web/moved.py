"""Addresses that pages had before: each leads to where its page is now."""

from typing import Any

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.web.blueprint import pages

_OF_DETECTORS = {
    "history": "show_history",
    "plan": "show_plan",
    "settings": "edit_detector",
}
_OF_WORKSPACE = {
    "/settings": "show_settings",
    "/settings/accounts": "show_accounts",
    "/settings/audit": "show_audit",
    "/webhooks": "show_webhooks",
}


def _lead_to(endpoint: str, **values: Any) -> ResponseReturnValue:
    # With the version and every filter.
    asked = request.args.to_dict(flat=False)
    return redirect(url_for(f"pages.{endpoint}", **{**asked, **values}), 301)


@pages.get("/detectors/<detector_id>/<any(history, plan, settings):moved>")
@requires("viewer")
def find_moved_page(detector_id: str, moved: str) -> ResponseReturnValue:
    """Redirect an old address of a page of a detector."""
    with database().read() as session:
        get_detector(session, detector_id)
    return _lead_to(_OF_DETECTORS[moved], detector_id=detector_id)


@pages.get("/settings")
@pages.get("/settings/accounts")
@pages.get("/settings/audit")
@pages.get("/webhooks")
@requires("viewer")
def find_moved_settings() -> ResponseReturnValue:
    """Redirect an old address of a page of the workspace."""
    return _lead_to(_OF_WORKSPACE[request.path])
