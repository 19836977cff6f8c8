"""How audits come and go: made by schedules, paused, resumed, extended and ended.

The set of a span is stated before the span begins, by the schedule, and frozen a day
after its end.  Each span has its own key, its own draws and its own level; what the
audits before it have taught decides where to look, and is no evidence.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import NOBODY, By
from tracker.services.detectors import get_by_id
from tracker.services.estimates.weeks import Cut, begin, following
from tracker.services.fields import Input, Instant, KeyName
from tracker.services.labelling.auditing import audits
from tracker.services.labelling.auditing.audit_draws import load_record
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audit_sets import NewAudit, choose_version
from tracker.services.labelling.labelers import NewAssignment, assign
from tracker.services.queries.where import parse_where
from tracker.services.wording import dump_instant, show
from tracker.shapes import Shape
from tracker.storage.base import Key, dump_id, find_row
from tracker.storage.detectors import Detector, list_versions, zone_of
from tracker.storage.estimates.cells import day_in, midnight_in
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit, AuditExtension, AuditSchedule
from tracker.words import BALANCED

# The most that a year can have.
SPANS_A_YEAR = {"day": 366, "week": 53, "month": 12}
# So many spans before are compared, by so many labels of each over the half-width: with
# a good judge a span takes hardly more, and one with fewer cannot be compared.
_MOST_BEFORE, _COMPARED = 4, 3.5
FREEZES_AFTER = timedelta(days=1)
Step = Callable[[Session], Audit | None]
_AS_GIVEN = {"name", "every", "where", "uses", "labels", "labelers"}


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

    Raises ConflictError for a name that is taken, InvalidInputError for a wrong goal.
    """
    assert new.every is not None
    if find_row(session, AuditSchedule, detector_id=detector.id, name=new.name):
        raise ConflictError(f"there is a schedule named {show(new.name)} already")
    audits.check_aim(detector, new)
    parse_where(session, detector, new.where, at=by.at)
    time_zone = new.time_zone or detector.time_zone
    zone = zone_of(time_zone)
    day = begin(day_in(by.at, zone), new.every)
    if midnight_in(day, zone) < by.at:
        day = following(day, new.every)
    target = new.target
    if target is None and detector.measure in {new.aim, f"recall:{new.aim}"}:
        target = detector.target
    schedule = AuditSchedule(
        detector_id=detector.id,
        version_id=choose_version(session, detector, new),
        **new.model_dump(include=_AS_GIVEN),
        time_zone=time_zone,
        aim=audits.stored_aim(new),
        half_width=None if new.labels else audits.half_width_of(new),
        target=target,
        created_by=by.name,
        created_at=by.at,
        first_since=midnight_in(day, zone),
        next_since=midnight_in(day, zone),
        skipped=[],
    )
    session.add(schedule)
    session.flush()
    _record(session, schedule, by, "audit schedule begun", every=schedule.every)
    return schedule


class ScheduleChange(Input):
    """What changes for the spans whose sets are not frozen yet."""

    labelers: Annotated[list[KeyName], Field(max_length=50)] = Field(default=[])
    half_width: Annotated[float, Field(gt=0, lt=0.5)] | None = None


def change_schedule(
    session: Session, schedule: AuditSchedule, change: ScheduleChange, by: By
) -> None:
    """Change who is asked and the half-width, from the next span on."""
    session.refresh(schedule, with_for_update=True)
    if schedule.stopped_at is not None:
        raise ConflictError("the schedule is stopped")
    schedule.labelers = change.labelers
    if change.half_width is not None and schedule.half_width is not None:
        schedule.half_width = change.half_width
    _record(session, schedule, by, "audit schedule changed")


def stop_schedule(session: Session, schedule: AuditSchedule, by: By) -> AuditSchedule:
    """Make no more audits; those that are open go on.  Twice changes nothing."""
    session.refresh(schedule, with_for_update=True)
    if schedule.stopped_at is None:
        schedule.stopped_at = by.at
        _record(session, schedule, by, "audit schedule stopped")
    return schedule


def get_schedule(session: Session, reference: str) -> AuditSchedule:
    return get_by_id(session, AuditSchedule, "sch", "schedule", reference)


