"""Schedules: an audit of each week's, day's or month's queries, made by itself.

The set of a span is stated before the span begins, by the schedule, and frozen a day
after its end.  Each span has its own key, its own draws and its own level; what the
audits before it have taught decides where to look, and is no evidence.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import NOBODY, By
from tracker.services.detectors import get_by_id
from tracker.services.estimates.weeks import Cut, begin, following
from tracker.services.fields import Input, Instant, KeyName
from tracker.services.labelling.auditing.audit_draws import load_record
from tracker.services.labelling.auditing.audit_lifecycle import SPANS_A_YEAR
from tracker.services.labelling.auditing.audit_sets import NewAudit, choose_version
from tracker.services.labelling.auditing.audits import (
    AuditPlan,
    SpanToAudit,
    carried_of,
    check_aim,
    create_audit,
    find_result,
    find_version_name,
    half_width_of,
    stored_aim,
)
from tracker.services.labelling.labelers import NewAssignment, assign
from tracker.services.queries.where import parse_where
from tracker.services.wording import dump_instant, show
from tracker.shapes import Shape
from tracker.stats import Floats, carry_over, list_on_average
from tracker.storage.base import Key, dump_id
from tracker.storage.detectors import Detector, list_versions, zone_of
from tracker.storage.estimates.cells import day_in, midnight_in
from tracker.storage.labelling import audits
from tracker.storage.labelling.audits import Audit, AuditSchedule
from tracker.words import BALANCED

FREEZES_AFTER = timedelta(days=1)


class SkippedSpan(Shape):
    """A span without an audit."""

    since: Instant
    because: str


class ScheduleYear(Shape):
    """What the audits of a year say together, once it is over."""

    year: int
    spans: int = Field(description="The number of audits that count.")
    below_target: list[str] = Field(
        description="The ids of the audits that are listed as below the target: of "
        "such a list on average at most 1 - confidence_level is wrong."
    )


class ScheduleSummary(Shape):
    """A schedule: what is asked about each span, and what became of them."""

    id: str = Field(description="sch_ and a number.")
    detector: str = Field(description="The id of the detector.")
    name: str
    every: Cut
    time_zone: str
    version: str | None = Field(description="The version; null for all of them.")
    where: list[str]
    uses: list[str] | None = Field(description="null for all there is.")
    aim: str
    half_width: float | None
    labels: int | None
    target: float | None = Field(description="What each span is held against.")
    labelers: list[str] = Field(description="Who is asked for the labels.")
    created_by: str
    created_at: Instant
    stopped_at: Instant | None
    next_since: Instant = Field(
        description="When the first span begins whose set is not frozen yet."
    )
    next_frozen_at: Instant = Field(description="When that is frozen.")
    audits: int = Field(description="The number of audits it has made.")
    below_target: list[str] = Field(
        description="The ids of the closed audits whose accuracy is proved to lie "
        "below the target. The chance that a year has a wrong one among them is at "
        "most 1 - confidence_level."
    )
    years: list[ScheduleYear] = Field(
        description="The years that are over, of a schedule with a target for another "
        "measure than the balanced accuracy."
    )
    skipped: list[SkippedSpan] = Field(description="The spans without an audit.")


def create_schedule(
    session: Session, detector: Detector, new: NewAudit, by: By
) -> AuditSchedule:
    """Begin to make an audit of each span, from the next one that begins.

    Raises ConflictError for a name that is taken, InvalidInputError for what no audit
    of the detector can be asked.
    """
    assert new.every is not None
    if audits.is_name_taken(session, AuditSchedule, detector.id, new.name):
        raise ConflictError(f"there is a schedule named {show(new.name)} already")
    check_aim(detector, new)
    parse_where(session, detector, new.where, at=by.at)
    time_zone = new.time_zone or detector.time_zone
    zone, aim = zone_of(time_zone), stored_aim(new)
    day = begin(day_in(by.at, zone), new.every)
    if midnight_in(day, zone) < by.at:
        day = following(day, new.every)
    target = new.target
    if target is None and detector.measure in {new.aim, f"recall:{new.aim}"}:
        target = detector.target
    schedule = AuditSchedule(
        detector_id=detector.id,
        version_id=choose_version(session, detector, new),
        name=new.name,
        every=new.every,
        time_zone=time_zone,
        where=new.where,
        uses=new.uses,
        aim=aim,
        half_width=None if new.labels else half_width_of(new),
        labels=new.labels,
        target=target,
        labelers=new.labelers,
        created_by=by.name,
        created_at=by.at,
        first_since=midnight_in(day, zone),
        next_since=midnight_in(day, zone),
        skipped=[],
    )
    session.add(schedule)
    session.flush()
    by.record(
        *(session, "audit schedule begun", detector.name),
        schedule=schedule.name,
        every=schedule.every,
    )
    return schedule


class ScheduleChange(Input):
    """What changes for the spans whose sets are not frozen yet."""

    labelers: Annotated[list[KeyName], Field(max_length=50)] = Field(default=[])
    half_width: Annotated[float, Field(gt=0, lt=0.5)] | None = None


def change_schedule(
    session: Session, schedule: AuditSchedule, change: ScheduleChange, by: By
) -> None:
    """Ask others for the labels, or aim at another width, from the next span on.

    Raises ConflictError once the schedule is stopped.
    """
    locked = audits.lock_one(
        session, AuditSchedule, (schedule.detector_id, schedule.id)
    )
    if locked.stopped_at is not None:
        raise ConflictError("the schedule is stopped")
    locked.labelers = change.labelers
    if change.half_width is not None and locked.half_width is not None:
        locked.half_width = change.half_width
    detector = session.get_one(Detector, locked.detector_id)
    by.record(session, "audit schedule changed", detector.name, schedule=locked.name)


def stop_schedule(session: Session, schedule: AuditSchedule, by: By) -> AuditSchedule:
    """Make no more audits; those that are open go on.  Twice changes nothing."""
    locked = audits.lock_one(
        session, AuditSchedule, (schedule.detector_id, schedule.id)
    )
    if locked.stopped_at is None:
        locked.stopped_at = by.at
        detector = session.get_one(Detector, locked.detector_id)
        by.record(
            *(session, "audit schedule stopped", detector.name), schedule=locked.name
        )
    return locked


def get_schedule(session: Session, reference: str) -> AuditSchedule:
    return get_by_id(session, AuditSchedule, "sch", "schedule", reference)


def describe_schedule(session: Session, schedule: AuditSchedule) -> ScheduleSummary:
    """Return a schedule as it is answered."""
    made = audits.list_results(session, schedule)
    results = {one.id: find_result(one) for one in made}
    return ScheduleSummary.from_row(
        schedule,
        id=dump_id("sch", schedule.id),
        detector=dump_id("det", schedule.detector_id),
        version=find_version_name(session, schedule),
        aim=schedule.aim or BALANCED,
        next_frozen_at=_shift(schedule, 1) + FREEZES_AFTER,
        audits=len(made),
        below_target=[
            dump_id("aud", number)
            for number, result in results.items()
            if result is not None and result.below_target
        ],
        years=_sum_up_years(session, schedule, made),
        skipped=[
            SkippedSpan(since=datetime.fromisoformat(since), because=why)
            for since, why in schedule.skipped
        ],
    )


def _sum_up_years(
    session: Session, schedule: AuditSchedule, made: Sequence[Any]
) -> list[ScheduleYear]:
    """List for each year that is over what lay below the target, by e-BH."""
    zone = zone_of(schedule.time_zone)
    level = session.get_one(Detector, schedule.detector_id).confidence_level
    years: dict[int, list[tuple[int, float | None]]] = {}
    for one in made:
        result = find_result(one)
        known = None if result is None else result.log_evidence_below
        years.setdefault(day_in(one.since, zone).year, []).append((one.id, known))
    if schedule.stopped_at is None:
        years.pop(day_in(schedule.next_since, zone).year, None)
    found = []
    for year, spans in years.items():
        counted = [(number, known) for number, known in spans if known is not None]
        if len(counted) == len(spans):
            most = SPANS_A_YEAR[schedule.every]
            places = list_on_average([known for _, known in counted], most, level)
            below = [dump_id("aud", counted[place][0]) for place in places]
            year_of = ScheduleYear(year=year, spans=len(spans), below_target=below)
            found.append(year_of)
    return found


def freeze_next(session: Session, key: Key, at: datetime) -> tuple[Audit | None, bool]:
    """Freeze the set of the oldest span that is due; False where none is.

    Also returns the audit of the span before it, which ends with that: people are
    asked about one span at a time.  A span without queries, or with some that no audit
    can be of, is passed over, and the schedule says why.
    """
    schedule = audits.lock_one(session, AuditSchedule, key)
    if schedule.stopped_at is not None:
        return None, False
    newest = next(iter(audits.list_scheduled(session, schedule, limit=1)), None)
    _follow_clock(schedule, newest, at)
    until = _shift(schedule, 1)
    if at < until + FREEZES_AFTER:
        return None, False
    try:
        _make_audit(session, schedule, newest, at)
    except (ConflictError, InvalidInputError) as error:
        wrong = isinstance(error, InvalidInputError) and error.errors
        why = wrong[0].message if wrong else str(error)
        schedule.skipped = [*schedule.skipped, [dump_instant(schedule.next_since), why]]
        newest = None
    schedule.next_since = until
    session.flush()
    return newest, True


def _make_audit(
    session: Session, schedule: AuditSchedule, before: Audit | None, at: datetime
) -> None:
    detector = session.get_one(Detector, schedule.detector_id)
    if detector.archived_at is not None:
        raise ConflictError("the detector is archived")
    versions = list_versions(session, detector.id)
    if any(v.deleted_to and v.deleted_to >= schedule.next_since for v in versions):
        # What is left is no longer the traffic of the span.
        raise ConflictError("queries of it without a label have been deleted")
    day = day_in(schedule.next_since, zone_of(schedule.time_zone))
    until = _shift(schedule, 1)
    new = NewAudit(
        name=f"{schedule.name}, {day}",
        version=find_version_name(session, schedule) or "*",
        since=schedule.next_since,
        until=until,
        where=schedule.where,
        uses=schedule.uses,
        aim=schedule.aim or BALANCED,
        half_width=schedule.half_width,
        labels=schedule.labels,
    )
    span = SpanToAudit(
        schedule.id,
        until + FREEZES_AFTER,
        lambda plan: _learn(session, before, detector, plan),
    )
    by = By(NOBODY, at, credited=schedule.created_by)
    audit = create_audit(session, detector, new, by, span=span)
    for name in schedule.labelers:
        share = math.ceil(audit.labels_expected / len(schedule.labelers))
        assign(session, detector, NewAssignment(labeler=name, labels=share), by)


def _learn(
    session: Session, before: Audit | None, detector: Detector, plan: AuditPlan
) -> Floats | None:
    """Return what earlier audits teach of a set; nothing if judges have changed."""
    is_like = before is not None and before.classes == detector.classes
    if before is None or not is_like or before.uses != plan.uses:
        return None
    ledger = load_record(session, before).ledger
    carried = carry_over(ledger, carried_of(before), plan.strata)
    return carried if np.any(carried) else None


def _follow_clock(schedule: AuditSchedule, newest: Audit | None, at: datetime) -> None:
    """Go back to spans that were passed over while the clock was ahead."""
    while schedule.next_since > max(schedule.first_since, at - FREEZES_AFTER):
        earlier = _shift(schedule, -1)
        if newest is not None and newest.since == earlier:
            return
        schedule.next_since = earlier
        since = dump_instant(earlier)
        schedule.skipped = [one for one in schedule.skipped if one[0] != since]


def _shift(schedule: AuditSchedule, spans: int) -> datetime:
    """Return when the next span ends, or the one before it begins."""
    zone, every = zone_of(schedule.time_zone), schedule.every
    day = day_in(schedule.next_since, zone)
    if spans > 0:
        return midnight_in(following(day, every), zone)
    return midnight_in(begin(day - timedelta(days=1), every), zone)
