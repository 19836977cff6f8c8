"""What an audit says of its set, why it drew what it drew, and whether that helped."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.decision import Decision, Span, compare_with_target
from tracker.services.estimates.estimate import ClassEstimate, Estimate, Population
from tracker.services.evidence.populations import LIVE
from tracker.services.fields import Instant
from tracker.services.labelling.auditing.audit_draws import Record, load_record
from tracker.services.labelling.auditing.audits import (
    find_version_name,
    goal_of,
    measure_of,
)
from tracker.shapes import Accuracy, Score, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling.audits import Audit
from tracker.storage.labels import find_labels
from tracker.words import NO_ANSWER, OVERALL, one_of

METHOD = "active"
# From so many labels on the interval itself says how many more it takes.
_ENOUGH = 100


class SetEstimate(Estimate):
    """The estimate of an audit's set; intervals hold at every look at once."""

    method: Annotated[str, one_of([METHOD])]
    audit: str = Field(description="The id of the audit.")
    queries: int = Field(description="The number of queries in the set.")
    overall: Score = Field(description="The accuracy over all queries of the set.")
    draws: int = Field(description="The number of draws so far.")
    open_draws: int = Field(description="The number of draws without a label.")
    labels_used: int = Field(
        description="The number of draws that count: those before the first open one."
    )
    half_width: float = Field(
        description="Half the width of the interval that the audit aims at."
    )
    is_reached: bool = Field(description="Whether the audit has reached its goal.")
    labels_left: int = Field(
        description="The approximate number of further labels that reach the goal."
    )


class AuditMoment(Shape):
    """The intervals when a round of draws began, or now."""

    at: Instant
    draws: int = Field(description="The number of draws that counted.")
    labels_expected: int = Field(
        description="The number of draws expected to reach the goal."
    )
    labels: int
    classes: list[ClassEstimate]
    balanced: Accuracy
    overall: Score


def get_audit_estimate(
    session: Session, audit: Audit, *, computed_at: datetime
) -> SetEstimate:
    return build_audit_estimate(session, load_record(session, audit), computed_at)


def build_audit_estimate(session: Session, record: Record, at: datetime) -> SetEstimate:
    """Return a look at an audit as an estimate."""
    audit, found = record.audit, record.look
    detector = session.get_one(Detector, audit.detector_id)
    view, aimed = _view(audit, found)
    confusion, unclear = _confusion(record)
    decision = _decide(audit, aimed)
    labels = view["labels"] + unclear
    if audit.budget is not None:
        is_reached = record.ledger.settled >= min(audit.budget, record.drawable)
    else:
        stands = stats.Step(labels, aimed.low, aimed.high)
        is_reached = goal_of(audit).is_reached(stands) or labels == audit.queries
    newest = find_labels(session, audit.detector_id, [record.last_label_id])
    last = newest.get(record.last_label_id)
    step = stats.Step(found.settled, aimed.low, aimed.high)
    left = expected_in_all(audit, record.drawable, step) - found.settled
    return SetEstimate(
        **view,
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=find_version_name(session, audit) or "*",
        computed_at=at,
        confidence_level=audit.confidence_level,
        method=METHOD,
        basis=f"{view['labels']:,} labels of a set of {audit.queries:,} queries.",
        population=Population(kind=LIVE, queries=labels, of=audit.queries),
        unit="query",
        unclear=unclear,
        unstated=0,
        targeted_left_out=0,
        repeats_left_out=0,
        grouped_left_out=0,
        includes_targeted=False,
        confusion=confusion,
        last_label_at=last["created_at"] if last else None,
        corrections=0,
        target=audit.target,
        decision=decision,
        no_decision_because=None if decision else "the audit has no target",
        audit=dump_id("aud", audit.id),
        queries=audit.queries,
        draws=len(record.draws),
        open_draws=int((record.ledger.labels == stats.OPEN).sum()),
        labels_used=found.settled,
        half_width=step.half_width,
        is_reached=is_reached,
        labels_left=0 if is_reached else max(1, left),
    )


