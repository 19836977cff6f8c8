"""An audit is paused, resumed, extended by a narrower aim, and ended."""

from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import By
from tracker.services.fields import Input
from tracker.services.labelling.auditing import audits
from tracker.services.labelling.auditing.audit_draws import load_record
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.wording import show
from tracker.storage.detectors import Detector
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audit_draws import count_draws
from tracker.storage.labelling.audits import Audit, AuditExtension, AuditSchedule

# The most that a year can have.
SPANS_A_YEAR = {"day": 366, "week": 53, "month": 12}
# So many spans before are compared, by so many labels of each over the half-width: with
# a good judge a span takes hardly more, and one with fewer cannot be compared.
_MOST_BEFORE, _COMPARED = 4, 3.5


class AuditChange(Input):
    """A narrower aim of an audit that goes on."""

    half_width: float = Field(
        gt=0, lt=0.5, description="Smaller than now; all labels given so far count."
    )


def pause_audit(session: Session, audit: Audit, by: By) -> Audit:
    """Draw nothing more until the audit is resumed; twice changes nothing.

    Labels of what was drawn before still count: a draw is never forgotten.
    """
    locked = _lock_open(session, audit)
    if locked.paused_at is None:
        locked.paused_at = by.at
        _record(session, locked, by, "audit paused")
    return locked


def resume_audit(session: Session, audit: Audit, by: By) -> Audit:
    """Go on with an audit that was paused; twice changes nothing."""
    locked = _lock_open(session, audit)
    if locked.paused_at is not None:
        locked.paused_at = None
        _record(session, locked, by, "audit resumed")
    return locked


def extend_audit(session: Session, audit: Audit, change: AuditChange, by: By) -> Audit:
    """Give an audit a narrower aim; its intervals hold at every look all the same.

    Raises InvalidInputError for one that is not narrower, or where the audit goes by
    a target; ConflictError where it is closed.
    """
    locked = _lock_open(session, audit)
    before = locked.half_width
    if before is None or locked.budget is not None:
        goal = "number of labels" if locked.budget else "target"
        raise InvalidInputError.of("half_width", f"this audit goes by its {goal}")
    if change.half_width >= before:
        raise InvalidInputError.of(
            "half_width",
            f"{change.half_width:g} is not narrower than {before:g}, the aim now",
        )
    earlier = storage.list_extensions(session, locked)
    session.add(
        AuditExtension(
            detector_id=locked.detector_id,
            audit_id=locked.id,
            number=len(earlier),
            half_width_before=before,
            half_width=change.half_width,
            labels=count_draws(session, [locked]).get(locked.id, 0),
            extended_by=by.name,
            extended_at=by.at,
        )
    )
    locked.labels_expected, locked.labels_at_random = (
        _rescaled(locked, labels, change.half_width)
        for labels in (locked.labels_expected, locked.labels_at_random)
    )
    locked.half_width = change.half_width
    session.flush()
    _record(
        *(session, locked, by, "audit extended"),
        half_width=change.half_width,
        half_width_before=before,
    )
    return locked


def _rescaled(audit: Audit, labels: int, half_width: float) -> int:
    """Return how many labels reach *half_width* where *labels* reach the aim now."""
    assert audit.half_width is not None
    reached = stats.Step(labels, 0.5 - audit.half_width, 0.5 + audit.half_width)
    goal = audits.goal_of(audit)._replace(half_width=half_width)
    return stats.labels_needed(reached, goal, audit.queries)


def end_audit(session: Session, audit: Audit, by: By) -> tuple[Audit, bool]:
    """Close an audit and write down what it says; False if it was closed before.

    Nothing is drawn any more.  Late answers still count for what is computed: a draw
    that was handed out is never forgotten.  The record stays as it is.
    """
    locked = storage.lock_one(session, Audit, (audit.detector_id, audit.id))
    if locked.closed_at is not None:
        return locked, False
    result = _build_result(session, locked, by)
    locked.closed_at, locked.paused_at = by.at, None
    locked.result = result.model_dump_json()
    session.flush()
    _record(session, locked, by, "audit closed")
    return locked, True


def _build_result(session: Session, audit: Audit, by: By) -> audits.AuditResult:
    found = get_audit_estimate(session, audit, computed_at=by.at)
    return audits.AuditResult.from_row(
        found, at=by.at, by=by.name, **_compare(session, audit)
    )


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
    error = (1.0 - audit.confidence_level) / SPANS_A_YEAR[schedule.every]
    low, high = _bounds_at(ledger, aim, error)
    values["all_year"] = audits.YearBounds(low=low, high=high)
    values["change"] = _find_change(session, audit, schedule, ledger)
    sure = stats.bound_for_late(ledger, aim, audit.confidence_level)
    values["for_late"] = audits.LateBasis(**sure._asdict())
    if schedule.target is not None:
        if aim is not None:
            high = _bounds_at(ledger, aim, 2.0 * error)[1]
            evidence = stats.log_evidence_below(ledger, aim, schedule.target)
            values["log_evidence_below"] = evidence
        values["below_target"] = high < schedule.target
    return values


def _bounds_at(
    ledger: stats.Ledger, aim: int | None, error: float
) -> tuple[float, float]:
    """Return bounds of an aim, of which the truth lies outside by at most *error*."""
    found = stats.look(ledger, 1.0 - error)
    if aim is None:
        return float(found.balanced.low), float(found.balanced.high)
    return float(found.measures.low[aim]), float(found.measures.high[aim])


def _find_change(
    session: Session, audit: Audit, schedule: AuditSchedule, ledger: stats.Ledger
) -> audits.ChangeSince | None:
    """Compare a span with those before, by as many draws as were fixed beforehand."""
    earlier = storage.list_scheduled(
        session, schedule, limit=_MOST_BEFORE, before=audit.since
    )
    ledgers = [load_record(session, one).ledger for one in earlier]
    draws = schedule.labels or round(_COMPARED / (schedule.half_width or 1.0))
    found = None
    if earlier:
        found = stats.change_since(ledgers, ledger, draws, audit.confidence_level)
    if found is None:
        return None
    difference, (low, high) = found
    return audits.ChangeSince(
        spans=len(earlier),
        labels=draws,
        difference=difference,
        low=max(-1.0, float(low)),
        high=min(1.0, float(high)),
    )


def _lock_open(session: Session, audit: Audit) -> Audit:
    locked = storage.lock_one(session, Audit, (audit.detector_id, audit.id))
    if locked.closed_at is not None:
        raise ConflictError(f"the audit {show(locked.name)} is closed")
    return locked


def _record(
    session: Session, audit: Audit, by: By, action: str, **details: object
) -> None:
    detector = session.get_one(Detector, audit.detector_id)
    by.record(session, action, detector.name, audit=audit.name, **details)
