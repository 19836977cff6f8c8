"""A schedule of audits: a bar for each week, day or month, and how it runs."""

from collections.abc import Mapping, Sequence
from statistics import median_high
from typing import Any

from flask import redirect, render_template, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.http import by, database, now, requires
from tracker.services.deciding.pairs import Change
from tracker.services.estimates.decision import compare_with_target
from tracker.services.estimates.weeks import SpanAccuracy, Weeks
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audits import (
    AuditResult,
    ChangeSince,
    aimed_of,
    count_late,
    find_result,
    include_late,
    measure_of,
)
from tracker.services.labelling.auditing.schedules import (
    describe_schedule,
    get_schedule,
    stop_schedule,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, zone_of
from tracker.storage.estimates.cells import day_in
from tracker.storage.labelling.audits import Audit, AuditSchedule, list_scheduled
from tracker.web.blueprint import pages
from tracker.web.drawing.differences import Bar, draw_change
from tracker.web.drawing.readings import build_axis
from tracker.web.drawing.weeks import days_of, draw_weeks
from tracker.web.queries.filters import count_mistakes

# The most bars that one can tell apart.
_MOST_SPANS = 53
# Fewer late queries than this part of the set are not worth a word.
_MANY_LATE = 1 / 200


@pages.app_template_global()
def schedule_ref(schedule: AuditSchedule) -> str:
    """Return the public id of *schedule*."""
    return dump_id("sch", schedule.id)


@pages.get("/audit-schedules/<schedule_id>")
@requires("viewer")
def look_at_schedule(schedule_id: str) -> ResponseReturnValue:
    """Show what the audits of a schedule say, span by span."""
    with database().read() as session:
        schedule = get_schedule(session, schedule_id)
        summary = describe_schedule(session, schedule)
        detector = session.get_one(Detector, schedule.detector_id)
        made = list_scheduled(session, schedule, limit=_MOST_SPANS)
        found = _read_spans(session, schedule, detector, made)
        drawn = draw_weeks(found)
        lates = {one.id: count_late(session, one) for one in made}
        results = {one.id: find_result(one) for one in made}
        rows = list(zip(made, drawn["bars"][::-1], strict=True))
        used = [said.labels_used for said in results.values() if said]
        return render_template(
            "audits/schedule.html",
            detector=detector,
            schedule=schedule,
            summary=summary,
            next_frozen=day_in(summary.next_frozen_at, zone_of(schedule.time_zone)),
            cost=median_high(used) if used else None,
            found=found,
            drawn=drawn,
            rows=rows,
            axis=build_axis([bar.reading for _, bar in rows], schedule.target),
            changes=_list_changes(rows, results),
            verdicts=[_judge(schedule, one) for one in found.items],
            mistakes=_count_mistakes(session, schedule, detector, made, found),
            results=results,
            lates=lates,
            with_late={
                one.id: include_late(result, lates[one.id])
                for one in made
                if (result := results[one.id])
                and lates[one.id] > _MANY_LATE * one.queries
            },
        )


def _list_changes(
    rows: Sequence[tuple[Audit, Any]], results: Mapping[int, AuditResult | None]
) -> list[tuple[Any, ChangeSince, Bar]]:
    """Return what could be compared with the spans before it, the newest first."""
    return [
        (bar, said.change, draw_change(Change.from_row(said.change), "", 0))
        for one, bar in rows
        if (said := results[one.id]) and said.change
    ]


def _count_mistakes(
    session: Session,
    schedule: AuditSchedule,
    detector: Detector,
    made: Sequence[Audit],
    found: Weeks,
) -> tuple[int, dict[str, Any]]:
    """Return the mistakes of the newest span, of all its labels, and their address."""
    if not made:
        return 0, {}
    version = session.get(Version, (detector.id, made[0].version_id))
    return count_mistakes(
        session,
        detector,
        days_of(found, found.items[0]),
        version=version.name if version else "*",
        counted="any",
        where=tuple(schedule.where),
    )


def _judge(schedule: AuditSchedule, one: SpanAccuracy) -> str:
    if schedule.target is None:
        return "none"
    return compare_with_target(one.low, one.high, schedule.target)


def _read_spans(
    session: Session,
    schedule: AuditSchedule,
    detector: Detector,
    made: Sequence[Audit],
) -> Weeks:
    """Return what the audits say in the shape of the weeks of a version."""
    return Weeks(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=None,
        by=schedule.every,
        measure=measure_of(made[0]) if made else detector.measure,
        target=schedule.target,
        confidence_level=detector.confidence_level,
        computed_at=now(),
        time_zone=schedule.time_zone,
        items=[_read_span(session, one) for one in made],
    )


def _read_span(session: Session, audit: Audit) -> SpanAccuracy:
    result = find_result(audit)
    found = result or get_audit_estimate(session, audit, computed_at=now())
    aimed = aimed_of(audit, found)
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
        accuracy=aimed.accuracy,
        low=aimed.low,
        high=aimed.high,
        basis="queries",
        is_closed=result is not None,
        below_target=None if result is None else result.below_target,
    )


@pages.post("/audit-schedules/<schedule_id>/stop")
@requires("editor")
def end_schedule(schedule_id: str) -> ResponseReturnValue:
    """Make no more audits."""
    database().run(
        lambda session: stop_schedule(session, get_schedule(session, schedule_id), by())
    )
    return redirect(url_for("pages.look_at_schedule", schedule_id=schedule_id), 303)
