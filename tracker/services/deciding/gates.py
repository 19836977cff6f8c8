"""Whether a version is good enough, for a build that stops where it is not.

It goes by intervals that hold at every look, so that a gate which is asked after each
commit stays right for a version.  Of many versions at the limit some would pass; a gate
of the *family* gives each version a part of the error, by e-LOND, the larger the more
versions have passed, whatever labels they share.
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
from tracker.services.estimates.decision import refuse_unstated
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.intervals import MethodWord
from tracker.services.estimates.measures import score_named, score_own
from tracker.services.estimates.replays import find_replay
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import PopulationWord
from tracker.services.fields import Input, Level, VersionName
from tracker.services.versions import choose_versions
from tracker.shapes import Shape
from tracker.stats import family_level
from tracker.storage.detectors import Detector, lock_versions
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
    family: bool = Field(
        default=False,
        description="Whether the verdict is to hold over all versions that a gate of "
        "the family is ever asked about, and not for this one alone.",
    )
    unseen: bool = Field(
        default=False,
        description="Say that the version was made without the labels of the inputs "
        "that it is put to; takes the role editor.",
    )


class Gate(Shape):
    """What the gate says, and by what."""

    basis: str = Field(description="What it rests on, in plain words.")
    confidence_level: float = Field(
        description="Of the family, that of this version's part of the error."
    )
    detector: str = Field(description="The name of the detector.")
    version: str | None
    verdict: Verdict
    target: float | None
    measure: str
    population: PopulationWord
    method: MethodWord
    low: float
    high: float
    labels: int = Field(
        description="Those that the interval counts; of a recall or precision, only "
        "labels of its class or of queries predicted as it."
    )
    checks: list[Check]


def ask_gate(session: Session, detector: Detector, choice: GateChoice, by: By) -> Gate:
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
    if not choice.family:
        return _ask(session, detector, choice, by, detector.confidence_level)
    return _ask_family(session, detector, choice, by)


def _ask_family(
    session: Session, detector: Detector, choice: GateChoice, by: By
) -> Gate:
    if detector.target is None and choice.target is None and not choice.not_worse_than:
        raise InvalidInputError.of("family", "takes a target or not_worse_than")
    family = lock_versions(session, detector.id)
    chosen = choose_versions(session, detector, choice.version)
    if len(chosen) != 1:
        raise ConflictError("a gate of a family checks one version")
    (version,) = chosen
    asked = [one.family for one in family if one.family]
    number, passed, what, has_passed = version.family or [
        len(asked) + 1,
        sum(one[3] for one in asked),
        None,
        False,
    ]
    if what is not None and choice.population is None:
        # Live labels that came since would be another question.
        choice = choice.model_copy(update={"population": what[0]})
    try:
        level = family_level(detector.confidence_level, number, passed)
        found = _ask(session, detector, choice, by, level)
    except ValueError as error:
        raise ConflictError(f"too little of the error is left: {error}") from error
    now = [found.population, choice.not_worse_than, detector.measure]
    now += [name for name, _ in detector.also]
    if what is not None and what != now:
        population, old, measure, *_ = what
        against = "" if old is None else f" against {old}"
        raise ConflictError(
            f"the family asked about {version.name} by {population} labels{against}, "
            f"measure {measure}; ask the same again, or without family"
        )
    if found.population == REPLAYED:
        # What is missing is known of other versions, and would tell when to ask.
        left = find_replay(session, detector, version).left
        if left:
            raise ConflictError(
                f"no verdict in a family: it was not put to {left:,} of the inputs "
                "that were labelled at random for other versions, or had seen them"
            )
    version.family = [number, passed, now, has_passed or found.verdict == "met"]
    basis = f"{found.basis} As version {number:,} of the family, {passed:,} passed."
    return found.model_copy(update={"basis": basis})


def _ask(
    session: Session, detector: Detector, choice: GateChoice, by: By, level: float
) -> Gate:
    estimate = get_estimate(
        session,
        detector,
        computed_at=by.at,
        version=choice.version,
        method=DECIDING_METHOD,
        confidence_level=level,
        population=choice.population,
        target=choice.target,
    )
    _check_evidence(estimate, choice)
    checks = _check_estimate(estimate, detector.measure, choice.max_width)
    if choice.not_worse_than is not None:
        comparison = get_comparison(
            session,
            detector,
            computed_at=by.at,
            confidence_level=level,
            population=choice.population,
            old=choice.not_worse_than,
            new=estimate.version,
        )
        if comparison.no_decision_because is not None:
            raise ConflictError(f"no verdict: {comparison.no_decision_because}")
        checks.append(_check_change(comparison))
    if not checks:
        raise InvalidInputError.of("target", f"{detector.name} has none of its own")
    own = score_own(estimate, detector.measure)
    measure, found = read_measure(detector.measure), estimate.decision
    # Of a replay those alone that were put to it at random.
    counted = found.labels if found else score_named(estimate, measure).labelled
    warnings = [f"{one.message}." for one in estimate.warnings]
    return Gate(
        basis=" ".join([estimate.basis, *warnings]),
        confidence_level=level,
        detector=detector.name,
        version=estimate.version,
        verdict=_sum_up([check.verdict for check in checks]),
        target=estimate.target,
        measure=detector.measure,
        population=estimate.population.kind,
        method=DECIDING_METHOD,
        low=own.low,
        high=own.high,
        labels=counted,
        checks=checks,
    )


def _check_evidence(estimate: Estimate, choice: GateChoice) -> None:
    """Raise ConflictError for labels that no verdict may rest on.

    Whether a replay may be compared, the comparison says.
    """
    refusal = estimate.no_decision_because
    if refusal is not None and estimate.target is not None:
        raise ConflictError(f"no verdict: {refusal}")
    if estimate.population.kind == UNSTATED:
        raise ConflictError(f"no verdict: {refuse_unstated(estimate.labels)}")
    if choice.max_width is None and choice.not_worse_than is not None:
        return
    if estimate.population.kind == REPLAYED and estimate.target is None:
        raise ConflictError("no verdict: a replay decides about a target only")


def _check_estimate(
    estimate: Estimate, measure: str, max_width: float | None
) -> list[Check]:
    """Return what came of the targets, and of the width if one is given."""
    checks = []
    for one in filter(None, [estimate.decision, *estimate.also]):
        low, high = percents(one.low, one.high)
        said = f"{read_measure(one.measure).name} between {low} and {high} %, target "
        said += f"{100 * one.target:g} %, {one.labels:,} labels"
        said += f". {one.advice.text.removesuffix('.')}" if one.advice else ""
        checks.append(Check(name="target", verdict=one.verdict, message=said))
    if max_width is not None:
        width = score_own(estimate, measure).width
        # More labels make it narrower: too wide is not yet a failure.
        verdict: Verdict = "met" if width <= max_width else "undecided"
        wide = f"{100 * width:.2f} points wide, at most {100 * max_width:g} wanted"
        checks.append(
            Check(name="max-width", verdict=verdict, message=f"the interval is {wide}")
        )
    return checks


def _sum_up(verdicts: Sequence[Verdict]) -> Verdict:
    if "missed" in verdicts:
        return "missed"
    return "undecided" if "undecided" in verdicts else "met"


def _check_change(comparison: Comparison) -> Check:
    new, old, decision = comparison.new, comparison.old, comparison.decision
    verdict: Verdict = "undecided"
    if decision is not None:
        verdict = _OF_COMPARISON[decision.verdict]
        message = f"{new} against {old}: {decision.verdict}. {comparison.sentence}"
    elif comparison.paired is None:
        message = f"{new} and {old} have no labelled input in common"
    else:
        message = f"the inputs that {new} and {old} share say nothing of the measure"
    return Check(name="not-worse-than", verdict=verdict, message=message)
