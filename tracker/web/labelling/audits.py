"""Audits: the list of them, the form to begin one, and one of them."""

from collections.abc import Mapping
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database, now, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling.auditing.audit_lifecycle import (
    AuditChange,
    extend_audit,
    pause_audit,
    resume_audit,
)
from tracker.services.labelling.auditing.audit_reasons import (
    DRAW_COLUMNS,
    list_draw_rows,
)
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import (
    AuditPlan,
    aimed_of,
    create_audit,
    find_result,
    get_audit,
    plan_audit,
)
from tracker.services.labelling.auditing.schedules import create_schedule
from tracker.services.telling.events import close_audit
from tracker.services.wording import invalid
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling.auditing import audits as storage
from tracker.storage.labelling.auditing.audit_draws import count_draws
from tracker.storage.labelling.auditing.schedules import list_schedules
from tracker.web.blueprint import allow_style, cut_page, pages
from tracker.web.downloads import download
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.labelling.audit_reading import read_audit
from tracker.words import BALANCED

_PAGE = 24
_TEXTS = ("name", "version", "aim", "since", "until", "every")
# Of which queries a forecast is made for those of each span.
_LIKE = {"day": "1d", "week": "7d", "month": "30d"}
_BLANK = {"aim": BALANCED, "points": "3"}


pages.add_app_template_global(aimed_of)


@pages.app_template_global()
def points(share: float) -> str:
    """Return a half-width in points as it was chosen, such as "2.5"."""
    return f"{100 * share:.6g}"


@pages.get("/detectors/<detector_id>/audits")
@requires("viewer")
def show_audits(detector_id: str) -> ResponseReturnValue:
    """Show the audits of a detector, and the form to begin one."""
    with database().read() as session:
        return _render_list(session, detector_id, Form(_BLANK))


@pages.post("/detectors/<detector_id>/audits")
@requires("editor")
def begin_audit(detector_id: str) -> ResponseReturnValue:
    """Begin an audit of the set that was described, or say what it would take."""
    try:
        new = _read_form(request.form)
        if "plan" in request.form:
            with database().read() as session:
                detector = get_open_detector(session, detector_id)
                plan = plan_audit(session, detector, new, at=now())
                return _render_list(session, detector_id, Form(request.form), plan)

        def begin(session: Session) -> str:
            detector = get_open_detector(session, detector_id)
            if new.every:
                made = create_schedule(session, detector, new, by())
                reference = dump_id("sch", made.id)
                return url_for("pages.look_at_schedule", schedule_id=reference)
            reference = dump_id("aud", create_audit(session, detector, new, by()).id)
            return url_for("pages.look_at_audit", audit_id=reference)

        address = database().run(begin)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            form = failed_form(request.form, error)
            return _render_list(session, detector_id, form), 422
    return redirect(address, 303)


def _read_form(typed: Mapping[str, str]) -> NewAudit:
    values: dict[str, Any] = filled_in(typed, *_TEXTS)
    # What it takes can be seen before there is a name.
    if "plan" in typed:
        values.setdefault("name", "audit")
    for name in ("since", "until"):
        if name in values:
            values[name] = f"{values[name]}T00:00:00Z"
    if "plan" in typed and "every" in values:
        values.setdefault("since", _LIKE.get(values.pop("every"), "7d"))
        values.setdefault("version", "*")
    if typed.get("target", "").strip():
        values["target"] = _read_share(typed, "target", "a percentage, such as 90")
    if "every" in values or "target" not in values:
        values["half_width"] = _read_points(typed)
    names = map(str.strip, typed.get("labelers", "").split(","))
    values["labelers"] = [one for one in names if one and "plan" not in typed]
    conditions = typed.get("where", "").splitlines()
    values["where"] = [line.strip() for line in conditions if line.strip()]
    return parse_input(NewAudit, values)


def _read_points(typed: Mapping[str, str]) -> float:
    return _read_share(typed, "points", "a number of points, such as 3")


def _read_share(typed: Mapping[str, str], name: str, what: str) -> float:
    number = typed.get(name, "").strip().replace(",", ".")
    try:
        return float(number) / 100.0
    except ValueError:
        raise invalid(name, number, f"it must be {what}") from None


