"""Audits: the list of them, the form to begin one, and one of them with its report."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from flask import Response, flash, jsonify, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import interval
from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, database, find_comparison, now
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.decision import compare_with_target
from tracker.services.estimates.report import counting_the_same, right_how_often
from tracker.services.evidence.measure import read_measure
from tracker.services.fields import parse_input
from tracker.services.labelling.auditing import audit_draws, audit_estimates
from tracker.services.labelling.auditing.audit_estimates import expected_in_all
from tracker.services.labelling.auditing.audit_lifecycle import (
    AuditChange,
    create_schedule,
    extend_audit,
    pause_audit,
)
from tracker.services.labelling.auditing.audit_sets import JUDGE, NewAudit
from tracker.services.labelling.auditing.audits import (
    AuditPlan,
    aimed_of,
    create_audit,
    find_result,
    get_audit,
    goal_of,
    measure_of,
    plan_audit,
)
from tracker.services.telling.events import close_audit
from tracker.services.telling.webhooks import list_seen_webhooks, name_place
from tracker.services.wording import invalid
from tracker.shapes import Accuracy
from tracker.stats import MISSING, OPEN, Step
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector, zone_of
from tracker.storage.estimates.cells import day_in, midnight_in
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit
from tracker.storage.telling import list_told
from tracker.web.blueprint import allow_style, cut_page, lead_to, page, pages
from tracker.web.downloads import download
from tracker.web.drawing import readings as drawing
from tracker.web.drawing.closing import draw_closing
from tracker.web.drawing.words import day, exactly
from tracker.web.forms import Form, failed_form, filled_in, parse_day, parse_percent
from tracker.words import BALANCED, EDITOR, PRECISION

# A difference of fewer of the labels is within the luck of a simulation.
_LEAST_GAIN = 0.15


def _read(session: Session, audit: Audit, *, at: datetime) -> dict[str, Any]:
    """Return what an audit says, how it got there, and what random labels would say."""
    record = audit_draws.load_record(session, audit)
    found = audit_estimates.build_audit_estimate(session, record, at)
    history = audit_estimates.build_history(record, computed_at=at)
    readings = [drawing.read_balanced(found), *drawing.read_classes(found)]
    if (audit.aim or "").startswith(PRECISION):
        # Of one prediction alone the accuracies of classes mean nothing.
        readings = [read_aimed(audit, found)]
    comparison, used = find_comparison(record), found.labels_used
    aims = [(point.draws, aimed_of(audit, point)) for point in history]
    # The last of those after as many draws is the narrowest.
    steps = [*{draws: Step(draws, one.low, one.high) for draws, one in aims}.values()]
    # Before it has its answer, why a query was drawn is a secret.
    reasons = audit_draws.iter_reasons(record)
    answered = [one for one in reasons if one.draw.label is not None]
    reason = answered[-1] if answered else None
    at_random = comparison.half_width_at_random(used, found.half_width)
    score = aimed_of(audit, found)
    middle = (score.low + score.high) / 2.0
    step = Step(used, middle - at_random, middle + at_random)
    needed = expected_in_all(audit, record.drawable, step, at_random=True)
    is_open = audit.closed_at is None and not found.is_reached
    ledger = record.ledger
    before = ledger.labels[: ledger.rounds[-1].start]
    shown = {0, len(history) // 2, len(history) - 1}
    expected = used + found.labels_left
    closing = draw_closing(
        steps,
        comparison.at_random(steps),
        goal_of(audit),
        expected=expected if is_open else None,
        at_random=needed if is_open else None,
    )
    return _weigh(found, comparison) | {
        "found": found,
        "readings": readings,
        "history": history,
        # What was foreseen at the beginning, on the way, and now.
        "forecasts": [history[place] for place in sorted(shown)],
        "closing": closing,
        "verdict": judge(score, audit.target),
        "drawable": record.drawable,
        "left_at_random": max(0, needed - used),
        "half_width_at_random": at_random,
        "reason": reason,
        "verdicts": _read_verdicts(audit, record, reason),
        "labelers": storage.count_labelers(session, audit),
        # Whether labels went into what random ones would have given.
        "is_learnt": bool(ledger.known[-1].any() or (before != OPEN).any()),
    }


def _weigh(
    found: audit_estimates.SetEstimate, comparison: audit_estimates.Comparison
) -> dict[str, Any]:
    """Return what choosing and judges are expected to have saved, None for too few."""
    used = found.labels_used
    saved, by_judges = comparison.labels_saved(used), comparison.saved_by_judges(used)
    # Clearly more random labels would be needed to know as much.
    is_seen = saved is not None and saved >= _LEAST_GAIN * used
    return {
        "labels_saved": saved,
        "saved_by_judges": by_judges,
        "is_choice_seen": is_seen,
        "is_choice_idle": saved is not None and not is_seen,
        "are_judges_idle": (by_judges or 0) < _LEAST_GAIN * used,
        # As many random labels would be expected to give as narrow an interval.
        "worth": used + (saved or 0),
    }


def _read_verdicts(
    audit: Audit, record: audit_draws.Record, reason: audit_draws.Reason | None
) -> list[tuple[str, str]]:
    # Of votes nobody knows whose they are.
    verdicts = record.ledger.strata.verdicts
    judges = [one[len(JUDGE) :] for one in audit.uses if one.startswith(JUDGE)]
    if reason is None or len(judges) > verdicts.shape[1] or (verdicts < MISSING).any():
        return []
    pairs = zip(judges, verdicts[reason.draw.stratum].tolist(), strict=True)
    return [(name, audit.classes[place]) for name, place in pairs if place >= 0]


def read_aimed(audit: Audit, found: audit_estimates.SetEstimate) -> drawing.Reading:
    if audit.aim is None:
        return drawing.read_balanced(found)
    if audit.aim in audit.classes:
        return drawing.read_classes(found)[audit.classes.index(audit.aim)]
    name = audit.aim.partition(":")[0].capitalize()
    return drawing.read(found.overall, name=name, tone=0)


_PAGE = 24
_TEXTS = ("name", "version", "aim", "since", "until", "every")
# Of which queries a forecast is made for those of each span.
_LIKE = {"day": "1d", "week": "7d", "month": "30d"}
_BLANK = {"aim": BALANCED, "points": "3"}


pages.add_app_template_global(aimed_of)


@pages.app_template_global()
def judge(found: Accuracy, target: float | None) -> str:
    """Return whether a target is met, missed or not decided, "none" without one."""
    if target is None:
        return "none"
    return compare_with_target(found.low, found.high, target)


@pages.app_template_global()
def say_audit(audit: Audit, found: Accuracy, of: str = "") -> str:
    """Return how often it is right in the set of *audit*, without a full stop.

    *of* are the first words for a set that is past.
    """
    measure = read_measure(measure_of(audit))
    said = right_how_often(measure, interval(found, beside=audit.target))
    if of:
        said = said.replace("it is right", "it was right", 1)
    first = of or f"On these {audit.queries:,} queries"
    if measure.kind == BALANCED:
        said += f", {counting_the_same(audit.classes)}"
    return f"{first}{',' if measure.of else ''} {said}"


@pages.app_template_global()
def points(share: float) -> str:
    """Return a half-width in points as it was chosen, such as "2.5"."""
    return f"{100 * share:.6g}"


@page("GET /detectors/<detector_id>/audits", "viewer")
def show_audits(detector_id: str) -> ResponseReturnValue:
    with database().read() as session:
        aim = filled_in(request.args, "aim")
        return _render_list(session, detector_id, Form(_BLANK | aim))


@page("POST /detectors/<detector_id>/audits", "editor")
def begin_audit(detector_id: str) -> ResponseReturnValue:
    """Begin an audit of the set that was described, or say what it would take."""
    try:
        with database().read() as session:
            new = _read_form(get_open_detector(session, detector_id), request.form)
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


def _read_form(detector: Detector, typed: Mapping[str, str]) -> NewAudit:
    values: dict[str, Any] = filled_in(typed, *_TEXTS)
    values.setdefault("name", f"Audit of {now():%Y-%m-%d %H:%M:%S}")
    for name in ("since", "until"):
        if name in values:
            values[name] = parse_day(name, values[name], detector.zone)
    if "plan" in typed and "every" in values:
        values.setdefault("since", _LIKE.get(values.pop("every"), "7d"))
        values.setdefault("version", "*")
    if typed.get("target", "").strip():
        values["target"] = read_share(typed, "target")
    if "every" in values or "target" not in values:
        values["half_width"] = read_share(typed)
    values["labelers"] = [] if "plan" in typed else read_names(typed)
    conditions = typed.get("where", "").splitlines()
    values["where"] = [line.strip() for line in conditions if line.strip()]
    return parse_input(NewAudit, values)


def read_names(typed: Mapping[str, str]) -> list[str]:
    names = map(str.strip, typed.get("labelers", "").split(","))
    return [one for one in names if one]


def read_share(typed: Mapping[str, str], name: str = "points") -> float:
    """Return a number in hundredths; raises InvalidInputError."""
    points = "a number of points, such as 3"
    what = points if name == "points" else "a percentage, such as 90"
    text = typed.get(name, "").strip()
    share = parse_percent(text)
    if isinstance(share, float):
        return share
    raise invalid(name, text, f"it must be {what}")


def _render_list(
    session: Session, detector_id: str, form: Form, plan: AuditPlan | None = None
) -> str:
    detector = get_detector(session, detector_id)
    before = parse_id("aud", request.args.get("before", ""))
    found = storage.list_audits(session, detector.id, before=before, limit=_PAGE + 1)
    audits, last = cut_page(found, _PAGE)
    schedules = () if before else storage.list_schedules(session, detector.id)
    return render_template(
        "audits/list.html",
        detector=detector,
        audits=audits,
        results={audit.id: find_result(audit) for audit in audits},
        counts=storage.count_draws(session, audits),
        schedules=schedules,
        last=last,
        is_first=before is None,
        form=form,
        plan=plan,
    )


@page("GET /audits/<audit_id>", "viewer")
def look_at_audit(audit_id: str, failed: Form | None = None) -> str:
    with database().read() as session:
        about = _read_about(session, audit_id)
        return render_template("audits/audit.html", form=failed or Form({}), **about)


def _read_about(session: Session, audit_id: str) -> dict[str, Any]:
    audit = get_audit(session, audit_id)
    detector = session.get_one(Detector, audit.detector_id)
    is_scheduled = audit.schedule_id is not None
    days_of = storage.find_schedule(session, audit) if is_scheduled else detector
    zone, span, has_days = zone_of(days_of.time_zone), "", False
    for word, at in (("from", audit.since), ("before", audit.until)):
        if at is not None:
            one = day_in(at, zone)
            is_day = midnight_in(one, zone) == at
            span += f", {word} {day(one) if is_day else exactly(at)}"
            has_days = has_days or is_day
    # Only editors see to whom something was told: to which webhooks, and by mail.
    who, names = account(), {}
    if who.may(EDITOR):
        names = {one.id: name_place(one) for one in list_seen_webhooks(session, who)}
    told = {
        event: [
            (f"{to} by mail" if isinstance(to, str) else names[to], state)
            for to, state in sent
            if to in names or (isinstance(to, str) and who.may(EDITOR))
        ]
        for event, sent in list_told(
            session, audit.detector_id, dump_id("aud", audit.id)
        ).items()
    }
    return {
        "detector": detector,
        "audit": audit,
        "set_span": f"{span} ({days_of.time_zone})" if has_days else span,
        "read": _read(session, audit, at=now()),
        "result": find_result(audit),
        "extensions": storage.list_extensions(session, audit),
        "told": told,
    }


@page("GET /audits/<audit_id>/report", "viewer")
def show_audit_report(audit_id: str) -> ResponseReturnValue:
    """Show all that is to be known of an audit on a page to print or to keep."""
    style = render_template("audits/_report_style.html")
    with database().read() as session:
        about = _read_about(session, audit_id)
        page = render_template("audits/report.html", style=style, at=now(), **about)
    answer = Response(page.lstrip())
    # The page carries its style, so that it is whole where it is kept.
    answer.headers["Content-Security-Policy"] = (
        f"default-src 'none'; {allow_style(style)}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )
    return answer


@page("GET /audits/<audit_id>/draws.<suffix>", "viewer")
def download_audit_draws(audit_id: str, suffix: str) -> Response:
    """Give the draws of an audit with their chances as a file."""
    with database().read() as session:
        get_audit(session, audit_id)
    return download(
        audit_id,
        "draws",
        suffix,
        audit_draws.DRAW_COLUMNS,
        lambda session: audit_draws.list_draw_rows(
            session, get_audit(session, audit_id)
        ),
    )


@page("GET /audits/<audit_id>/record.json", "viewer")
def download_audit_record(audit_id: str) -> Response:
    """Give all that the intervals of an audit follow from as a file."""
    with database().read() as session:
        found = audit_draws.get_audit_record(
            session, get_audit(session, audit_id)
        ).dump()
    response, name = jsonify(found), f"tracker-{audit_id}-record.json"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    with database().write() as session:
        by().record(session, "exported", name)
    return response


@page("POST /audits/<audit_id>/extend", "editor")
def narrow_audit(audit_id: str) -> ResponseReturnValue:
    """Give an audit a narrower aim."""
    try:
        width = read_share(request.form)
        change = parse_input(AuditChange, {"half_width": width})
        database().run(
            lambda session: extend_audit(
                session, get_audit(session, audit_id), change, by()
            )
        )
    except InvalidInputError as error:
        messages = [wrong.message for wrong in error.errors]
        return look_at_audit(audit_id, Form(request.form, {"points": messages})), 422
    return lead_to("look_at_audit", audit_id=audit_id)


_CHANGES: Mapping[str, Callable[..., Audit]] = {
    "pause": pause_audit,
    "resume": partial(pause_audit, is_paused=False),
    "close": close_audit,
}


@page("POST /audits/<audit_id>/<any(pause, resume, close):change>", "editor")
def change_audit(audit_id: str, change: str) -> ResponseReturnValue:
    """Pause an audit, go on with it, or close it."""
    do = _CHANGES[change]
    try:
        database().run(lambda session: do(session, get_audit(session, audit_id), by()))
    except ConflictError as error:
        flash(f"Nothing was changed: {error}.")
    return lead_to("look_at_audit", audit_id=audit_id)
