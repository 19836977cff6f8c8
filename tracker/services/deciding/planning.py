"""How many more labels make intervals narrow, or show that a target is exceeded."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import shapes, stats, words
from tracker.services.estimates.counted import Unit
from tracker.services.estimates.decision import Advice
from tracker.services.estimates.estimate import ClassEstimate, Estimate
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import PopulationWord
from tracker.services.fields import Instant
from tracker.services.labelling.auditing import audit_sets, audits
from tracker.services.wording import invalid
from tracker.stats import chance_to_certify
from tracker.storage.detectors import Detector

# What a weekly audit takes is foreseen from the week that is there.
_WEEK = "7d"
# A forecast reads all queries of a version, and carries out an audit of them.
_MOST_FORESEEN_QUERIES, _MOST_FORESEEN_CLASSES = 100_000, 20

USUAL_WIDTH = 0.1
USUAL_POWER = 0.8

# With more classes the best split among them takes too long to find, and a split by
# their spreads, which costs a few percent more labels, is taken.
_MOST_SPLIT_CLASSES = 24

# Eigenvalues of many small matrices take a while, and a page that stays open asks
# for the same plan again and again.
_labels_to_certify = lru_cache(maxsize=4096)(stats.labels_to_certify)


def labels_for_balanced(estimate: Estimate, width: float) -> tuple[int, ...] | None:
    """Return how many more labels of each class bring the balanced interval to width.

    The interval is that of the estimate's method.  None is more than ten million of a
    class.
    """
    counts = (estimate.correct, estimate.labelled)
    shares = estimate.shares if estimate.method == words.DECIDING_METHOD else None
    return narrow_balanced(
        *counts, width, estimate.shown_level, estimate.method, shares
    )


@lru_cache(maxsize=256)
def narrow_balanced(  # noqa: PLR0913, PLR0917 - counts, and the interval of them.
    ks: tuple[int, ...],
    ns: tuple[int, ...],
    width: float,
    level: float,
    method: str = words.EXACT,
    shares: tuple[float, ...] | None = None,
) -> tuple[int, ...] | None:
    """Return how many more labels of each class bring the interval of counts to width.

    None is more than ten million of a class.
    """
    if method == words.EXACT and len(ns) <= _MOST_SPLIT_CLASSES:
        return stats.labels_to_reach_balanced_width(ks, ns, width, level)
    interval = partial(stats.balanced_interval, method, shares=shares)
    return stats.labels_to_narrow(interval, ks, ns, width, level)


def _narrow(estimate: Estimate, k: int, n: int, width: float) -> int | None:
    is_deciding = estimate.method == words.DECIDING_METHOD
    return _narrow_class(k, n, width, estimate.shown_level, is_deciding=is_deciding)


@lru_cache(maxsize=4096)
def _narrow_class(
    k: int, n: int, width: float, level: float, *, is_deciding: bool
) -> int | None:
    if not is_deciding:
        return stats.labels_to_reach_width(k, n, width, level)

    def interval(ks: Any, ns: Any, level: float) -> stats.Interval:
        return stats.anytime(ks[0], ns[0], level)

    more = stats.labels_to_narrow(interval, [k], [n], width, level)
    return None if more is None else more[0]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted, and what is supposed.

    Without an *accuracy* each class is supposed to stay as it is estimated.
    """

    width: float = USUAL_WIDTH
    target: float | None = None
    accuracy: float | None = None
    power: float = USUAL_POWER
    more: int | None = None


class PlannedClass(shapes.OfClass):
    """How many further labels a class needs; null if no number is enough."""

    correct: int
    labelled: int
    for_width: int | None = Field(
        description="The number of labels that brings the interval of this class "
        "to the width."
    )
    for_balanced_width: int | None = Field(
        description="The share of this class in the labels that bring the balanced "
        "interval to the width."
    )
    to_certify: int | None = Field(
        description="The number from which on the low end of its interval is above "
        "the target with the chance power; null also without a target."
    )
    chance_to_certify: float | None = Field(
        description="The chance of that after the number of labels in more; null "
        "without more."
    )


class NextClass(shapes.OfClass):
    """The class whose next label helps most."""

    reason: Literal["unlabelled", "narrows_most"] = Field(
        description="unlabelled, or narrows_most (the interval of the measure)."
    )


class LabelPlan(shapes.OfDetector):
    """How many labels it takes to know the accuracies well enough."""

    computed_at: Instant
    population: PopulationWord = Field(description="Whose labels it starts from.")
    unit: Unit = Field(description="What counts once.")
    measure: str = Field(description="The detector's measure, which the advice is on.")
    confidence_level: float
    width: float
    target: float | None
    accuracy: float | None = Field(
        description="The assumed accuracy of each class; null for the current estimate."
    )
    power: float
    more: int | None
    classes: list[PlannedClass]
    for_balanced_width: int | None = Field(
        description="The total number of labels that brings the balanced interval "
        "to the width."
    )
    draws_for_width: int | None = Field(
        description="About how many queries drawn at random bring the interval of the "
        "measure to the width; null where that cannot be foreseen."
    )
    next: NextClass | None = Field(
        description="null where the measure is the overall accuracy or a precision, "
        "which no label of a certain class is needed for."
    )
    advice: Advice | None = Field(
        description="What decides the target; null without one, once it is decided, "
        "and where nothing can be foreseen."
    )

    @property
    def interval(self) -> str:
        """Which interval the width is of, in words."""
        if self.measure == words.BALANCED:
            return "balanced interval"
        return f"interval of the {read_measure(self.measure).name}"


