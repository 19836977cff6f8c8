"""Whether one version of a detector is better than another, and how sure that is."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.charts.words import in_points, plural, than
from tracker.services.deciding import pairs
from tracker.services.estimates.counted import Unit
from tracker.services.estimates.decision import refuse_unstated
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.intervals import MethodWord
from tracker.services.estimates.missing import (
    NOTHING,
    count_unlabelled,
    is_all,
    say_missing,
)
from tracker.services.estimates.replays import find_replay
from tracker.services.estimates.report import counting_the_same
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import (
    LIVE,
    PopulationWord,
    compared_standings,
)
from tracker.services.fields import Instant
from tracker.services.versions import choose_two_versions
from tracker.shapes import OfClass, Score, Shape
from tracker.stats import balanced_anytime, shared_level, unpaired_difference
from tracker.storage.base import dump_id
from tracker.storage.deciding.comparison import count_open_pairs, count_pairs
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.labelling.reservations import Drawn, count_drawn
from tracker.words import ANSWER, BALANCED, OVERALL, PRECISION, UNSTATED

Source = Literal["paired", "unpaired"]
# Of a version with labels of its own, which replayed ones must not decide about.
_KNOWN_BEFORE = (
    "inputs of both had their label before it was put to them, so it may have been "
    "made with it, or put to them because of it; say that it was not made with them "
    "(unseen), and put it to all that were labelled at random"
)


class UnpairedChange(pairs.Change):
    """A change from the labels of each version by itself."""

    old: Score
    new: Score


class UnpairedClassChange(UnpairedChange, OfClass):
    """The change of one class, from the labels of each version by itself."""


class Unpaired(Shape):
    """The comparison that treats the queries of the versions as different."""

    method: MethodWord
    classes: list[UnpairedClassChange]
    balanced: UnpairedChange


class Comparison(Shape):
    """Whether a new version is better than an old one, and how sure that is."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    old: str
    new: str
    computed_at: Instant
    confidence_level: float
    population: PopulationWord | None = Field(
        description="Whose labels of pairs count; null: live and replayed ones, of "
        "inputs that were labelled at random."
    )
    unit: Unit = Field(description="What counts once.")
    paired: pairs.Paired | None = Field(description="null without a pair.")
    unpaired: Unpaired
    decision: pairs.ComparisonDecision | None = Field(
        description="The verdict in the detector's measure, by pairs; null without a "
        "pair."
    )
    verdict: pairs.Outcome = Field(
        description="better, worse or undecided: that of the decision, or by the "
        "labels of each version where no input was put to both."
    )
    sentence: str = Field(
        description="By how much the new version is right more or less often, in words."
    )
    verdict_from: Source = Field(
        description="paired where an input was put to both versions, otherwise "
        "unpaired."
    )
    no_decision_because: str | None = Field(
        description="Why labels that there are decide nothing: nobody has said how "
        "their queries were chosen, or a version may have seen them, or was put to "
        "inputs that somebody picked, or the measure is a precision."
    )


def get_comparison(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    old: str | None = None,
    new: str | None = None,
    confidence_level: float | None = None,
    method: str = "exact",
    population: str | None = None,
) -> Comparison:
    """Compare two versions of *detector* by every label committed so far.

    Or by those of one *population* only.

    Each version by itself has its intervals by *method*; those of a change are not
    touched by it.

    *old* and *new*, and what is raised, are those of ``choose_two_versions``.
    """
    level = confidence_level or detector.confidence_level
    before, after = two = choose_two_versions(session, detector, old=old, new=new)
    ids: dict[str, Any] = {"old_id": before.id, "new_id": after.id}
    ids["standings"] = compared_standings(detector.label_sampling, population)
    choices: dict[str, Any] = {"confidence_level": level, "computed_at": computed_at}
    choices.update(method=method, population=population, span="all")
    # Pairs are of all labels, and the day of a change was picked by the results.
    estimates = [
        get_estimate(session, detector, version=one.name, **choices) for one in two
    ]
    has_own = detector.label_of == ANSWER
    counts = count_pairs(session, detector.id, **ids, has_own=has_own)
    drawn = Drawn(0, 0) if has_own else count_drawn(session, detector.id, **ids)
    decision, shares = None, estimates[0].shares
    awaited = _count_awaited(session, detector, two, estimates)
    because = _refuse(session, detector, two, estimates, awaited) if counts else None
    if because is None and awaited is not None:
        decision = pairs.decide_pairs(detector, counts, drawn, level, shares, awaited)
    verdict: pairs.Outcome = "undecided" if decision is None else decision.verdict
    if decision is None and not counts and detector.measure == BALANCED:
        verdict = _judge_unpaired(session, detector, two, estimates, level)
    return Comparison(
        detector=dump_id("det", detector.id),
        name=detector.name,
        old=before.name,
        new=after.name,
        computed_at=computed_at,
        confidence_level=level,
        population=population,
        unit=estimates[0].unit,
        paired=pairs.build_paired(detector, counts, drawn, level),
        unpaired=_build_unpaired(estimates[0], estimates[1], level),
        decision=decision,
        verdict=verdict,
        sentence=_say(detector, before.name, after.name, decision, awaited),
        verdict_from="unpaired" if decision is None else "paired",
        no_decision_because=because
        or (None if decision else _refuse_unstated(estimates)),
    )