def build_history(record: Record, *, computed_at: datetime) -> list[AuditMoment]:
    """Return a look at an audit as what stood at the start of each round, and now."""
    audit, found = record.audit, record.look

    def stood(look: stats.Look, draws: int, at: datetime) -> AuditMoment:
        view, aimed = _view(audit, look)
        step = stats.Step(draws, aimed.low, aimed.high)
        expected = expected_in_all(audit, record.drawable, step)
        return AuditMoment(**view, at=at, draws=draws, labels_expected=expected)

    moments = []
    for number, standing in enumerate(found.standings):
        start = record.ledger.rounds[number].start
        measures, mean = standing.intervals()
        right, of = record.ledger.totals(start, max(0, number - 1))
        none = np.full(len(of), np.nan)
        before = stats.Look(measures, mean, none, right, of, start, ())
        moments.append(stood(before, start, record.rounds[number].began_at))
    return [*moments, stood(found, found.settled, computed_at)]


def expected_in_all(
    audit: Audit, drawable: int, step: stats.Step, *, at_random: bool = False
) -> int:
    """Return about how many draws reach the goal, seen from *step*.

    Of a few labels the interval says little: the forecast of the beginning, made for
    the goal as it was then, counts until half of it is there, or a hundred labels.
    So it does for labels at random, whether they would be there by now or not.
    """
    if audit.budget is not None and not at_random:
        return min(drawable, audit.budget)
    enough = min(_ENOUGH, audit.labels_expected // 2 + 1)
    if step.labels < enough and (at_random or not goal_of(audit).is_reached(step)):
        first = audit.labels_at_random if at_random else audit.labels_expected
        return min(drawable, max(first, step.labels + 1))
    return stats.labels_needed(step, goal_of(audit), drawable)


def _decide(audit: Audit, aimed: Score) -> Decision | None:
    if audit.target is None:
        return None
    verdict = compare_with_target(aimed.low, aimed.high, audit.target)
    return Decision(
        verdict=verdict,
        measure=measure_of(audit),
        target=audit.target,
        method=METHOD,
        accuracy=aimed.accuracy,
        low=aimed.low,
        high=aimed.high,
        labels=aimed.labelled,
        span=Span(),
        # How many are left is said for the goal as a whole.
        labels_to_decide=None if verdict == "undecided" else 0,
    )


def _view(audit: Audit, found: stats.Look) -> tuple[dict[str, Any], Score]:
    """Return what is known of classes, their mean and all queries, and of the aim."""
    scopes = [
        ClassEstimate(
            name=name,
            correct=int(found.correct[place]),
            labelled=int(found.labelled[place]),
            accuracy=None if math.isnan(estimate) else estimate,
            low=float(found.measures.low[place]),
            high=float(found.measures.high[place]),
        )
        for place, (name, estimate) in enumerate(
            zip([*audit.classes, OVERALL], found.estimates.tolist(), strict=True)
        )
    ]
    classes = scopes[:-1]
    low, high = float(found.balanced.low), float(found.balanced.high)
    known = [scope.accuracy for scope in classes if scope.accuracy is not None]
    mean = sum(known) / len(known) if len(known) == len(classes) else None
    balanced = Score(
        correct=sum(scope.correct for scope in classes),
        labelled=sum(scope.labelled for scope in classes),
        accuracy=None if mean is None else min(max(mean, low), high),
        low=low,
        high=high,
    )
    view = {
        "labels": scopes[-1].labelled,
        "classes": classes,
        "balanced": Accuracy.from_row(balanced),
        "overall": Score.from_row(scopes[-1]),
    }
    aim = goal_of(audit).aim
    return view, balanced if aim is None else scopes[aim]


def _confusion(record: Record) -> tuple[dict[str, dict[str, int]], int]:
    """Return label by prediction, and how many are unclear; known labels included."""
    audit, ledger = record.audit, record.ledger
    counts = ledger.count_labels(ledger.known[-1])
    table: dict[str, dict[str, int]] = {name: {} for name in audit.classes}
    for stratum, row in enumerate(counts.tolist()):
        said = [*audit.classes, NO_ANSWER][int(ledger.strata.predicted[stratum])]
        for place, name in enumerate(audit.classes):
            if row[place]:
                table[name][said] = table[name].get(said, 0) + row[place]
    return table, int(counts[:, -1].sum())


# As narrow is an interval when nothing is open but the last digits.
_NOTHING = 1e-4


@dataclass(frozen=True, slots=True)
class Comparison:
    """How an audit closes in when it chooses, and when chance alone does.

    Both are simulated by what the labels had taught when the last round began, and
    are means of a few audits, so that the luck of none of them counts.  Their rounds
    are longer than those of an audit and their intervals somewhat wider, both alike:
    so only what lies between the two is told of an audit.
    """

    chosen: Sequence[stats.Step]
    even: Sequence[stats.Step]
    # As chosen without what judges said; empty where none said anything.
    unjudged: Sequence[stats.Step] = ()

    def at_random(self, steps: Sequence[stats.Step]) -> list[stats.Step]:
        """Return what random labels would be expected to have given beside *steps*."""
        found = []
        labels, widths = zip(
            *((one.labels, one.half_width) for one in steps), strict=True
        )
        for one in self.even:
            if one.labels <= steps[-1].labels:
                middle = (one.low + one.high) / 2.0
                half = float(np.interp(one.labels, labels, widths))
                half *= self._ratio(self.even, one.labels)
                low, high = max(0.0, middle - half), min(1.0, middle + half)
                found.append(stats.Step(one.labels, low, high))
        return found

    def half_width_at_random(self, draws: int, half_width: float) -> float:
        return half_width * self._ratio(self.even, draws)

    def labels_saved(self, draws: int) -> int | None:
        """Return the labels that choosing saved, or lost below 0; None for too few."""
        return self._saved(self.even, draws)

    def saved_by_judges(self, draws: int) -> int | None:
        """Return the same of what judges said; None without judges, too."""
        return self._saved(self.unjudged, draws) if self.unjudged else None

    def _saved(self, other: Sequence[stats.Step], draws: int) -> int | None:
        if draws < _ENOUGH:
            return None
        return round(draws * (self._ratio(other, draws) ** 2 - 1.0))

    def _ratio(self, other: Sequence[stats.Step], draws: int) -> float:
        # Compared where a simulated round ends: within one the intervals of choice
        # narrow at a pace that no line between two ends follows.
        ends = list(zip(self.chosen, other, strict=False))
        later = (both for both in ends if both[0].labels >= draws)
        chosen, wide = (one.half_width for one in next(later, ends[-1]))
        # Once nearly all is labelled, there is nothing to choose.
        return wide / chosen if chosen > _NOTHING else 1.0


def compare_with_random(record: Record) -> Comparison:
    """Return how random labels would have done, as known when the last round began."""
    audit, whole = record.audit, record.ledger
    start = whole.rounds[-1].start
    ledger = replace(whole, drawn=whole.drawn[:start], labels=whole.labels[:start])
    goal, known = goal_of(audit), ledger.known[-1]
    shares = stats.label_shares(ledger, known, goal)
    courses = [(ledger.strata, shares, known, is_even) for is_even in (False, True)]
    if ledger.strata.verdicts.size:
        courses.append((*stats.without_judges(ledger.strata, shares, known), False))
    return Comparison(
        *(
            stats.imagine_average(
                *(strata, some, there, goal, audit.confidence_level),
                is_even=is_even,
                draws=start + stats.round_length(start),
            )
            for strata, some, there, is_even in courses
        )
    )
