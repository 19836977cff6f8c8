"""A schedule of audits: a bar for each week, day or month, and how it runs."""

from collections.abc import Iterator, Sequence
from statistics import median_high
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, database, now
from tracker.services.deciding.pairs import Change
from tracker.services.estimates.counted import unit_of
from tracker.services.estimates.weeks import SpanAccuracy, Weeks
from tracker.services.fields import parse_input
from tracker.services.labelling.auditing import audits
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audit_lifecycle import (
    ScheduleChange,
    change_schedule,
    describe_schedule,
    get_schedule,
    stop_schedule,
)
from tracker.services.telling.webhooks import list_listening
from tracker.shapes import Accuracy
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, zone_of
from tracker.storage.estimates.cells import day_in
from tracker.storage.labelling.audits import Audit, AuditSchedule, list_scheduled
from tracker.web.blueprint import lead_to, page, pages
from tracker.web.downloads import download
from tracker.web.drawing.answers import near_axis
from tracker.web.drawing.differences import draw_change
from tracker.web.drawing.weeks import days_of, draw_weeks
from tracker.web.forms import Form, failed_form
from tracker.web.labelling.audits import judge, points, read_names, read_share
from tracker.web.queries.filters import count_mistakes
from tracker.words import EDITOR

# The most bars that one can tell apart.
_MOST_SPANS = 53
# Fewer late queries than this part of the set are not worth a word.
_MANY_LATE = 1 / 200


@pages.app_template_global()
def schedule_ref(schedule: AuditSchedule) -> str:
    return dump_id("sch", schedule.id)


@page("GET /audit-schedules/<schedule_id>", "viewer")
def look_at_schedule(schedule_id: str, failed: Form | None = None) -> str:
    with database().read() as session:
        schedule = get_schedule(session, schedule_id)
        summary = describe_schedule(session, schedule)
        detector = session.get_one(Detector, schedule.detector_id)
        made = list_scheduled(session, schedule, limit=_MOST_SPANS)
        found = _read_spans(session, schedule, detector, made)
        drawn = draw_weeks(found)
        lates = {one.id: audits.count_late(session, one) for one in made}
        results = {one.id: audits.find_result(one) for one in made}
        rows = list(zip(made, drawn["bars"][::-1], strict=True))
        used = [said.labels_used for said in results.values() if said]
        width, zone = schedule.half_width, zone_of(schedule.time_zone)
        who = account()
        goal = {"labelers": ", ".join(schedule.labelers)}
        goal["points"] = "" if width is None else points(width)
        return render_template(
            "audits/schedule.html",
            detector=detector,
            schedule=schedule,
            form=failed or Form(goal),
            summary=summary,
            told=list_listening(session, schedule, who) if who.may(EDITOR) else [],
            next_frozen=day_in(summary.next_frozen_at, zone),
            day_of=lambda at: day_in(at, zone),
            cost=median_high(used) if used else None,
            found=found,
            drawn=drawn,
            rows=rows,
            axis=near_axis(schedule.target, *(one.low for one in found.items)),
            # What could be compared with the spans before it, the newest first.
            changes=[
                (bar, said.change, draw_change(Change.from_row(said.change), "", 0))
                for one, bar in rows
                if (said := results[one.id]) and said.change
            ],
            verdicts=[judge(bar.reading.score, schedule.target) for _, bar in rows],
            mistakes=_count_mistakes(session, schedule, detector, made, found),
            results=results,
            lates=lates,
            with_late={
                one.id: audits.include_late(result, lates[one.id])
                for one in made
                if (result := results[one.id])
                and lates[one.id] > _MANY_LATE * one.queries
            },
        )


def _count_mistakes(
    session: Session,
    schedule: AuditSchedule,
    detector: Detector,
    made: Sequence[Audit],
    found: Weeks,
) -> tuple[int, dict[str, Any]]:
    # Of the newest span, of all its labels.
    if not made:
        return 0, {}
    return count_mistakes(
        session,
        detector,
        days_of(found, found.items[0]),
        version=audits.find_version_name(session, made[0]) or "*",
        counted="any",
        where=tuple(schedule.where),
    )


def _read_spans(
    session: Session, schedule: AuditSchedule, detector: Detector, made: Sequence[Audit]
) -> Weeks:
    return Weeks(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=None,
        by=schedule.every,
        unit=unit_of(detector),
        measure=audits.measure_of(made[0]) if made else detector.measure,
        target=schedule.target,
        confidence_level=detector.confidence_level,
        computed_at=now(),
        time_zone=schedule.time_zone,
        items=[_read_span(session, one) for one in made],
    )


def _read_span(session: Session, audit: Audit) -> SpanAccuracy:
    result = audits.find_result(audit)
    found = result or get_audit_estimate(session, audit, computed_at=now())
    assert audit.since is not None
    assert audit.until is not None
    return SpanAccuracy(
        since=audit.since,
        until=audit.until,
        queries=audit.queries,
        labels=found.labels,
        drawn=found.labels + found.unclear,
        unclear=found.unclear,
        correct=0,
        **dict(Accuracy.from_row(audits.aimed_of(audit, found))),
        basis="queries",
        is_closed=result is not None,
        below_target=None if result is None else result.below_target,
    )


@page("POST /audit-schedules/<schedule_id>", "editor")
def edit_schedule(schedule_id: str) -> ResponseReturnValue:
    """Change who is asked and how narrow the intervals are to be, from now on."""
    typed = request.form
    try:
        values: dict[str, Any] = {"labelers": read_names(typed)}
        if typed.get("points", "").strip():
            values["half_width"] = read_share(typed)
        change = parse_input(ScheduleChange, values)
        database().run(
            lambda session: change_schedule(
                session, get_schedule(session, schedule_id), change, by()
            )
        )
    except (ConflictError, InvalidInputError) as error:
        errors = dict(failed_form(typed, error, conflict_field="labelers").errors)
        if "half_width" in errors:
            errors["points"] = errors.pop("half_width")
        form = Form(typed, errors)
        return look_at_schedule(schedule_id, form), 422
    return lead_to(
        "look_at_schedule",
        says="Saved. It holds for the audits that are not begun yet.",
        schedule_id=schedule_id,
    )


_COLUMNS = (
    *("audit", "since", "until", "queries", "labels", "accuracy", "low", "high"),
    *("is_closed", "below_target"),
)


@page("GET /audit-schedules/<schedule_id>/results.<suffix>", "viewer")
def download_results(schedule_id: str, suffix: str) -> ResponseReturnValue:
    """Give what the audits of a schedule say as a file, the newest span first."""
    with database().read() as session:
        get_schedule(session, schedule_id)

    def rows(session: Session) -> Iterator[dict[str, Any]]:
        schedule = get_schedule(session, schedule_id)
        made = list_scheduled(session, schedule, limit=_MOST_SPANS)
        for audit in made:
            found = _read_span(session, audit).dump()
            yield {
                **{name: found.get(name) for name in _COLUMNS},
                "audit": dump_id("aud", audit.id),
                "since": found["from"],
            }

    return download(schedule_id, "results", suffix, _COLUMNS, rows)


@page("POST /audit-schedules/<schedule_id>/stop", "editor")
def end_schedule(schedule_id: str) -> ResponseReturnValue:
    database().run(
        lambda session: stop_schedule(session, get_schedule(session, schedule_id), by())
    )
    return lead_to("look_at_schedule", schedule_id=schedule_id)
