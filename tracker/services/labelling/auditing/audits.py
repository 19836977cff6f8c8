"""Audits of a fixed set of queries: begun, described and found."""

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import errors, stats
from tracker.services.by import By
from tracker.services.detectors import get_by_id
from tracker.services.estimates.estimate import ClassEstimate
from tracker.services.estimates.weeks import Cut
from tracker.services.evidence.measure import parse_measure
from tracker.services.fields import Instant
from tracker.services.labelling.auditing import audit_sets
from tracker.services.queries.where import parse_where
from tracker.services.wording import invalid, missing, show
from tracker.shapes import Accuracy, Score, Shape
from tracker.storage.base import dump_id, find_row
from tracker.storage.detectors import Detector, name_version
from tracker.storage.dialect import gather_statistics
from tracker.storage.inserting import insert_columns
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit, AuditRound, AuditSchedule
from tracker.words import BALANCED, RECALL

MOST_CLASSES = 50
_USUAL_HALF_WIDTH = 0.05
_NARROWEST, _WIDEST = 0.005, 0.4
# Queries of a set that are written at once.
PIECE = 5_000


class ChangeSince(Shape):
    """The share of right queries in a span, less its mean over the spans before.

    It is of all queries of each set, and UNCLEAR counts as not right.
    """

    spans: int = Field(description="How many spans before, up to four.")
    labels: int = Field(
        description="How many draws of each count, as the schedule fixed it."
    )
    difference: float
    low: float
    high: float


class YearBounds(Shape):
    """Bounds of one span that hold together with those of all others of its year."""

    low: float
    high: float


class LateBasis(YearBounds):
    """What is sure of a set beside which queries arrived late.

    With L of them the accuracy lies from low n / (n + L) to
    1 - (1 - high) n / (n + L), where n are the queries.
    """

    queries: int = Field(
        description="How many queries the aim is of, at least; of the balanced "
        "accuracy those of the smallest class."
    )


class AuditResult(Shape):
    """What an audit said when it was closed; no later label changes it."""

    at: Instant
    by: str
    is_reached: bool = Field(description="Whether the goal was reached.")
    draws: int = Field(description="The number of draws handed out.")
    open_draws: int = Field(description="The number of draws without a label.")
    labels_used: int = Field(description="How many draws counted.")
    labels: int = Field(
        description="The number of labels, including known ones but not unclear ones."
    )
    unclear: int
    half_width: float
    classes: list[ClassEstimate]
    balanced: Accuracy
    overall: Score
    below_target: bool | None = Field(
        default=None,
        description="Of an audit of a schedule with a target: whether its accuracy is "
        "proved to lie below it. The chance that a year has a span of which this is "
        "said wrongly is at most 1 - confidence_level.",
    )
    log_evidence_below: float | None = Field(
        default=None,
        description="The natural logarithm of the evidence (an e-value) that the "
        "accuracy lies below the target; null for the balanced one.",
    )
    all_year: YearBounds | None = Field(
        default=None,
        description="Of an audit of a schedule: wider bounds of what it aims at. That "
        "those of all spans of a year hold has a chance of at least confidence_level.",
    )
    for_late: LateBasis | None = Field(
        default=None,
        description="Of an audit of a schedule: bounds that hold together at the "
        "confidence level, for with_late.",
    )
    change: ChangeSince | None = Field(
        default=None,
        description="Of a span of a schedule, how it differs from those before; null "
        "where one has too few labels.",
    )


class AuditExtended(Shape):
    """A narrower aim that was set while the audit went on."""

    at: Instant
    by: str
    half_width_before: float
    half_width: float
    labels: int = Field(description="How many draws had a label by then.")


class AuditSummary(Shape):
    """An audit: its set of queries, and what is asked about it."""

    id: str = Field(description="aud_ and a number.")
    detector: str = Field(description="The id of the detector.")
    name: str
    version: str | None = Field(description="The version; null for all of them.")
    since: Instant | None
    until: Instant | None
    where: list[str]
    uses: list[str] = Field(
        description="What it goes by beside the predictions, as it was when the audit "
        "began: confidence, judge:NAME."
    )
    aim: str = Field(description="balanced, overall, a class or precision:CLASS.")
    half_width: float | None
    target: float | None = Field(
        description="The target of its goal, or of the schedule that made it."
    )
    confidence_level: float
    queries: int = Field(description="The number of queries in the set.")
    schedule: str | None = Field(
        description="The id of the schedule that made it; null if a person began it."
    )
    every: Cut | None = Field(description="How often that makes one.")
    late: int | None = Field(
        description="Of an audit of a schedule, how many queries of its span arrived "
        "after the set was frozen."
    )
    with_late: Accuracy | None = Field(
        description="Where the accuracy lies with those that were late, once the audit "
        "is closed: in the interval of the set, widened as far as they could move it."
    )
    labels: int | None = Field(
        description="How many labels it takes; null for as many as its goal needs."
    )
    labels_expected: int = Field(
        description="The approximate number of labels that reach the goal."
    )
    labels_at_random: int = Field(
        description="The approximate number if they were drawn at random."
    )
    created_by: str
    created_at: Instant
    paused_at: Instant | None = Field(
        description="When it was paused; nothing has been drawn since."
    )
    closed_at: Instant | None
    extensions: list[AuditExtended] = Field(
        description="How the aim was narrowed, the oldest first."
    )
    result: AuditResult | None = Field(description="null until it is closed.")
    key: str | None = Field(
        description="Anyone can repeat the draws with it; secret until the audit "
        "is closed."
    )


