"""The audit log: who did what, when and from where."""

from collections.abc import Iterable

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.fields import Input, LabelText, parse_input
from tracker.services.people.audit import COLUMNS, iter_rows
from tracker.storage.base import parse_whole
from tracker.storage.people import list_doings, list_events
from tracker.web.blueprint import cut_page, pages
from tracker.web.downloads import download
from tracker.web.forms import filled_in

_PAGE = 50


class _Asked(Input):
    """Which events to show."""

    who: LabelText | None = None
    what: LabelText | None = None


@pages.get("/activity")
@requires("admin")
def show_audit() -> ResponseReturnValue:
    """Show the audit log, newest first, of everyone or of one actor."""
    before = parse_whole(request.args.get("before", ""))
    asked = parse_input(_Asked, filled_in(request.args, "who", "what"))
    with database().read() as session:
        found = list_events(
            session, actor=asked.who, action=asked.what, before=before, limit=_PAGE + 1
        )
        events, last = cut_page(found, _PAGE)
        doings = list_doings(session)
        return render_template(
            "accounts/audit.html",
            events=events,
            last=last,
            is_first=before is None,
            asked=asked.model_dump(exclude_none=True),
            people=_choices(asked.who, (who for who, _ in doings)),
            actions=_choices(asked.what, (what for _, what in doings)),
        )


def _choices(asked: str | None, known: Iterable[str]) -> list[str]:
    # What was asked for stays chosen, though it was long ago.
    return sorted({*known, *([asked] if asked else [])})


@pages.get("/activity.<suffix>")
@requires("admin")
def download_audit(suffix: str) -> ResponseReturnValue:
    """Give the whole log as a file."""
    return download("audit", "log", suffix, COLUMNS, iter_rows)
