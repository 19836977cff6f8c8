"""The list of the detectors, those that need a look first, and the first use."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime

from flask import (
    Response,
    current_app,
    flash,
    redirect,
    render_template,
    request,
    url_for,
)
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.http import account, by, database, now
from tracker.services.estimates.report import Report, Reports
from tracker.services.fields import is_storable, parse_input
from tracker.services.people.keys import renew_logger_key
from tracker.services.people.own import OwnChange, change_own, get_own
from tracker.services.versions import choose_default_versions
from tracker.storage.base import count_rows, dump_id, list_detector_ids
from tracker.storage.detectors import (
    Detector,
    are_archived,
    find_version,
    list_detectors,
    list_owned_ids,
)
from tracker.storage.people import Account, Pin
from tracker.web.blueprint import Sort, lead_to, page, pages, session_of, sort_rows
from tracker.web.drawing.readings import Axis
from tracker.words import STATES

_PAGE = 50
MINE = "mine"
EXTENSION = "tracker-reports"
_LONG_AGO = datetime.min.replace(tzinfo=UTC)

SORTS = {
    "name": Sort("Detector", lambda row: row.detector.name.casefold()),
    "verdict": Sort("Verdict", lambda row: row.urgency),
    "right": Sort("right", lambda row: row.interval.low),
    "labels": Sort("labels", lambda row: row.estimate.labels, is_down=True),
    "last": Sort(
        "last label", lambda row: row.estimate.last_label_at or _LONG_AGO, is_down=True
    ),
}


@page("GET /", "viewer")
def show_detectors() -> ResponseReturnValue:
    asked = request.args
    text = asked.get("q", "").strip()
    page = max(asked.get("page", 1, type=int), 1)
    with database().read() as session:
        detectors = list_detectors(session, among=account().detectors)
        rows = sorted(list_reports(session, detectors), key=SORTS["name"].key)
        tag, owner = asked.get("tag", ""), asked.get("owner", "")
        found = [
            row
            for row in rows
            if has_words(row.detector, text)
            and (not tag or tag in row.detector.tags)
            and (not owner or owner == row.detector.owner)
        ]
        counts = Counter(row.state for row in found)
        own = list_own(session)
        mine = [row for row in found if row.detector.id in own]
        chosen, sort = asked.get("state", ""), asked.get("sort", "")
        if chosen == MINE:
            found = mine
        elif chosen in STATES:
            found = [row for row in found if row.state == chosen]
        sort_rows(found, SORTS, sort, usual=lambda row: row.urgency)
        needy = sum(row.is_needy for row in found)
        groups = {"needy": needy, "fine": len(found) - needy}
        return render_template(
            "detectors/list.html",
            total=len(rows),
            rows=found[_PAGE * (page - 1) : _PAGE * page],
            matching=len(found),
            first=_PAGE * (page - 1) + 1,
            page=page,
            last=-(-len(found) // _PAGE),
            counts=counts,
            groups={} if sort.lstrip("-") in SORTS else groups,
            chosen=chosen if chosen in {MINE, *STATES} else None,
            sort=sort,
            sorts=SORTS,
            levels=sorted({row.detector.confidence_level for row in rows}),
            text=text,
            mine=len(mine),
            tag=tag,
            tags=sorted({one for row in rows for one in row.detector.tags} | {tag}),
            owner=owner,
            owners=sorted({row.detector.owner or "" for row in rows} | {owner, ""}),
            views=session.get_one(Account, account().row).views,
            axis=Axis(0.5),
            archived=count_rows(session, Detector, *are_archived(account().detectors)),
        )


@page("POST /views", "viewer")
def save_view() -> ResponseReturnValue:
    """Save the filters of the list under a name, or forget those of that name."""
    name, query = request.form.get("name", "").strip(), request.form.get("query", "")
    try:
        with database().write() as session:
            own = get_own(session, by())
            views = dict(own.views)
            views.pop(name, None)
            if "forget" not in request.form:
                views[name] = query
            named = [{"name": one, "query": text} for one, text in views.items()]
            change_own(session, own, parse_input(OwnChange, {"views": named}), by())
    except InvalidInputError as error:
        flash(f"The view was not saved: {error.errors[0].message}.")
    return redirect(f"{url_for('pages.show_detectors')}?{query}", 303)


def list_own(session: Session) -> set[int]:
    """Return the detectors that the visitor owns or has pinned, and sees."""
    pinned = list_detector_ids(session, Pin, account_id=account().row)
    owned = list_owned_ids(session, account().name)
    return set(filter(account().sees, [*owned, *pinned]))


def has_words(detector: Detector, text: str) -> bool:
    return text.casefold() in f"{detector.name}\n{detector.question}".casefold()


def list_reports(session: Session, detectors: Sequence[Detector]) -> list[Report]:
    """Return the reports of *detectors*, of the versions that they show."""
    return _reports().list(session, detectors, at=now())


@pages.app_template_global()
def count_mistakes(detector: Detector, version: str | None) -> tuple[int, date | None]:
    """Return the number of mistakes that the shown estimate counts, and since when."""
    with session_of(detector) as session:
        name = version if version and is_storable(version) else ""
        named = find_version(session, detector.id, name) if name else None
        shown = named or choose_default_versions(session, [detector]).get(detector.id)
        found = _reports().estimate(session, {detector: shown}, at=now())
    row = Report(detector, found[detector.id], 0)
    return row.mistakes, row.since


def _reports() -> Reports:
    reports = current_app.extensions[EXTENSION]
    assert isinstance(reports, Reports)
    return reports


_FIRST_KEY = "first key"


@page("GET /begin", "viewer")
def show_beginning() -> ResponseReturnValue:
    """Say nothing while there is no detector, and lead to the first one after."""
    with database().read() as session:
        found = list_detectors(session, limit=1, among=account().detectors)
    if not found:
        return Response(status=204)
    here = url_for("pages.show_detector", detector_id=dump_id("det", found[0].id))
    return Response(status=200, headers={"HX-Redirect": here})


@page("POST /begin", "admin")
def make_first_key() -> ResponseReturnValue:
    """Make a key and show it inside of the commands, this once.

    One that was made here before is of no use any more.
    """
    with database().write() as session:
        if list_detectors(session, limit=1):
            return lead_to("show_detectors")
        key = renew_logger_key(session, _FIRST_KEY, by())
    # Not a redirect: the key would have to be kept somewhere on the way.
    return render_template("detectors/list.html", total=0, archived=0, new_key=key)