def describe_schedule(session: Session, schedule: AuditSchedule) -> ScheduleSummary:
    """Return a schedule as it is answered."""
    made = storage.list_results(session, schedule)
    results = {one.id: audits.find_result(one) for one in made}
    return ScheduleSummary.from_row(
        schedule,
        id=dump_id("sch", schedule.id),
        detector=dump_id("det", schedule.detector_id),
        version=audits.find_version_name(session, schedule),
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
    zone = zone_of(schedule.time_zone)
    level = session.get_one(Detector, schedule.detector_id).confidence_level
    years: dict[int, list[tuple[int, float | None]]] = {}
    for one in made:
        result = audits.find_result(one)
        known = None if result is None else result.log_evidence_below
        years.setdefault(day_in(one.since, zone).year, []).append((one.id, known))
    if schedule.stopped_at is None:
        years.pop(day_in(schedule.next_since, zone).year, None)
    found = []
    for year, spans in years.items():
        counted = [(number, known) for number, known in spans if known is not None]
        if len(counted) == len(spans):
            most = SPANS_A_YEAR[schedule.every]
            places = stats.list_on_average([known for _, known in counted], most, level)
            below = [dump_id("aud", counted[place][0]) for place in places]
            found.append(ScheduleYear(year=year, spans=len(spans), below_target=below))
    return found


def is_span_due(session: Session, key: Key, at: datetime) -> bool:
    """Return whether the set of the oldest span without one is to be frozen."""
    schedule = session.get_one(AuditSchedule, key, with_for_update=True)
    if schedule.stopped_at is not None:
        return False
    newest = next(iter(storage.list_scheduled(session, schedule, limit=1)), None)
    # Go back to spans that were passed over while the clock was ahead.
    while schedule.next_since > max(schedule.first_since, at - FREEZES_AFTER):
        earlier = _shift(schedule, -1)
        if newest is not None and newest.since == earlier:
            break
        schedule.next_since = earlier
        since = dump_instant(earlier)
        schedule.skipped = [one for one in schedule.skipped if one[0] != since]
    return at >= _shift(schedule, 1) + FREEZES_AFTER


def plan_freezing(session: Session, key: Key, at: datetime) -> list[Step]:
    """Return the transactions that freeze the set of the oldest span without one.

    Each is short, since on SQLite nobody else writes meanwhile.  Nobody sees the audit
    before the last one, which returns the audit of the span before, if any: it ends
    with that, because people are asked about one span at a time.
    """
    schedule = session.get_one(AuditSchedule, key)
    detector = session.get_one(Detector, schedule.detector_id)
    newest = next(iter(storage.list_scheduled(session, schedule, limit=1)), None)
    by, until = By(NOBODY, at, credited=schedule.created_by), _shift(schedule, 1)

    def skip(session: Session) -> None:
        locked = session.get_one(AuditSchedule, key, with_for_update=True)
        if locked.stopped_at is None:
            locked.skipped = [*locked.skipped, [dump_instant(locked.next_since), why]]
            locked.next_since = until

    try:
        new, plan = _plan_audit(session, schedule, newest, at)
    except (ConflictError, InvalidInputError) as error:
        wrong = isinstance(error, InvalidInputError) and error.errors
        why = wrong[0].message if wrong else str(error)
        return [skip]
    made: list[Key] = []

    def add(session: Session) -> None:
        audit = audits.add_audit(session, detector, new, plan, by, schedule.id)
        made[:] = [(detector.id, audit.id)]

    def add_items(session: Session, start: int) -> None:
        audits.add_items(session, session.get_one(Audit, made[0]), plan, start)

    def complete(session: Session) -> Audit | None:
        locked = session.get_one(AuditSchedule, key, with_for_update=True)
        if locked.stopped_at is not None:
            return None
        audit = session.get_one(Audit, made[0])
        audits.complete_audit(session, audit, plan, by)
        for name in locked.labelers:
            share = math.ceil(audit.labels_expected / len(locked.labelers))
            detector = session.get_one(Detector, schedule.detector_id)
            assign(session, detector, NewAssignment(labeler=name, labels=share), by)
        locked.next_since = until
        return newest and session.get_one(Audit, (newest.detector_id, newest.id))

    pieces = range(0, len(plan.ids), audits.PIECE)
    return [add, *(partial(add_items, start=start) for start in pieces), complete]


def _plan_audit(
    session: Session, schedule: AuditSchedule, before: Audit | None, at: datetime
) -> tuple[NewAudit, audits.AuditPlan]:
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
        version=audits.find_version_name(session, schedule) or "*",
        since=schedule.next_since,
        until=until,
        where=schedule.where,
        uses=schedule.uses,
        aim=schedule.aim or BALANCED,
        half_width=schedule.half_width,
        labels=schedule.labels,
    )
    audits.check_name(session, detector, new.name)
    plan = audits.plan_audit(
        session, detector, new, at=at, arrived_before=until + FREEZES_AFTER
    )
    # Nothing is carried over if the judges or the classes have changed.
    if before is None or (before.classes, before.uses) != (detector.classes, plan.uses):
        return new, plan
    ledger = load_record(session, before).ledger
    carried = stats.carry_over(ledger, audits.carried_of(before), plan.strata)
    return new, replace(plan, carried=carried if np.any(carried) else None)


def _shift(schedule: AuditSchedule, spans: int) -> datetime:
    """Return when the next span ends, or the one before it begins."""
    zone, every = zone_of(schedule.time_zone), schedule.every
    day = day_in(schedule.next_since, zone)
    if spans > 0:
        return midnight_in(following(day, every), zone)
    return midnight_in(begin(day - timedelta(days=1), every), zone)


class AuditChange(Input):
    """A narrower aim of an audit that goes on."""

    half_width: float = Field(
        gt=0, lt=0.5, description="Smaller than now; all labels given so far count."
    )


