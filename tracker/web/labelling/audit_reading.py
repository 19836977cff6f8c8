"""An audit as its page and its report say it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.http import find_comparison
from tracker.services.labelling.auditing.audit_draws import Record, load_record, look_at
from tracker.services.labelling.auditing.audit_estimates import (
    AuditMoment,
    SetEstimate,
    build_audit_estimate,
    build_history,
    expected_in_all,
)
from tracker.services.labelling.auditing.audit_reasons import Reason, find_last_reason
from tracker.services.labelling.auditing.audits import aimed_of, goal_of
from tracker.stats import OPEN, Step
from tracker.storage.labelling.auditing.audit_draws import count_labelers
from tracker.storage.labelling.auditing.audits import Audit
from tracker.web.drawing.closing import Closing, draw_closing
from tracker.web.drawing.readings import (
    Axis,
    Reading,
    build_axis,
    read,
    read_balanced,
    read_classes,
)
from tracker.words import PRECISION

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
        reason=find_last_reason(record),
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
