"""Audits: the list of them, the form to begin one, and one of them with its report."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database, find_comparison, now, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling.auditing.audit_draws import Record, load_record, look_at
from tracker.services.labelling.auditing.audit_estimates import (
    DRAW_COLUMNS,
    AuditMoment,
    Reason,
    SetEstimate,
    build_audit_estimate,
    build_history,
    expected_in_all,
    find_last_reason,
    list_draw_rows,
)
from tracker.services.labelling.auditing.audit_lifecycle import (
    AuditChange,
    extend_audit,
    pause_audit,
    resume_audit,
)
from tracker.services.labelling.auditing.audit_sets import JUDGE, NewAudit
from tracker.services.labelling.auditing.audits import (
    AuditPlan,
    aimed_of,
    create_audit,
    find_result,
    get_audit,
    goal_of,
    plan_audit,
)
from tracker.services.labelling.auditing.schedules import create_schedule
from tracker.services.telling.events import close_audit
from tracker.services.wording import invalid
from tracker.stats import MISSING, OPEN, Goal, Step
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audit_draws import count_draws, count_labelers
from tracker.storage.labelling.audits import Audit, list_schedules
from tracker.web.blueprint import allow_style, cut_page, pages
from tracker.web.downloads import download
from tracker.web.drawing.readings import (
    Axis,
    Reading,
    build_axis,
    read,
    read_balanced,
    read_classes,
)
from tracker.web.drawing.words import narrow, number
from tracker.web.forms import Form, failed_form, filled_in
from tracker.words import BALANCED, PRECISION

# Of the width and of the height, in percent; the numbers of the axes are around.
_LEFT, _RIGHT, _TOP, _BOTTOM = 9.0, 98.0, 4.0, 90.0
_STEPS = (1, 2, 5)
_ROOM = 0.05


@dataclass(frozen=True, slots=True)
class Mark:
    """A number at an axis."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line, its ends as SVG lengths."""

    x1: str
    y1: str
    x2: str
    y2: str


@dataclass(frozen=True, slots=True)
class Block:
    """What lies between the bounds from one step to the next."""

    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Bracket:
    """The goal, where it is expected to be reached."""

    x: str
    low: str
    high: str
    # Where its words stand, and on which side of it.
    words_at: str
    is_left: bool
    labels: int


@dataclass(frozen=True, slots=True)
class Closing:
    """All that is drawn."""

    shares: Sequence[Mark]
    labels: Sequence[Mark]
    blocks: Sequence[Block]
    bounds: Sequence[Line]
    ghost: Sequence[Line]
    now: str
    labels_now: int
    is_now_left: bool
    goal: Bracket | None
    at_random: Bracket | None
    target: str | None
    is_cut_off: bool


@dataclass(frozen=True, slots=True)
class _Plane:
    most: int
    low: float

    def x(self, labels: float) -> str:
        return f"{self._x(labels):.2f}%"

    def _x(self, labels: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, labels / self.most)

    def y(self, share: float) -> str:
        return f"{self._y(share):.2f}%"

    def _y(self, share: float) -> float:
        part = (1.0 - max(share, self.low)) / (1.0 - self.low)
        return _TOP + (_BOTTOM - _TOP) * part

    def lines(self, steps: Sequence[Step]) -> list[Line]:
        """Return both bounds as steps."""
        found = []
        for one, following in pairwise(steps):
            x1, x2 = self.x(one.labels), self.x(following.labels)
            for y, then in (
                (self.y(one.low), self.y(following.low)),
                (self.y(one.high), self.y(following.high)),
            ):
                found.append(Line(x1, y, x2, y))
                found.append(Line(x2, y, x2, then))
        return found

    def blocks(self, steps: Sequence[Step]) -> list[Block]:
        """Return what lies between the bounds."""
        return [
            Block(
                x=self.x(one.labels),
                y=self.y(one.high),
                width=f"{self._x(following.labels) - self._x(one.labels):.2f}%",
                height=f"{self._y(one.low) - self._y(one.high):.2f}%",
            )
            for one, following in pairwise(steps)
        ]

    def bracket(self, labels: int, centre: float, half_width: float) -> Bracket:
        """Return the goal at its label, within what an accuracy can be."""
        centre = min(max(centre, half_width), 1.0 - half_width)
        is_left = labels > 0.6 * self.most
        return Bracket(
            x=self.x(labels),
            low=self.y(centre - half_width),
            high=self.y(centre + half_width),
            words_at=f"{self._x(labels) + (-1.5 if is_left else 1.5):.2f}%",
            is_left=is_left,
            labels=labels,
        )