def pause_audit(
    session: Session, audit: Audit, by: By, *, is_paused: bool = True
) -> Audit:
    """Draw nothing more until the audit is resumed, or resume it.

    Labels of what was drawn before still count: a draw is never forgotten.
    """
    _lock_open(session, audit)
    if is_paused != (audit.paused_at is not None):
        audit.paused_at = by.at if is_paused else None
        _record(session, audit, by, f"audit {'paused' if is_paused else 'resumed'}")
    return audit


def extend_audit(session: Session, audit: Audit, change: AuditChange, by: By) -> Audit:
    """Give an audit a narrower aim; its intervals hold at every look all the same.

    Raises InvalidInputError for another aim, ConflictError where it is closed.
    """
    _lock_open(session, audit)
    before = audit.half_width
    if before is None or audit.budget is not None:
        goal = "number of labels" if audit.budget else "target"
        raise InvalidInputError.of("half_width", f"this audit goes by its {goal}")
    if change.half_width >= before:
        raise InvalidInputError.of(
            "half_width",
            f"{change.half_width:g} is not narrower than {before:g}, the aim now",
        )
    session.add(
        AuditExtension(
            detector_id=audit.detector_id,
            audit_id=audit.id,
            number=len(storage.list_extensions(session, audit)),
            half_width_before=before,
            half_width=change.half_width,
            labels=storage.count_draws(session, [audit]).get(audit.id, 0),
            extended_by=by.name,
            extended_at=by.at,
        )
    )
    audit.half_width = change.half_width
    aimed = audits.goal_of(audit)
    audit.labels_expected, audit.labels_at_random = (
        stats.labels_needed(
            stats.Step(labels, 0.5 - before, 0.5 + before), aimed, audit.queries
        )
        for labels in (audit.labels_expected, audit.labels_at_random)
    )
    session.flush()
    widths = {"half_width": change.half_width, "half_width_before": before}
    _record(session, audit, by, "audit extended", **widths)
    return audit


def end_audit(session: Session, audit: Audit, by: By) -> audits.AuditResult | None:
    """Close an audit and return what it says; None if it was closed before.

    Late answers still count for what is computed: a draw is never forgotten.
    """
    session.refresh(audit, with_for_update=True)
    if audit.closed_at is not None:
        return None
    found = get_audit_estimate(session, audit, computed_at=by.at)
    compared = _compare(session, audit)
    result = audits.AuditResult.from_row(found, at=by.at, by=by.name, **compared)
    audit.closed_at, audit.paused_at = by.at, None
    audit.result = result.model_dump_json()
    session.flush()
    _record(session, audit, by, "audit closed")
    return result


def _compare(session: Session, audit: Audit) -> dict[str, Any]:
    """Return what a span of a schedule says beside its target and the spans before.

    It is below the target at a level at which a year of such spans has a false alarm
    with a chance of at most 1 - confidence_level.  An upper bound alone may be wrong
    twice as often as an interval; of the balanced accuracy both bounds rest on the same
    box.
    """
    names = "below_target", "log_evidence_below", "change", "for_late", "all_year"
    values: dict[str, Any] = dict.fromkeys(names)
    if audit.schedule_id is None:
        return values
    schedule = storage.find_schedule(session, audit)
    aim, ledger = audits.goal_of(audit).aim, load_record(session, audit).ledger
    level = audit.confidence_level
    error = (1.0 - level) / SPANS_A_YEAR[schedule.every]
    low, high = stats.look(ledger, 1.0 - error).aimed(aim)
    values["all_year"] = audits.YearBounds(low=low, high=high)
    earlier = storage.list_scheduled(
        session, schedule, limit=_MOST_BEFORE, before=audit.since
    )
    ledgers = [load_record(session, one).ledger for one in earlier]
    # As many draws of each as were fixed beforehand.
    draws = schedule.labels or round(_COMPARED / (schedule.half_width or 1.0))
    if found := earlier and stats.change_since(ledgers, ledger, draws, level):
        least, most = np.clip(found[1], -1.0, 1.0).tolist()
        counts = {"spans": len(earlier), "labels": draws}
        bounds = {"difference": found[0], "low": least, "high": most}
        values["change"] = audits.ChangeSince(**counts, **bounds)
    sure = stats.bound_for_late(ledger, aim, level)
    values["for_late"] = audits.LateBasis(low=sure[0], high=sure[1], queries=sure[2])
    if schedule.target is not None:
        if aim is not None:
            high = stats.look(ledger, 1.0 - 2.0 * error).aimed(aim)[1]
            evidence = stats.log_evidence_below(ledger, aim, schedule.target)
            values["log_evidence_below"] = evidence
        values["below_target"] = high < schedule.target
    return values


def _lock_open(session: Session, audit: Audit) -> None:
    session.refresh(audit, with_for_update=True)
    if audit.closed_at is not None:
        raise ConflictError(f"the audit {show(audit.name)} is closed")


def _record(
    session: Session, row: Audit | AuditSchedule, by: By, action: str, **details: object
) -> None:
    detector = session.get_one(Detector, row.detector_id)
    details = {"audit" if isinstance(row, Audit) else "schedule": row.name, **details}
    by.record(session, action, detector.name, **details)