def _render_list(
    session: Session, detector_id: str, form: Form, plan: AuditPlan | None = None
) -> str:
    detector = get_detector(session, detector_id)
    before = parse_id("aud", request.args.get("before", ""))
    found = storage.list_audits(session, detector.id, before=before, limit=_PAGE + 1)
    audits, last = cut_page(found, _PAGE)
    counts = count_draws(session, [audit.id for audit in audits])
    return render_template(
        "audits/list.html",
        detector=detector,
        audits=audits,
        results={audit.id: find_result(audit) for audit in audits},
        counts=counts,
        schedules=list_schedules(session, detector.id) if before is None else (),
        last=last,
        is_first=before is None,
        form=form,
        plan=plan,
    )


@pages.get("/audits/<audit_id>")
@requires("viewer")
def look_at_audit(audit_id: str) -> ResponseReturnValue:
    """Show what an audit says of its set, and how far it is."""
    with database().read() as session:
        return _render_audit(session, audit_id, Form({}))


def _render_audit(session: Session, audit_id: str, form: Form) -> str:
    audit = get_audit(session, audit_id)
    return render_template(
        "audits/audit.html",
        detector=session.get_one(Detector, audit.detector_id),
        audit=audit,
        read=read_audit(session, audit, at=now()),
        result=find_result(audit),
        extensions=storage.list_extensions(session, audit.id),
        form=form,
    )


@pages.get("/audits/<audit_id>/report")
@requires("viewer")
def show_audit_report(audit_id: str) -> ResponseReturnValue:
    """Show all that is to be known of an audit on a page to print or to keep."""
    style = render_template("audits/_report_style.html")
    with database().read() as session:
        audit = get_audit(session, audit_id)
        page = render_template(
            "audits/report.html",
            detector=session.get_one(Detector, audit.detector_id),
            audit=audit,
            read=read_audit(session, audit, at=now()),
            result=find_result(audit),
            extensions=storage.list_extensions(session, audit.id),
            style=style,
            at=now(),
        )
    answer = Response(page.lstrip())
    # The page carries its style, so that it is whole where it is kept.
    answer.headers["Content-Security-Policy"] = (
        f"default-src 'none'; {allow_style(style)}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    return answer


@pages.get("/audits/<audit_id>/draws.<suffix>")
@requires("viewer")
def download_audit_draws(audit_id: str, suffix: str) -> Response:
    """Give the draws of an audit with their chances as a file."""
    with database().read() as session:
        get_audit(session, audit_id)
    return download(
        audit_id,
        "draws",
        suffix,
        DRAW_COLUMNS,
        lambda session: list_draw_rows(session, get_audit(session, audit_id))[1],
    )


@pages.post("/audits/<audit_id>/extend")
@requires("editor")
def narrow_audit(audit_id: str) -> ResponseReturnValue:
    """Give an audit a narrower aim."""
    try:
        width = _read_points(request.form)
        change = parse_input(AuditChange, {"half_width": width})
        database().run(
            lambda session: extend_audit(
                session, get_audit(session, audit_id), change, by()
            )
        )
    except InvalidInputError as error:
        messages = [wrong.message for wrong in error.errors]
        with database().read() as session:
            form = Form(request.form, {"points": messages})
            return _render_audit(session, audit_id, form), 422
    return redirect(url_for("pages.look_at_audit", audit_id=audit_id), 303)


_CHANGES = {"pause": pause_audit, "resume": resume_audit, "close": close_audit}


@pages.post("/audits/<audit_id>/pause", defaults={"change": "pause"})
@pages.post("/audits/<audit_id>/resume", defaults={"change": "resume"})
@pages.post("/audits/<audit_id>/close", defaults={"change": "close"})
@requires("editor")
def change_audit(audit_id: str, change: str) -> ResponseReturnValue:
    """Pause an audit, go on with it, or close it."""
    do = _CHANGES[change]
    try:
        database().run(lambda session: do(session, get_audit(session, audit_id), by()))
    except ConflictError as error:
        flash(f"Nothing was changed: {error}.")
    return redirect(url_for("pages.look_at_audit", audit_id=audit_id), 303)