def draw_closing(
    steps: Sequence[Step],
    ghost: Sequence[Step],
    goal: Goal,
    *,
    expected: int | None,
    at_random: int | None,
) -> Closing:
    """Return where everything lies: *steps* up to now, and *ghost* of random labels.

    The axis of the accuracy begins below the target and every interval from a quarter
    of the labels on; what reaches lower is cut off.
    """
    now = steps[-1]
    most = max(24, now.labels, expected or 0, at_random or 0)
    shown = [one for one in (*steps, *ghost) if 4 * one.labels >= now.labels]
    lowest = min([one.low for one in shown] + [goal.target or 1.0]) - _ROOM
    plane = _Plane(math.ceil(most * 1.04), max(0.0, math.floor(10 * lowest) / 10))
    past = [one for one in ghost if one.labels <= now.labels]
    if past and past[-1].labels < now.labels:
        past.append(past[-1]._replace(labels=now.labels))
    centre = (now.low + now.high) / 2.0
    goals = [
        None
        if labels is None or goal.half_width is None
        else plane.bracket(labels, centre, goal.half_width)
        for labels in (expected, at_random)
    ]
    return Closing(
        shares=_shares(plane),
        labels=_labels(plane),
        blocks=plane.blocks(steps),
        bounds=plane.lines(steps),
        ghost=plane.lines(past),
        now=plane.x(now.labels),
        labels_now=now.labels,
        is_now_left=now.labels < 0.1 * plane.most,
        goal=goals[0],
        at_random=goals[1],
        target=None if goal.target is None else plane.y(goal.target),
        is_cut_off=any(one.low < plane.low for one in (*steps, *past)),
    )


def _shares(plane: _Plane) -> list[Mark]:
    first = round(plane.low * 100)
    step = 5 if first >= 70 else 10 if first >= 40 else 20
    return [
        Mark(plane.y(percent / 100), narrow(f"{percent} %"))
        for percent in range(100, first - 1, -step)
    ]


def _labels(plane: _Plane) -> list[Mark]:
    rough = plane.most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(
        (power * one for one in _STEPS if power * one >= rough), int(power * 10)
    )
    step = max(1, int(step))
    return [
        Mark(plane.x(count), number(count)) for count in range(0, plane.most + 1, step)
    ]


# A difference of fewer of the labels is within the luck of a simulation.
_LEAST_GAIN = 0.15


