"""An audit is paused, resumed, extended by a narrower aim, and ended."""

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.services.by import By
from tracker.services.fields import Input
from tracker.services.labelling.auditing.audit_draws import load_record
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audits import AuditResult, goal_of
from tracker.services.wording import show
from tracker.stats import Step, labels_needed, look
from tracker.storage.detectors import Detector
from tracker.storage.labelling.auditing import audits as storage
from tracker.storage.labelling.auditing.audit_draws import count_draws
from tracker.storage.labelling.auditing.audits import Audit, AuditExtension
from tracker.storage.labelling.auditing.schedules import AuditSchedule

# The most that a year can have.
SPANS_A_YEAR = {"day": 366, "week": 53, "month": 12}


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
    earlier = storage.list_extensions(session, locked.id)
    session.add(
        AuditExtension(
            audit_id=locked.id,
            number=len(earlier),
            half_width_before=before,
            half_width=change.half_width,
            labels=count_draws(session, [locked.id]).get(locked.id, 0),
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
    reached = Step(labels, 0.5 - audit.half_width, 0.5 + audit.half_width)
    goal = goal_of(audit)._replace(half_width=half_width)
    return labels_needed(reached, goal, audit.queries)


def end_audit(session: Session, audit: Audit, by: By) -> tuple[Audit, bool]:
    """Close an audit and write down what it says; False if it was closed before.

    Nothing is drawn any more.  Late answers still count for what is computed: a draw
    that was handed out is never forgotten.  The record stays as it is.
    """
    locked = storage.lock_audit(session, audit.id)
    if locked.closed_at is not None:
        return locked, False
    result = _build_result(session, locked, by)
    locked.closed_at, locked.paused_at = by.at, None
    locked.result = result.model_dump_json()
    session.flush()
    _record(session, locked, by, "audit closed")
    return locked, True


def _build_result(session: Session, audit: Audit, by: By) -> AuditResult:
    found = get_audit_estimate(session, audit, computed_at=by.at)
    return AuditResult.from_row(
        found,
        at=by.at,
        by=by.name,
        below_target=_is_below_target(session, audit),
    )


def _is_below_target(session: Session, audit: Audit) -> bool | None:
    """Return whether the accuracy of a schedule's span is proved to be too low.

    At a level at which a year of such spans has a false alarm with a chance of at most
    1 - confidence_level.  An upper bound alone may be wrong twice as often as an
    interval; of the balanced accuracy both bounds rest on the same box.
    """
    schedule = audit.schedule_id and session.get_one(AuditSchedule, audit.schedule_id)
    if not schedule or schedule.target is None:
        return None
    error = (1.0 - audit.confidence_level) / SPANS_A_YEAR[schedule.every]
    aim = goal_of(audit).aim
    ledger = load_record(session, audit).ledger
    found = look(ledger, 1.0 - (error if aim is None else 2.0 * error))
    high = found.balanced.high if aim is None else found.measures.high[aim]
    return bool(high < schedule.target)


def _lock_open(session: Session, audit: Audit) -> Audit:
    locked = storage.lock_audit(session, audit.id)
    if locked.closed_at is not None:
        raise ConflictError(f"the audit {show(locked.name)} is closed")
    return locked


def _record(
    session: Session, audit: Audit, by: By, action: str, **details: object
) -> None:
    detector = session.get_one(Detector, audit.detector_id)
    by.record(session, action, detector.name, audit=audit.name, **details)
