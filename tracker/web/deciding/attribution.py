"""What moved a judged rate: the system, the judge or the mix, and a form to ask."""

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

from flask import Response, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.http import by, database, now
from tracker.services.deciding import attribution
from tracker.services.deciding.pairs import Change
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.exports import Rows
from tracker.services.fields import parse_input
from tracker.services.wording import invalid
from tracker.storage.base import parse_whole
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.labelling.labelers import list_judges
from tracker.web.blueprint import lead_to, page, reading
from tracker.web.downloads import download
from tracker.web.drawing.differences import Bar, build_axis, draw_change
from tracker.web.drawing.words import narrow
from tracker.web.forms import Form, failed_form, filled_in, parse_day

# The days of the week then and of the week now, and who answered in it.
_WEEKS = (
    ("since", "until", "old_version", "old_judge"),
    ("now_since", "now_until", "new_version", "new_judge"),
)
_DAYS = [name for week in _WEEKS for name in week[:2]]
_WHO = [name for week in _WEEKS for name in week[2:]]
_COLUMNS = ["query", "input", "times", "needs"]


@page("GET /detectors/<detector_id>/attribution", "viewer")
def show_attribution(detector_id: str) -> ResponseReturnValue:
    """Show the weeks in the address, else the newest, and who answered in them."""
    with reading(detector_id) as (session, detector):
        found = {"anchors": "400"} | filled_in(request.args, *_DAYS)
        for week, days in zip(
            _WEEKS[::-1],
            attribution.propose_weeks(session, detector, now())[::-1],
            strict=False,
        ):
            if not found.keys() & {*week[:2]}:
                found |= zip(week, map(date.isoformat, days), strict=False)
        for since, until, *who in _WEEKS:
            if {since, until} <= found.keys():
                zone = detector.zone
                span = (parse_day(one, found[one], zone) for one in (since, until))
                answering = attribution.find_answering(session, detector, *span)
                found |= zip(who, answering or (), strict=False)
        return _render(session, detector, Form(found))


@page("POST /detectors/<detector_id>/attribution", "editor")
def start_investigation(detector_id: str) -> ResponseReturnValue:
    def begin(session: Session) -> None:
        detector = get_open_detector(session, detector_id)
        new = parse_input(
            attribution.NewInvestigation, _read_form(detector, request.form)
        )
        attribution.begin_investigation(session, detector, new, by())

    try:
        database().run(begin)
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="since")
        with reading(detector_id) as (session, detector):
            return _render(session, detector, form), 422
    return lead_to("show_attribution", detector_id=detector_id)


@page("GET /detectors/<detector_id>/attribution/anchors.<suffix>", "viewer")
def download_anchors(detector_id: str, suffix: str) -> Response:
    number = _read_number()

    def rows(session: Session) -> Rows:
        found = attribution.list_anchors(
            session, get_detector(session, detector_id), number
        )
        return [one.dump() | {"needs": ", ".join(one.needs)} for one in found.items]

    with reading(detector_id) as (session, detector):
        attribution.get_attribution(session, detector, number)
    return download(detector_id, "anchors", suffix, _COLUMNS, rows)


def _read_number() -> int | None:
    text = request.args.get("number", "")
    number = parse_whole(text)
    if text and number is None:
        raise invalid("number", text, "it must be a whole number")
    return number


def _read_form(detector: Detector, typed: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = filled_in(typed, *_DAYS, *_WHO, "anchors")
    for name in {*_DAYS} & values.keys():
        values[name] = parse_day(name, values[name], detector.zone).isoformat()
    if "anchors" in values:
        values["anchors"] = parse_whole(values["anchors"])
    return values


def _render(session: Session, detector: Detector, form: Form) -> str:
    found, anchors, number = None, list[attribution.Anchor](), _read_number()
    try:
        found = attribution.get_attribution(session, detector, number)
        anchors = attribution.list_anchors(session, detector, number).items
    except NotFoundError:
        if number is not None:
            raise
    rows: list[tuple[Bar, attribution.Shift]] = []
    if found is not None:
        # That of the system is the truth; what the judge sees of it is told beside.
        shifts = {"System": found.truth, "Judge": found.judge, "Mix": found.mix}
        rows = [(_draw_shift(name, one), one) for name, one in shifts.items()]
    versions = list_versions(session, detector.id)
    return render_template(
        "history/attribution.html",
        detector=detector,
        found=found,
        says=None if found is None else narrow(found.says),
        rows=rows,
        axis=build_axis([bar for bar, _ in rows]) if rows else None,
        judged=None if found is None else _draw_shift("System", found.system),
        needs=Counter(need for one in anchors for need in one.needs),
        distinct=len(anchors),
        versions=[(one.name, one.name) for one in versions[::-1]],
        judges=[(one, one) for one in list_judges(session, detector.id)],
        form=form,
    )


def _draw_shift(name: str, shift: attribution.Shift) -> Bar:
    change = Change(difference=shift.difference, low=shift.low, high=shift.high)
    return draw_change(change, name, 0)