def describe_audit(session: Session, audit: Audit) -> AuditSummary:
    """Return an audit as it is answered."""
    result, every, late, with_late = find_result(audit), None, None, None
    target = audit.target
    if audit.schedule_id is not None:
        schedule = storage.find_schedule(session, audit)
        every, target = schedule.every, schedule.target
        late = count_late(session, audit)
        with_late = include_late(result, late) if result and late else None
    return AuditSummary.from_row(
        audit,
        every=every,
        target=target,
        schedule=audit.schedule_id and dump_id("sch", audit.schedule_id),
        late=late,
        with_late=with_late,
        labels=audit.budget,
        id=dump_id("aud", audit.id),
        detector=dump_id("det", audit.detector_id),
        version=find_version_name(session, audit),
        aim=audit.aim or BALANCED,
        extensions=[
            AuditExtended.from_row(one, at=one.extended_at, by=one.extended_by)
            for one in storage.list_extensions(session, audit)
        ],
        result=result,
        key=None if audit.closed_at is None else audit.secret,
    )


def find_result(audit: Any) -> AuditResult | None:
    return audit.result and AuditResult.model_validate_json(audit.result)


def measure_of(audit: Audit) -> str:
    return (
        f"recall:{audit.aim}" if audit.aim in audit.classes else audit.aim or BALANCED
    )


def aimed_of(audit: Audit, found: Any) -> Accuracy:
    """Return what an estimate, a moment or the result of an audit says of its aim."""
    aim = goal_of(audit).aim
    aimed: Accuracy = found.balanced
    return aimed if aim is None else [*found.classes, found.overall][aim]


def count_late(session: Session, audit: Audit) -> int:
    detector = session.get_one(Detector, audit.detector_id)
    cut = audit_sets.cut_set(audit.version_id, audit.since, audit.until)
    cut += parse_where(session, detector, audit.where, at=audit.created_at)
    return max(0, storage.count_set(session, detector, cut) - audit.queries)


def include_late(result: AuditResult, late: int) -> Accuracy:
    """Return where the accuracy lies with so many queries that arrived late."""
    sure = result.for_late
    assert sure is not None
    kept = sure.queries / (sure.queries + late)
    low, high = kept * sure.low, 1.0 - kept * (1.0 - sure.high)
    return Accuracy(accuracy=None, low=low, high=high)


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """A set of queries as it is now, and what an audit of it is expected to take."""

    version_id: int | None
    ids: stats.Ints
    strata: stats.Strata
    index: stats.Ints
    known: stats.Ints
    uses: list[str]
    goal: stats.Goal
    forecast: stats.Forecast
    # What audits before teach of the strata.
    carried: stats.Floats | None = None


def plan_audit(
    session: Session,
    detector: Detector,
    new: audit_sets.NewAudit,
    *,
    at: datetime,
    arrived_before: datetime | None = None,
) -> AuditPlan:
    """Return the set that is described, and how many labels its goal should take.

    Raises InvalidInputError for a set that is empty or too large, or a wrong aim.
    """
    check_aim(detector, new)
    version_id = audit_sets.choose_version(session, detector, new)
    ids, strata, index, known, uses = audit_sets.read_set(
        session, detector, new, version_id, at=at, arrived_before=arrived_before
    )
    aim = aim_index(detector.classes, stored_aim(new))
    goal = stats.Goal(aim, half_width_of(new), new.target)
    forecast = stats.foresee(strata, known, goal, detector.confidence_level)
    if new.labels is not None:
        # The half-width that so many labels should give, for the bets to go by.
        queries, usual = len(ids), max(1, forecast.labels)
        labels, none = min(new.labels, queries), 1.0 / (queries + 1)
        assert goal.half_width is not None
        wide = goal.half_width * ((1.0 / labels - none) / (1.0 / usual - none)) ** 0.5
        goal = goal._replace(half_width=min(_WIDEST, max(_NARROWEST, wide)))
        at_random = min(queries, round(labels * forecast.at_random / usual))
        forecast = stats.Forecast(labels, at_random)
    return AuditPlan(version_id, ids, strata, index, known, uses, goal, forecast)


def check_aim(detector: Detector, new: audit_sets.NewAudit) -> None:
    if len(detector.classes) > MOST_CLASSES:
        raise invalid("aim", new.aim, f"audits are for up to {MOST_CLASSES} classes")
    if new.aim not in detector.classes:
        parse_measure(new.aim, detector.classes, field="aim", others=("a class",))


