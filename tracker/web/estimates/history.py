"""The history of a detector: its chart, its table and its files."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any, get_args

from flask import Response, jsonify, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker import stats
from tracker.charts.axes import Axis
from tracker.charts.render import render_png, render_svg
from tracker.errors import ConflictError
from tracker.http import by, now
from tracker.services.deciding.comparison import get_comparison
from tracker.services.deciding.pairs import Change
from tracker.services.estimates.calendar import find_birth
from tracker.services.estimates.charts import build_chart, list_changes, list_states
from tracker.services.estimates.cohorts import get_cohorts
from tracker.services.estimates.counts import current_counts
from tracker.services.estimates.estimate import NOW, get_estimate
from tracker.services.estimates.history import list_rows, list_scopes
from tracker.services.estimates.intervals import check_method, max_snapshots
from tracker.services.estimates.report import Report
from tracker.services.estimates.weeks import get_weeks
from tracker.services.evidence.measure import read_measure
from tracker.services.fields import read_when
from tracker.services.labelling.auditing.audits import find_result
from tracker.services.labelling.queues import (
    DISAGREEMENTS,
    QueueChoice,
    build_queue,
    count_waiting,
)
from tracker.services.telling.events import find_last_verdicts
from tracker.services.versions import choose_versions
from tracker.services.wording import check_one_of
from tracker.storage.base import parse_whole
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates import snapshots as storage
from tracker.storage.estimates.projections import CALENDAR, load_states
from tracker.storage.estimates.snapshots import Snapshot
from tracker.storage.labelling.audits import list_audits
from tracker.storage.telling import list_detector_events
from tracker.web.blueprint import page, reading
from tracker.web.detectors import tell_briefly
from tracker.web.drawing.differences import build_axis, draw_change
from tracker.web.drawing.readings import Reading, read, read_balanced
from tracker.web.drawing.weeks import days_of, draw_weeks
from tracker.web.queries.filters import count_mistakes
from tracker.words import DECIDING_METHOD, MEASURES, OVERALL, RECALL

_PAGE = 50
# The newest of them; who wants to see more goes on.
_FIRST_PAGE = 6
_MOST_TOLD = 8
_MOST_MARKS = 5
_LABELS = "labels"
_VIEWS = ("week", "day", "month", _LABELS)
# Choices that only the chart along labels has.
_OF_LABELS = {"method", "x", "axis", "window", "then", "as_known_at", "order"}
_OF_LABELS |= {"beyond", "scope"}
_WINDOW = "500"
# Of so many spans below the target the mistakes are counted.
_MOST_BELOW = 12
_WINDOWS = {
    "200": "last 200 labels",
    "500": "last 500 labels",
    "2000": "last 2,000 labels",
    "7d": "last 7 days",
    "30d": "last 30 days",
}
_DECIDING: Any = {"method": DECIDING_METHOD, "span": NOW, "is_dated": False}
# Beyond so many classes the table shows one of them, which the visitor chooses.
_MOST_COLUMNS = 2


@page("GET /detectors/<detector_id>/changes", "viewer")
def show_history(detector_id: str) -> ResponseReturnValue:
    """Show what changed: on the calendar, or along the labels."""
    asked = request.args
    is_of_labels = _OF_LABELS & set(asked) or asked.get("measure") in MEASURES
    view = asked.get("by") or (_LABELS if is_of_labels else "week")
    check_one_of("by", view, _VIEWS)
    with reading(detector_id) as (session, detector):
        chosen = _choose_chart(asked)
        check_method(chosen["method"])
        versions = choose_versions(session, detector, chosen["version"])
        version = versions[-1] if versions else None
        if version is not None and "then" in asked:
            # The place of a slider: the snapshot of that number says when it was.
            chosen["as_known_at"] = _find_instant(session, version)
        which: Any = {"version": version and version.name, "computed_at": now()}
        estimate = get_estimate(session, detector, **which, **_DECIDING)
        row = Report(detector, estimate, queries=0)
        events = list_detector_events(session, detector.id, limit=_MOST_TOLD)
        closed = [
            (audit, result)
            for audit in list_audits(session, detector.id, limit=_PAGE)
            if (result := find_result(audit)) is not None
        ]
        along = _along_labels if view == _LABELS else _along_weeks
        return render_template(
            "history/history.html",
            detector=detector,
            by=view,
            row=row,
            change=estimate.change,
            mistakes=row.mistakes,
            told=[(event, tell_briefly(event)) for event in events],
            **chosen | {"version": version},
            **along(session, detector, version, row, chosen),
            closed_audits=closed,
            compared=_read_comparison(session, detector),
            # It reads each label of two weeks, so only when it is asked for.
            cohorts="late" in asked
            and get_cohorts(
                session,
                detector,
                version=chosen["version"],
                computed_at=now(),
                limit=14,
            ),
        )


def _along_labels(
    session: Session,
    detector: Detector,
    version: Version | None,
    _row: Report,
    chosen: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the tightening chart and its table, and what events say."""
    states, changes, state = [], [], None
    if version is not None:
        states = list_states(session, detector, version)
        changes = list_changes(session, detector, version)
        last = find_last_verdicts(session, [detector.id], [version.id])
        state = last.get(version.id)
    if state is not None and state.data["target"] != detector.target:
        # It is about another target; the next label brings one about this.
        state = None
    return {
        "states": states,
        "changes": changes,
        "state": state,
        "methods": stats.METHODS,
        "measures": MEASURES,
        **_table(session, detector, version, chosen["method"], choose_measure()),
        **_compare(session, detector, version, chosen["as_known_at"]),
    }