def _count_awaited(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    estimates: Sequence[Estimate],
) -> int | None:
    """Return how many inputs of both will get their label, where every query does.

    Of a version that is compared by a replay, which the labels of others decide, it is
    how many of theirs will.  None for too many.
    """
    if not is_all(detector):
        return 0
    has_own = detector.label_of == ANSWER
    ids = [one.id for one in versions]
    number = count_open_pairs(session, detector.id, *ids, has_own=has_own)
    for version, one in zip(versions, estimates, strict=True):
        if not _is_live(one):
            every = list_versions(session, detector.id)
            others = [other for other in every if other.id != version.id]
            missing = count_unlabelled(session, detector, others)
            if missing is None:
                return None
            number = max(number, sum(missing.values()))
    return number


def _is_live(found: Estimate) -> bool:
    is_live = found.population.kind == LIVE
    return is_live and bool(found.labels or not found.replayed_left_out)


def _say(
    detector: Detector,
    old: str,
    new: str,
    found: pairs.ComparisonDecision | None,
    awaited: int | None,
) -> str:
    if found is None:
        return f"Nothing shows yet whether {new} is better than {old}."
    measure = read_measure(found.measure)
    low, high, _ = in_points(found.low, found.high)
    said = f"When the truth is {measure.of}, " if measure.of else ""
    said += f"{new} is right {than(low, high, old)}"
    if measure.kind == BALANCED:
        said += f", {counting_the_same(detector.classes)}"
    if awaited:
        said += f", whatever the label of {plural(awaited, 'input')} will be"
    return f"{said}."


def _refuse(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    estimates: Sequence[Estimate],
    awaited: int | None,
) -> str | None:
    """Return why pairs that there are decide nothing.

    What a version took over is a replay, whether it has a live label besides or not.
    """
    if awaited is None:
        return say_missing(awaited)
    if detector.label_of == ANSWER and detector.measure != OVERALL:
        return (
            "labels judge answers here, so versions are compared by their overall "
            "accuracy only; make it the measure"
        )
    measure = read_measure(detector.measure)
    if measure.kind == PRECISION:
        return f"the {measure.name} of each version is that of other queries"
    for version, one in zip(versions, estimates, strict=True):
        kind = one.population.kind
        if kind == UNSTATED:
            return refuse_unstated(one.labels)
        is_live = _is_live(one)
        if one.replayed_left_out if is_live else kind == LIVE or one.labels:
            replay = find_replay(session, detector, version)
            # Nobody could pick inputs by labels that came only later.  Where the query
            # that had a label first is erased, nobody knows when.
            is_blind = is_live and replay.blind >= one.replayed_left_out
            if replay.no_pairs_because is None or is_blind:
                continue
            because = _KNOWN_BEFORE if is_live else replay.no_pairs_because
            return f"{version.name}: {because}"
    return None


def _refuse_unstated(estimates: Sequence[Estimate]) -> str | None:
    """Return why there is no decision, if unstated labels would have made one."""
    # Labels of inputs that both have are counted of both.
    unstated = max(one.unstated + one.unstated_left_out for one in estimates)
    are_live = all(one.population.kind == LIVE for one in estimates)
    return refuse_unstated(unstated) if unstated and not are_live else None


def _build_unpaired(old: Estimate, new: Estimate, level: float) -> Unpaired:
    was, now = ((list(one.correct), list(one.labelled)) for one in (old, new))
    # The last axis runs over classes that are averaged; here each stands alone.
    alone = [np.array(counts)[..., np.newaxis] for counts in (now, was)]
    each = unpaired_difference(tuple(alone[0]), tuple(alone[1]), level)
    classes = [
        UnpairedClassChange(
            name=before.name,
            old=Score(**before.model_dump(exclude={"name"})),
            new=Score(**after.model_dump(exclude={"name"})),
            difference=None
            if after.accuracy is None or before.accuracy is None
            else after.accuracy - before.accuracy,
            low=low,
            high=high,
        )
        for before, after, low, high in zip(
            old.classes, new.classes, each.low.tolist(), each.high.tolist(), strict=True
        )
    ]
    whole = pairs.balance_changes(
        [one.difference for one in classes], unpaired_difference(now, was, level)
    )
    return Unpaired(
        method=new.method,
        classes=classes,
        balanced=UnpairedChange(old=old.whole, new=new.whole, **dict(whole)),
    )


def _judge_unpaired(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    estimates: Sequence[Estimate],
    level: float,
) -> pairs.Outcome:
    """Return which version is better by its own labels, after every label.

    An input that both were put to has one label, so their results depend on each
    other.  Of two intervals, each wrong half as often, that does not matter.
    """
    are_live = all(one.population.kind == LIVE for one in estimates)
    if not are_live or count_unlabelled(session, detector, versions) != NOTHING:
        return "undecided"
    half = shared_level(level, 2)
    was, now = (
        balanced_anytime(one.correct, one.labelled, half, shares=one.shares)
        for one in estimates
    )
    if now.low > was.high:
        return "better"
    return "worse" if now.high < was.low else "undecided"