def create_audit(
    session: Session, detector: Detector, new: audit_sets.NewAudit, by: By
) -> Audit:
    """Fix the set of queries, put it in order, and write down the first round.

    Raises as `plan_audit`, and ConflictError for a name that is taken.
    """
    check_name(session, detector, new.name)
    plan = plan_audit(session, detector, new, at=by.at)
    audit = add_audit(session, detector, new, plan, by)
    for start in range(0, len(plan.ids), PIECE):
        add_items(session, audit, plan, start)
    complete_audit(session, audit, plan, by)
    return audit


def check_name(session: Session, detector: Detector, name: str) -> None:
    if find_row(session, Audit, detector_id=detector.id, name=name):
        raise errors.ConflictError(f"there is an audit named {show(name)} already")


def complete_audit(session: Session, audit: Audit, plan: AuditPlan, by: By) -> None:
    """Write down the first round of an audit, which nobody has seen before that."""
    ledger = stats.empty_ledger(plan.strata)
    first = stats.next_round(ledger, plan.known, plan.goal, carried=plan.carried)
    audit.queries = len(plan.ids)
    add_round(session, audit, 0, first, by.at)
    storage.mark_known(session, audit, 0)
    gather_statistics(session, ["audit_items"])
    detector = session.get_one(Detector, audit.detector_id)
    about: dict[str, Any] = {"audit": audit.name, "queries": audit.queries}
    by.record(session, "audit begun", detector.name, **about)


def add_round(
    session: Session, audit: Audit, number: int, frozen: stats.Round, at: datetime
) -> None:
    text = json.dumps(frozen.as_json(), separators=(",", ":"))
    key = {"detector_id": audit.detector_id, "audit_id": audit.id, "number": number}
    session.add(AuditRound(**key, frozen=text, began_at=at))
    session.flush()


def add_audit(  # noqa: PLR0913, PLR0917 - what is asked, by whom, of which schedule.
    session: Session,
    detector: Detector,
    new: audit_sets.NewAudit,
    plan: AuditPlan,
    by: By,
    schedule_id: int | None = None,
) -> Audit:
    """Add an audit that nobody sees until its items are in and it is completed."""
    since, until = new.span(by.at)
    carried = None if plan.carried is None else plan.carried.tolist()
    audit = Audit(
        schedule_id=schedule_id,
        carried=carried,
        detector_id=detector.id,
        version_id=plan.version_id,
        name=new.name,
        since=since,
        until=until,
        where=new.conditions,
        uses=plan.uses,
        aim=stored_aim(new),
        half_width=plan.goal.half_width,
        target=new.target,
        budget=new.labels,
        confidence_level=detector.confidence_level,
        classes=list(detector.classes),
        secret=_draw_key(new.seed),
        strata={
            name: np.asarray(x).tolist() for name, x in plan.strata._asdict().items()
        },
        queries=0,
        labels_expected=plan.forecast.labels,
        labels_at_random=plan.forecast.at_random,
        created_by=by.name,
        created_at=by.at,
    )
    session.add(audit)
    session.flush()
    return audit


def get_audit(session: Session, reference: str) -> Audit:
    audit = get_by_id(session, Audit, "aud", "audit", reference)
    if not audit.queries:
        raise missing("audit", reference)
    return audit


def find_version_name(session: Session, row: Audit | AuditSchedule) -> str | None:
    number = row.version_id
    return None if number is None else name_version(session, row.detector_id, number)


def goal_of(audit: Audit) -> stats.Goal:
    aim = aim_index(audit.classes, audit.aim)
    return stats.Goal(aim, audit.half_width, audit.target)


def aim_index(classes: list[str], aim: str | None) -> int | None:
    """Return the position of the class, or behind them for all queries of the set."""
    return None if aim is None else label_code(classes, aim)


def stored_aim(new: audit_sets.NewAudit) -> str | None:
    """Return a class, overall or a precision; None for the balanced accuracy."""
    return None if new.aim == BALANCED else new.aim.removeprefix(f"{RECALL}:")


def label_code(classes: list[str], label: str | None) -> int:
    """Return the position of a label; behind them is what none of the classes is."""
    if label is None:
        return stats.OPEN
    return classes.index(label) if label in classes else len(classes)


def carried_of(audit: Audit) -> stats.Floats | None:
    return None if audit.carried is None else np.asarray(audit.carried)


def half_width_of(new: audit_sets.NewAudit) -> float | None:
    if new.target is not None and new.every is None:
        return None
    return new.half_width or _USUAL_HALF_WIDTH


def _draw_key(seed: str | None) -> str:
    if seed is None:
        return secrets.token_hex(32)
    return hashlib.sha256(f"audit {seed}".encode()).hexdigest()


def add_items(session: Session, audit: Audit, plan: AuditPlan, start: int) -> None:
    """Add a piece of the set, from the place *start* on."""
    key, piece = bytes.fromhex(audit.secret), slice(start, start + PIECE)
    ids = plan.ids[piece].tolist()
    columns = {
        "audit_id": [audit.id] * len(ids),
        "stratum": plan.index[piece].tolist(),
        "rank": [stats.rank_of(key, f"iq_{number}") for number in ids],
        "query_id": ids,
        "detector_id": [audit.detector_id] * len(ids),
        "known_from": [None] * len(ids),
    }
    insert_columns(session, storage.AuditItem, columns)