def _along_weeks(
    session: Session,
    detector: Detector,
    version: Version | None,
    row: Report,
    _chosen: Mapping[str, Any],
) -> dict[str, Any]:
    found = get_weeks(
        session,
        detector,
        computed_at=now(),
        by=request.args.get("by") or "week",  # type: ignore[arg-type]
        version=version.name if version else None,
        measure=request.args.get("measure") or detector.measure,
    )
    is_decided = found.measure == detector.measure
    below = [one for one in found.items if one.below_target][:_MOST_BELOW]
    names = [detector.measure, *(name for name, _ in detector.also), OVERALL]
    return {
        "found": found,
        "wrong": {
            found.day_of(one): count_mistakes(
                session,
                detector,
                days_of(found, one),
                version=version.name if version else "",
                counted="yes",
            )
            for one in below
        },
        "measures": list(dict.fromkeys([*names, found.measure])),
        "drawn": draw_weeks(
            found,
            row.since,
            row.interval if is_decided else None,
            _mark_versions(session, detector),
        ),
    }


def _mark_versions(session: Session, detector: Detector) -> list[tuple[date, str]]:
    """Return the days of the newest versions, by what their calendars know."""
    versions = list_versions(session, detector.id)[-_MOST_MARKS:]
    states, marks = load_states(session, versions), []
    for one in versions:
        state = states.get(one.id, {}).get((CALENDAR, ""), {})
        marks.append((find_birth(session, one, state, detector.zone), one.name))
    return marks


def _read_comparison(session: Session, detector: Detector) -> dict[str, Any] | None:
    """Compare the versions in the address; raises InvalidInputError for another one.

    None unless two are named, or where there is but one.
    """
    old, new = request.args.get("old") or None, request.args.get("new") or None
    if not (old or new):
        return None
    try:
        found = get_comparison(session, detector, computed_at=now(), old=old, new=new)
    except ConflictError:
        return None
    chosen = QueueChoice(queue=DISAGREEMENTS, old=found.old, new=found.new)
    queue = build_queue(session, detector, chosen, by())
    bar, pairs, decision = None, 0, found.decision
    if decision:
        bar = draw_change(Change.from_row(decision), found.new, 0)
    if decision and found.paired:
        of = {one.name: one.pairs for one in found.paired.classes}
        pairs = of.get(read_measure(decision.measure).of or "", found.paired.pairs)
    return {
        "comparison": found,
        # Disagreements without a label, up to a limit.
        "waiting": count_waiting(session, queue),
        "bar": bar,
        "axis": build_axis([bar]) if bar else None,
        # The labelled inputs that the measure is of.
        "pairs": pairs,
    }


def _compare(
    session: Session,
    detector: Detector,
    version: Version | None,
    known_at: datetime | None,
) -> dict[str, Any]:
    window = request.args.get("window", "") or _WINDOW
    known: dict[str, Any] = {"version": version and version.name, "computed_at": now()}
    moments: list[tuple[Any, ...]] = []
    for name, instant in {"As known now": None, "As known then": known_at}.items():
        if instant is None and moments:
            continue
        known["as_known_at"] = instant
        whole = get_estimate(
            session, detector, method=DECIDING_METHOD, span="all", **known
        )
        last = get_estimate(session, detector, window=window, **known)
        moments.append((name, read_balanced(whole), whole, read_balanced(last), last))
    then = None
    if version is not None and known_at is not None:
        then = storage.find_newest_snapshot(session, version, by=known_at)
    return {
        "window": window,
        # One that was typed into the address stands beside the usual ones.
        "windows": {window: window} | _WINDOWS,
        "moments": moments,
        "first": 1,
        "newest": 0 if version is None else version.sequence,
        "then": then and then.sequence,
    }