def price_audit(session: Session, detector: Detector, estimate: Estimate) -> Estimate:
    """Return *estimate* with the price in an audit in its advice, where it has one."""
    decision = estimate.decision
    advice = None if decision is None else decision.advice
    if decision is None or advice is None or estimate.version is None:
        return estimate
    if decision.because is not None:
        # Where every query gets its label, an audit of some changes no verdict.
        return estimate
    is_few = (
        len(detector.classes) <= _MOST_FORESEEN_CLASSES
        and (estimate.population.of or math.inf) <= _MOST_FORESEEN_QUERIES
    )
    if advice.random_queries is None or not is_few:
        return estimate
    labels = _foresee(session, detector, estimate)
    if labels is None:
        # Every query is labelled: nothing is left to draw.
        return estimate
    weekly = _foresee(session, detector, estimate, since=_WEEK)
    advice = advice.with_audit(labels, weekly)
    decision = decision.model_copy(update={"advice": advice})
    return estimate.model_copy(update={"decision": decision})


def _foresee(
    session: Session, detector: Detector, estimate: Estimate, since: str | None = None
) -> int | None:
    """Return about how many labels an audit takes to decide the target.

    It is of the queries of the version of *estimate* asked *since* so long ago.  None
    where there is none without a label.
    """
    decision = estimate.decision
    assert decision is not None
    wanted = audit_sets.NewAudit(
        name="forecast",
        version=estimate.version,
        aim=decision.measure,
        target=decision.target,
        since=since,
    )
    version_id = audit_sets.choose_version(session, detector, wanted)
    try:
        _, strata, _, known, _ = audit_sets.read_set(
            session, detector, wanted, version_id, at=estimate.computed_at
        )
    except audit_sets.EmptySetError:
        return None
    if known.sum() == strata.sizes.sum():
        return None
    aim = audits.aim_index(detector.classes, audits.stored_aim(wanted))
    goal = stats.Goal(aim, None, decision.target)
    return stats.foresee_labels(strata, known, goal, detector.confidence_level)


def build_plan(
    estimate: Estimate,
    goal: Goal,
    measure: str,
    *,
    among: Collection[str] | None = None,
) -> LabelPlan:
    """Return what it takes from *estimate* to *goal*, for each class or those *among*.

    *measure* is the detector's.  A goal without a target has the detector's, if any.

    Raises InvalidInputError for more labels than are planned for.
    """
    if goal.more is not None and goal.more > stats.MOST_LABELS - estimate.labels:
        raise invalid(
            "more", goal.more, f"in all there may be {stats.MOST_LABELS:,} labels"
        )
    if goal.target is None:
        goal = replace(goal, target=estimate.target)
    level = estimate.confidence_level
    balanced = labels_for_balanced(estimate, goal.width)
    return LabelPlan(
        detector=estimate.detector,
        name=estimate.name,
        version=estimate.version,
        computed_at=estimate.computed_at,
        population=estimate.population.kind,
        unit=estimate.unit,
        measure=measure,
        confidence_level=level,
        **asdict(goal),
        classes=[
            _plan_class(
                estimate, one, goal, None if balanced is None else balanced[place]
            )
            for place, one in enumerate(estimate.classes)
            if among is None or one.name in among
        ],
        for_balanced_width=None if balanced is None else sum(balanced),
        draws_for_width=count_draws(estimate, goal.width, measure),
        next=choose_next(estimate, measure),
        advice=None if estimate.decision is None else estimate.decision.advice,
    )


def count_draws(estimate: Estimate, width: float, measure: str) -> int | None:
    """Return how many random draws bring the interval of *measure* to *width*, roughly.

    Nobody can order labels of a class: they come as often as the class does.
    """
    chosen = read_measure(measure)
    right, counted = chosen.count_right(estimate.confusion)
    more: tuple[int | None, ...] | None
    if chosen.kind == words.BALANCED:
        more = labels_for_balanced(estimate, width)
    else:
        more = (_narrow(estimate, right[0], counted[0], width),)
    pairs = list(zip(more or (None,), counted, strict=False))
    if any(wanted is None or (wanted and not n) for wanted, n in pairs):
        return None
    draws = (wanted * estimate.labels / n for wanted, n in pairs if wanted)
    return math.ceil(max(draws, default=0))


def choose_next(estimate: Estimate, measure: str) -> NextClass | None:
    """Return the class whose next label is worth most for *measure*, if one is."""
    chosen = read_measure(measure)
    if chosen.kind in {words.OVERALL, words.PRECISION}:
        return None
    place = stats.next_class(estimate.correct, estimate.labelled)
    if chosen.of is not None:
        place = [*estimate.confusion].index(chosen.of)
    found = estimate.classes[place]
    return NextClass(
        name=found.name, reason="narrows_most" if found.labelled else "unlabelled"
    )


def _plan_class(
    estimate: Estimate, one: ClassEstimate, goal: Goal, for_balanced: int | None
) -> PlannedClass:
    k, n, level = one.correct, one.labelled, estimate.confidence_level
    accuracy = one.accuracy if goal.accuracy is None else goal.accuracy
    to_certify = chance = None
    if goal.target is not None and accuracy is not None:
        to_certify = _labels_to_certify(
            goal.target, accuracy, goal.power, level, k=k, n=n
        )
        if goal.more is not None:
            chance = chance_to_certify(
                goal.more, goal.target, level, accuracy=accuracy, k=k, n=n
            )
    return PlannedClass(
        name=one.name,
        correct=k,
        labelled=n,
        for_width=_narrow(estimate, k, n, goal.width),
        for_balanced_width=for_balanced,
        to_certify=to_certify,
        chance_to_certify=chance,
    )
