"""What was done, by whom, when and from where."""

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.audit import COLUMNS, iter_rows
from tracker.storage.audit import list_events
from tracker.web.blueprint import cut_page, pages
from tracker.web.downloads import download

_PAGE = 50


@pages.get("/settings/audit")
@requires("admin")
def show_audit() -> ResponseReturnValue:
    """Show what was done, the newest first."""
    before = request.args.get("before", type=int)
    with database().read() as session:
        found = list_events(session, before=before, limit=_PAGE + 1)
        events, last = cut_page(found, _PAGE)
        return render_template(
            "accounts/audit.html", events=events, last=last, is_first=before is None
        )


@pages.get("/settings/audit.<suffix>")
@requires("admin")
def download_audit(suffix: str) -> ResponseReturnValue:
    """Give the whole log as a file."""
    return download("audit", "log", suffix, COLUMNS, iter_rows)