@dataclass(frozen=True, slots=True)
class AuditReading:
    """What an audit says, how it got there, and what random labels would have said."""

    found: SetEstimate
    aimed: Reading
    readings: Sequence[Reading]
    axis: Axis
    history: Sequence[AuditMoment]
    closing: Closing
    # How many queries had no label before the audit.
    drawable: int
    # How many more random labels would reach the goal.
    left_at_random: int
    half_width_at_random: float
    # What the choice is expected to have saved; None until there are enough labels.
    labels_saved: int | None
    # None without judges, too.
    saved_by_judges: int | None
    reason: Reason | None
    # What each judge said of that query.
    verdicts: Sequence[tuple[str, str]]
    labelers: Mapping[str, int]
    # Whether labels went into what random ones would have given.
    is_learnt: bool

    @property
    def is_choice_idle(self) -> bool:
        return self.labels_saved is not None and not self.is_choice_seen

    @property
    def is_choice_seen(self) -> bool:
        """Whether clearly more random labels would be needed to know as much."""
        saved = self.labels_saved
        return saved is not None and saved >= _LEAST_GAIN * self.found.labels_used

    @property
    def are_judges_idle(self) -> bool:
        """Whether knowing the judges tells hardly more than not knowing them."""
        return (self.saved_by_judges or 0) < _LEAST_GAIN * self.found.labels_used

    @property
    def worth(self) -> int:
        """How many random labels would be expected to give as narrow an interval."""
        return self.found.labels_used + (self.labels_saved or 0)

    @property
    def forecasts(self) -> list[AuditMoment]:
        """What was foreseen at the beginning, on the way, and now."""
        if len(self.history) < 3:
            return list(self.history)
        return [self.history[0], self.history[len(self.history) // 2], self.history[-1]]


def _read_verdicts(
    audit: Audit, record: Record, reason: Reason | None
) -> list[tuple[str, str]]:
    """Return what each judge said of a query; of votes nobody knows whose they are."""
    verdicts = record.ledger.strata.verdicts
    judges = [one[len(JUDGE) :] for one in audit.uses if one.startswith(JUDGE)]
    if reason is None or len(judges) > verdicts.shape[1] or (verdicts < MISSING).any():
        return []
    pairs = zip(judges, verdicts[reason.draw.stratum].tolist(), strict=True)
    return [(name, audit.classes[place]) for name, place in pairs if place >= 0]


def read_audit(session: Session, audit: Audit, *, at: datetime) -> AuditReading:
    """Return all that the page of an audit shows."""
    record = load_record(session, audit)
    look = look_at(audit, record)
    found = build_audit_estimate(session, audit, record, look, at)
    history = build_history(audit, record, look, computed_at=at)
    readings = [read_balanced(found), *read_classes(found)]
    aimed = read_aimed(audit, found, readings)
    if (audit.aim or "").startswith(PRECISION):
        # Of one prediction alone the accuracies of classes mean nothing.
        readings = [aimed]
    comparison, steps = find_comparison(audit, record), _steps(audit, history)
    reason = find_last_reason(record)
    used, left = found.labels_used, found.labels_left
    at_random = comparison.half_width_at_random(used, found.half_width)
    score = aimed_of(audit, found)
    middle = (score.low + score.high) / 2.0
    step = Step(used, middle - at_random, middle + at_random)
    needed = expected_in_all(audit, record.drawable, step, at_random=True)
    is_open = audit.closed_at is None and not found.is_reached
    return AuditReading(
        found=found,
        aimed=aimed,
        readings=readings,
        axis=build_axis(readings),
        history=history,
        closing=draw_closing(
            steps,
            comparison.at_random(steps),
            goal_of(audit),
            expected=used + left if is_open else None,
            at_random=needed if is_open else None,
        ),
        drawable=record.drawable,
        left_at_random=max(0, needed - used),
        half_width_at_random=at_random,
        labels_saved=comparison.labels_saved(used),
        saved_by_judges=comparison.saved_by_judges(used),
        reason=reason,
        verdicts=_read_verdicts(audit, record, reason),
        labelers=count_labelers(session, audit),
        is_learnt=_is_learnt(record),
    )


def read_aimed(
    audit: Audit, found: SetEstimate, readings: Sequence[Reading]
) -> Reading:
    """Return what an audit aims at; *readings* are balanced and the classes."""
    if audit.aim is None or audit.aim in audit.classes:
        return readings[1 + audit.classes.index(audit.aim) if audit.aim else 0]
    return read(found.overall, name=audit.aim.partition(":")[0].capitalize(), tone=0)


def _steps(audit: Audit, history: Sequence[AuditMoment]) -> list[Step]:
    found: dict[int, Step] = {}
    for point in history:
        score = aimed_of(audit, point)
        # The last of those after as many draws is the narrowest.
        found[point.draws] = Step(point.draws, score.low, score.high)
    return list(found.values())


def _is_learnt(record: Record) -> bool:
    ledger = record.ledger
    before = ledger.labels[: ledger.rounds[-1].start]
    return bool(ledger.known[-1].any() or (before != OPEN).any())


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
    values.setdefault("name", f"Audit of {now():%Y-%m-%d %H:%M:%S}")
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
    counts = count_draws(session, audits)
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
        extensions=storage.list_extensions(session, audit),
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
            extensions=storage.list_extensions(session, audit),
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