def _find_instant(session: Session, version: Version) -> datetime | None:
    number = parse_whole(request.args.get("then", "")) or 0
    if number >= version.sequence:
        return None
    found = storage.list_snapshots(
        session, version, beyond=max(number, 1) - 1, is_oldest_first=True, limit=1
    )
    return found[0].computed_at if found else None


def choose_measure() -> str:
    """Return the measure in the address; raises InvalidInputError for another word."""
    measure = request.args.get("measure") or RECALL
    check_one_of("measure", measure, MEASURES)
    return measure


def _table(
    session: Session,
    detector: Detector,
    version: Version | None,
    method: str,
    measure: str,
) -> dict[str, Any]:
    is_oldest_first = request.args.get("order") == "oldest"
    beyond = parse_whole(request.args.get("beyond", ""))
    scope = request.args.get("scope", "")
    scopes = list_scopes(detector, measure)
    if len(scopes) > 1 + _MOST_COLUMNS:
        scopes = [scopes[0], *([scope] if scope in scopes[1:] else [])]
    most = _FIRST_PAGE if beyond is None else _PAGE
    page = max_snapshots(method, len(detector.classes), of=most)
    snapshots: Sequence[Snapshot] = []
    readings: dict[int, list[Reading]] = defaultdict(list)
    if version is not None:
        choice: dict[str, Any] = {"beyond": beyond, "is_oldest_first": is_oldest_first}
        snapshots = storage.list_snapshots(session, version, **choice, limit=page + 1)
        numbers = [one.sequence for one in snapshots[:page]]
        how: dict[str, Any] = {"measure": measure, "method": method, "scopes": scopes}
        for (_, at), row in list_rows(session, detector, version, numbers, **how):
            readings[at].append(read(row, name=row.scope, tone=0))
    shown = snapshots[:page]
    return {
        "measure": measure,
        "whole": scopes[0],
        "columns": scopes[1:],
        "scope": scope,
        "lines": [(one, readings[one.sequence]) for one in shown],
        "order": "oldest" if is_oldest_first else "newest",
        "beyond": beyond,
        "following": shown[-1].sequence if len(snapshots) > page else None,
    }


@page("GET /detectors/<detector_id>/chart.<any(json,svg,png):suffix>", "viewer")
def show_chart(detector_id: str, suffix: str) -> ResponseReturnValue:
    with reading(detector_id) as (session, detector):
        chosen = _choose_chart(request.args)
        window = request.args.get("window") or None
        chosen |= {"window": window, "then": _parse_instant("then_at")}
        # It changes whenever the chart does, which need not be drawn to know it:
        # snapshots never change, so the number of the last one stands for all, and
        # counts for the live estimate.  A window of days is another one each minute.
        is_of_days = not (window or "0").isdigit()
        newest = choose_versions(session, detector, chosen["version"])[-1:]
        seen = (
            *(suffix, sorted(chosen.items(), key=str)),
            *(detector.name, detector.target, detector.confidence_level),
            [(version.id, version.name, version.sequence) for version in newest],
            *current_counts(session, newest).values(),
            f"{now():%d %H:%M}" if is_of_days else "",
        )
        tag = hashlib.sha256(repr(seen).encode()).hexdigest()[:16]
        if tag in request.if_none_match:
            return Response(status=304)
        spec = build_chart(session, detector, **chosen, computed_at=now())
    if suffix == "json":
        answer = jsonify(spec)
    elif suffix == "svg":
        answer = Response(render_svg(spec), mimetype="image/svg+xml")
    else:
        answer = Response(render_png(spec), mimetype="image/png")
    answer.set_etag(tag)
    return answer


def _parse_instant(field: str) -> datetime | None:
    return read_when(field, request.args.get(field) or None, at=now())


def _choose_chart(asked: Mapping[str, str]) -> dict[str, Any]:
    return {
        "version": asked.get("version") or None,
        "method": asked.get("method", DECIDING_METHOD),
        "x": asked["x"] if asked.get("x") in get_args(Axis) else "labels",
        "theme": "dark" if asked.get("theme") == "dark" else "light",
        "layout": "narrow" if asked.get("layout") == "narrow" else "wide",
        "is_whole": asked.get("axis") == "whole",
        "as_known_at": _parse_instant("as_known_at"),
    }
