"""Whether a version is good enough, for a build that stops where it is not.

It goes by intervals that hold at every look, so that a gate which is asked after each
commit stays right.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, ForbiddenError, InvalidInputError
from tracker.rounding import percents
from tracker.services.by import By
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.deciding.pairs import Outcome
from tracker.services.detectors import change_version
from tracker.services.estimates.decision import Decision
from tracker.services.estimates.estimate import (
    Estimate,
    get_estimate,
    refuse_unstated,
)
from tracker.services.estimates.intervals import MethodWord
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import PopulationWord
from tracker.services.fields import Input, Level, VersionName
from tracker.services.versions import choose_versions
from tracker.shapes import Shape
from tracker.storage.detectors import Detector
from tracker.words import DECIDING_METHOD, EDITOR, REPLAYED, UNSTATED, Verdict

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


class GateChoice(Input):
    """Which version is to meet which conditions."""

    target: Level | None = Field(
        default=None, description="The target; by default the detector's own."
    )
    version: VersionName | None = Field(
        default=None, description="The version; by default the one that is shown."
    )
    max_width: Level | None = Field(
        default=None, description="How wide the interval may be."
    )
    not_worse_than: VersionName | None = Field(
        default=None, description="The version to compare with, on the same inputs."
    )
    population: Literal["live", "replayed", "unstated"] | None = Field(
        default=None,
        description="Whose labels count; by default live where the version has a live "
        "label, else replayed.",
    )
    unseen: bool = Field(
        default=False,
        description="Say that the version was made without the labels of the inputs "
        "that it is put to; takes the role editor.",
    )


class Gate(Shape):
    """What the gate says, and by what."""

    detector: str = Field(description="The name of the detector.")
    version: str | None
    verdict: Verdict
    target: float | None
    measure: str
    population: PopulationWord
    method: MethodWord
    low: float
    high: float
    labels: int
    checks: list[Check]


def ask_gate(
    session: Session,
    detector: Detector,
    choice: GateChoice,
    by: By,
) -> Gate:
    """Return whether *detector* meets each condition that is given.

    Without a target it is the detector's own.  One condition that is missed misses
    the whole; otherwise one that is undecided leaves it undecided.  Raises
    InvalidInputError where there is nothing to check, and ConflictError for labels
    that decide nothing.
    """
    if choice.unseen:
        if not by.may(EDITOR):
            raise ForbiddenError("unseen takes the role editor")
        for one in choose_versions(session, detector, choice.version):
            change_version(session, detector, one.name, by, unseen=True)
    estimate = get_estimate(
        session,
        detector,
        computed_at=by.at,
        version=choice.version,
        method=DECIDING_METHOD,
        population=choice.population,
        target=choice.target,
    )
    _check_evidence(estimate)
    checks = _check_estimate(estimate, choice.max_width)
    if choice.not_worse_than is not None:
        comparison = get_comparison(
            session,
            detector,
            computed_at=by.at,
            population=choice.population,
            old=choice.not_worse_than,
            new=estimate.version,
        )
        if comparison.no_decision_because is not None:
            raise ConflictError(f"no verdict: {comparison.no_decision_because}")
        checks.append(_check_change(comparison))
    if not checks:
        raise InvalidInputError.of("target", f"{detector.name} has none of its own")
    return Gate(
        detector=detector.name,
        version=estimate.version,
        verdict=_sum_up([check.verdict for check in checks]),
        target=estimate.target,
        measure=detector.measure,
        population=estimate.population.kind,
        method=DECIDING_METHOD,
        low=estimate.decision.low if estimate.decision else estimate.balanced.low,
        high=estimate.decision.high if estimate.decision else estimate.balanced.high,
        labels=estimate.labels,
        checks=checks,
    )


def _check_evidence(estimate: Estimate) -> None:
    """Raise ConflictError for labels that no verdict may rest on."""
    refusal = estimate.no_decision_because
    if refusal is not None and estimate.target is not None:
        raise ConflictError(f"no verdict: {refusal}")
    if estimate.population.kind == UNSTATED:
        raise ConflictError(f"no verdict: {refuse_unstated(estimate.labels)}")
    if estimate.population.kind == REPLAYED and estimate.target is None:
        raise ConflictError("no verdict: a replay decides about a target only")


def _check_estimate(estimate: Estimate, max_width: float | None) -> list[Check]:
    """Return what came of the targets, and of the width if one is given."""
    decisions = [estimate.decision, *estimate.also]
    checks = [_check_target(one) for one in decisions if one is not None]
    if max_width is not None:
        checks.append(_check_width(estimate, max_width))
    return checks


def _sum_up(verdicts: Sequence[Verdict]) -> Verdict:
    if "missed" in verdicts:
        return "missed"
    return "undecided" if "undecided" in verdicts else "met"


def _check_target(decision: Decision) -> Check:
    low, high = percents(decision.low, decision.high)
    name = read_measure(decision.measure).name
    advice = "" if decision.advice is None else f". {decision.advice.text}"
    return Check(
        name="target",
        verdict=decision.verdict,
        message=f"{name} between {low} and {high} %, target "
        f"{100 * decision.target:g} %, {decision.labels:,} labels"
        + advice.removesuffix("."),
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


def _say_why_undecided(comparison: Comparison) -> str:
    new, old = comparison.new, comparison.old
    if comparison.paired is None:
        return f"{new} and {old} have no labelled input in common"
    # Precision, or a class without a pair.
    return f"the inputs that {new} and {old} share say nothing of the measure"


def _check_change(comparison: Comparison) -> Check:
    new, old, decision = comparison.new, comparison.old, comparison.decision
    if decision is None:
        return Check(
            name="not-worse-than",
            verdict="undecided",
            message=_say_why_undecided(comparison),
        )
    low, high = percents(decision.low, decision.high)
    return Check(
        name="not-worse-than",
        verdict=_OF_COMPARISON[decision.verdict],
        message=f"{new} against {old}: {decision.verdict}, the change of the "
        f"{read_measure(decision.measure).name} lies between {low} and {high} points",
    )
