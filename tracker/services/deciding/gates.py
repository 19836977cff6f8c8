"""Whether a version is good enough, for a build that stops where it is not.

It goes by intervals that hold at every look, so that a gate which is asked after each
commit stays right.  The client asks the same over HTTP, in the same words.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.rounding import percents
from tracker.services.deciding.comparison import get_comparison
from tracker.services.deciding.pairs import Outcome, SequentialDecision
from tracker.services.estimates.decision import compare_with_target
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.intervals import ALL
from tracker.services.wording import invalid
from tracker.shapes import Shape
from tracker.storage.detectors import Detector
from tracker.words import DECIDING_METHOD, Verdict

_OF_COMPARISON: dict[Outcome, Verdict] = {
    "better": "met",
    "worse": "missed",
    "undecided": "undecided",
}


class Check(Shape):
    """One condition, what came of it, and why."""

    name: str
    verdict: Verdict
    message: str


class Gate(Shape):
    """What the gate says, and by what."""

    detector: str
    version: str | None
    verdict: Verdict
    target: float | None
    method: str
    low: float
    high: float
    labels: int
    checks: list[Check]


def ask_gate(  # noqa: PLR0913 - one for each condition.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    target: float | None = None,
    version: str | None = None,
    max_width: float | None = None,
    not_worse_than: str | None = None,
) -> Gate:
    """Return whether *detector* meets each condition that is given.

    Without *target* it is the detector's own.  One condition that is missed misses
    the whole; otherwise one that is undecided leaves it undecided.  Raises
    InvalidInputError where there is nothing to check, and for pooled versions.
    """
    if version == ALL:
        raise invalid(
            "version", version, "a gate is for one version: pooled have no verdict"
        )
    target = target or detector.target
    estimate = get_estimate(
        session,
        detector,
        computed_at=computed_at,
        version=version,
        method=DECIDING_METHOD,
    )
    checks = []
    if target is not None:
        checks.append(_check_target(estimate, target))
    if max_width is not None:
        checks.append(_check_width(estimate, max_width))
    if not_worse_than is not None:
        comparison = get_comparison(
            session,
            detector,
            computed_at=computed_at,
            old=not_worse_than,
            new=estimate.version,
        )
        decision = comparison.paired.decision if comparison.paired else None
        checks.append(_check_change(comparison.new, comparison.old, decision))
    if not checks:
        raise InvalidInputError.of("target", f"{detector.name} has none of its own")
    return Gate(
        detector=detector.name,
        version=estimate.version,
        verdict=_sum_up([check.verdict for check in checks]),
        target=target,
        method=DECIDING_METHOD,
        low=estimate.balanced.low,
        high=estimate.balanced.high,
        labels=estimate.labels,
        checks=checks,
    )


def _sum_up(verdicts: Sequence[Verdict]) -> Verdict:
    if "missed" in verdicts:
        return "missed"
    return "undecided" if "undecided" in verdicts else "met"


def _check_target(estimate: Estimate, target: float) -> Check:
    low, high = percents(estimate.balanced.low, estimate.balanced.high)
    return Check(
        name="target",
        verdict=compare_with_target(
            estimate.balanced.low, estimate.balanced.high, target
        ),
        message=f"balanced accuracy between {low} and {high} %, target "
        f"{100 * target:g} %, {estimate.labels:,} labels",
    )


def _check_width(estimate: Estimate, most: float) -> Check:
    width = estimate.balanced.width
    # More labels make it narrower: too wide is not yet a failure.
    return Check(
        name="max-width",
        verdict="met" if width <= most else "undecided",
        message=f"the interval is {100 * width:.2f} points wide, at most "
        f"{100 * most:g} wanted",
    )


def _check_change(new: str, old: str, decision: SequentialDecision | None) -> Check:
    if decision is None:
        return Check(
            name="not-worse-than",
            verdict="undecided",
            message=f"{new} and {old} have no labelled input in common",
        )
    low, high = percents(decision.low, decision.high)
    return Check(
        name="not-worse-than",
        verdict=_OF_COMPARISON[decision.verdict],
        message=f"{new} against {old}: {decision.verdict}, of the inputs on which they "
        f"differ it wins {decision.won:,} and loses {decision.lost:,}, "
        f"a share between {low} and {high} %",
    )
