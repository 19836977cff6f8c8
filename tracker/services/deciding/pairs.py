"""What the inputs say that two versions were given: gained, lost and how sure."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from tracker import shapes, stats
from tracker.services.estimates.decision import labels_to_decide_share
from tracker.services.evidence.measure import read_measure
from tracker.storage.deciding.comparison import PairCount
from tracker.storage.detectors import Detector
from tracker.storage.labelling.reservations import Drawn
from tracker.words import ANYTIME, BALANCED, OVERALL, PRECISION, RECALL, one_of

Outcome = Literal["better", "worse", "undecided"]
PairedMethod = Annotated[str, one_of(["exact", "joint", "box"])]

# About how many milliseconds an exact paired interval takes, and each of its pairs; so
# much may be spent on those of the classes.  Odd levels take longer.  What was right
# and wrong has no say in how an interval is found, else no promise would be kept.
_EXACT_COST = 30.0
_EXACT_COST_OF_A_PAIR = 0.25
_MOST_COST = 150.0
_MOST_JOINT_CLASSES = 3
EXACT_LEVELS = (0.8, 0.999_999)


class Change(shapes.Shape):
    """The difference in accuracy, new minus old."""

    difference: float | None = Field(description="null if it is unknown.")
    low: float
    high: float


class PairedChange(Change, shapes.OfClass):
    """The change of one class, counted on the inputs that both versions were given."""

    pairs: int = Field(description="Inputs with this label.")
    gained: int = Field(description="Only the new version was correct.")
    lost: int = Field(description="Only the old version was correct.")
    p_value: float = Field(description="McNemar's exact test of no difference.")


class Overall(Change):
    """The change of overall accuracy, counted on the inputs that both versions got."""

    method: PairedMethod = Field(
        description="exact, or joint where that would take too long."
    )
    pairs: int
    gained: int
    lost: int
    both: int = Field(description="Both versions were correct.")
    p_value: float = Field(description="McNemar's exact test of no difference.")


class SequentialDecision(shapes.Shape):
    """The share of disagreements won, with bounds that hold at every look."""

    verdict: Outcome | None = Field(
        description="better, worse or undecided; null unless the detector's measure "
        "is overall, for no other one goes by disagreements alone."
    )
    method: Annotated[str, one_of([ANYTIME])] = Field(description="anytime.")
    won: int = Field(
        description="Disagreements that only the new version was right about, those "
        "labelled from the queue of disagreements included."
    )
    lost: int = Field(
        description="Disagreements that only the old version was right about."
    )
    low: float = Field(
        description="The lower bound of the share won; above 0.5 the new version "
        "is better."
    )
    high: float


class ComparisonDecision(shapes.Shape):
    """Which version is better in the detector's measure, at any look."""

    verdict: Outcome = Field(description="better, worse or undecided.")
    measure: str = Field(description="The detector's measure.")
    method: Annotated[str, one_of([ANYTIME])] = Field(description="anytime.")
    difference: float | None = Field(
        description="The measure of the new version less that of the old one; null "
        "while a class has no pair."
    )
    low: float
    high: float
    labels_to_decide: int | None = Field(
        description="About how many more pairs would decide it; null where no number "
        "is foreseen."
    )


class Paired(shapes.Shape):
    """The comparison on the inputs that both versions got."""

    method: PairedMethod = Field(
        description="The method for the classes: exact, or where that would take too "
        "long joint for each by itself, or box."
    )
    pairs: int
    classes: list[PairedChange]
    balanced: Change = Field(
        description="The change of the balanced accuracy, by the joint paired method."
    )
    overall: Overall
    decision: SequentialDecision = Field(
        description="The share of disagreements that the new version wins: every "
        "input counts the same, whatever the detector's measure."
    )


def decide_pairs(  # noqa: PLR0913, PLR0917 - what is counted of the pairs.
    detector: Detector,
    counts: Sequence[PairCount],
    drawn: Drawn,
    level: float,
    shares: tuple[float, ...] | None = None,
    awaited: int = 0,
) -> ComparisonDecision | None:
    """Return which version is better in the detector's measure.

    Overall accuracy goes by disagreements alone, those *drawn* included: agreements
    say nothing of which version is better.  None without a pair that speaks about the
    measure, and for precision, whose pairs are not the same of both versions.
    *shares* are how frequent the classes are taken to be for the old version.  Inputs
    that are *awaited* will get a label, of any class, and either may be right then.
    """
    measure = read_measure(detector.measure)
    if measure.kind == PRECISION:
        return None
    tallies = _tally(detector, counts)
    if measure.kind == RECALL:
        tallies = [one for one in tallies if one.label == measure.of]
    pairs = [one.pairs for one in tallies]
    gained, lost = [one.gained for one in tallies], [one.lost for one in tallies]
    if measure.kind == OVERALL:
        pairs, gained, lost = [sum(pairs)], [sum(gained)], [sum(lost)]
    is_overall = measure.kind == OVERALL
    if not any(pairs) and not (is_overall and any(drawn)):
        return None
    bets = shares if measure.kind == BALANCED else None
    counted = tuple(gained), tuple(lost), tuple(pairs)
    _, more = _decide_pairs(*counted, level, bets, foresees=not is_overall)
    won, fewer = gained[0] + drawn.won, lost[0] + drawn.lost
    worst, best = (
        _complete(counted, some, level, bets)
        for some in ((0, awaited, awaited), (awaited, 0, awaited))
    )
    is_better, is_worse = worst.verdict == "better", best.verdict == "worse"
    if is_overall:
        is_better = stats.decide(won, fewer + awaited, level)[0] == "better"
        is_worse = stats.decide(won + awaited, fewer, level)[0] == "worse"
    is_told = (is_better or is_worse) and (is_overall or all(pairs))
    verdict: Outcome = ("better" if is_better else "worse") if is_told else "undecided"
    if is_overall:
        more = _foresee(won, won + fewer, gained[0] + lost[0], pairs[0], level)
    changes = [(b - c) / n for b, c, n in zip(gained, lost, pairs, strict=True) if n]
    return ComparisonDecision(
        verdict=verdict,
        measure=str(measure),
        method=ANYTIME,
        difference=math.fsum(changes) / len(changes) if all(pairs) else None,
        low=worst.low,
        high=best.high,
        labels_to_decide=more if verdict == "undecided" else 0,
    )


def _tally(detector: Detector, counts: Sequence[PairCount]) -> list[PairCount]:
    by_class = {count.label: count for count in counts}
    return [by_class.get(name, PairCount(name, 0, 0, 0)) for name in detector.classes]


def _complete(
    counted: tuple[tuple[int, ...], ...],
    awaited: tuple[int, ...],
    level: float,
    shares: tuple[float, ...] | None,
) -> stats.PairedDecision:
    """Return what is said once those *awaited* are in, in each class."""
    whole = [
        tuple(one + more for one in some)
        for some, more in zip(counted, awaited, strict=True)
    ]
    return _decide_pairs(*whole, level, shares, foresees=False)[0]


@lru_cache(maxsize=1024)
def _decide_pairs(  # noqa: PLR0913 - counts, and how they are judged.
    gained: tuple[int, ...],
    lost: tuple[int, ...],
    pairs: tuple[int, ...],
    level: float,
    shares: tuple[float, ...] | None,
    *,
    foresees: bool,
) -> tuple[stats.PairedDecision, int | None]:
    found = stats.paired_anytime(gained, lost, pairs, level, shares=shares)
    more = None
    if foresees and found.verdict == "undecided":
        more = stats.pairs_to_decide(gained, lost, pairs, level, shares=shares)
    return found, more


@lru_cache(maxsize=1024)
def _foresee(
    won: int, decided: int, disagreements: int, pairs: int, level: float
) -> int | None:
    """Return about how many more pairs decide who wins more disagreements."""
    more = labels_to_decide_share(won, decided, 0.5, level) if disagreements else None
    return None if more is None else math.ceil(more * pairs / disagreements)


def build_paired(
    detector: Detector, counts: Sequence[PairCount], drawn: Drawn, level: float
) -> Paired | None:
    """Return what was counted of the pairs, and *drawn* in addition, with bounds."""
    if not counts and not any(drawn):
        return None
    tallies = _tally(detector, counts)
    pairs = [one.pairs for one in tallies]
    gained, lost = [one.gained for one in tallies], [one.lost for one in tallies]
    method, whole = choose_method(pairs, level), choose_method([sum(pairs)], level)
    classes = [
        PairedChange(name=name, **_measure_change(method, b, c, n, level))
        for name, b, c, n in zip(detector.classes, gained, lost, pairs, strict=True)
    ]
    jointly = _bound_jointly(tuple(gained), tuple(lost), tuple(pairs), level)
    won, fewer = sum(gained) + drawn.won, sum(lost) + drawn.lost
    verdict, low, high = stats.decide(won, fewer, level)
    return Paired(
        method=method,
        pairs=sum(pairs),
        classes=classes,
        balanced=balance_changes([one.difference for one in classes], jointly),
        overall=Overall(
            method=whole,
            both=sum(tally.both for tally in tallies),
            **_measure_change(whole, sum(gained), sum(lost), sum(pairs), level),
        ),
        decision=SequentialDecision(
            verdict=verdict if detector.measure == OVERALL else None,
            method=ANYTIME,
            won=won,
            lost=fewer,
            low=low,
            high=high,
        ),
    )


def _measure_change(
    method: str, gained: int, lost: int, pairs: int, level: float
) -> dict[str, Any]:
    low, high = _bound_class(method, gained, lost, pairs, level)
    return {
        "difference": (gained - lost) / pairs if pairs else None,
        "low": low,
        "high": high,
        "pairs": pairs,
        "gained": gained,
        "lost": lost,
        "p_value": float(stats.mcnemar(gained, lost)),
    }


def choose_method(pairs: Sequence[int], level: float) -> str:
    """Return how each class with so many pairs is bounded, in time for a page.

    It is the exact interval, for few classes the joint one of each class alone, or
    else a box of an exact interval for gaining and one for losing.
    """
    cost = math.fsum(_EXACT_COST + _EXACT_COST_OF_A_PAIR * n for n in pairs if n)
    if cost <= _MOST_COST and EXACT_LEVELS[0] <= level <= EXACT_LEVELS[1]:
        return "exact"
    return "joint" if len(pairs) <= _MOST_JOINT_CLASSES else "box"


# A page that is opened again asks for the same bounds, but of one class at most.
@lru_cache(maxsize=4096)
def _bound_class(
    method: str, gained: int, lost: int, pairs: int, level: float
) -> tuple[float, float]:
    if method == "exact":
        low, high = stats.paired_difference(gained, lost, pairs, level)
    else:
        bound = {
            "joint": stats.joint_paired_difference,
            "box": stats.boxed_paired_difference,
        }
        low, high = bound[method]([gained], [lost], [pairs], level)
    return float(low), float(high)


@lru_cache(maxsize=256)
def _bound_jointly(
    gained: tuple[int, ...], lost: tuple[int, ...], pairs: tuple[int, ...], level: float
) -> stats.Interval:
    return stats.joint_paired_difference(gained, lost, pairs, level)


def balance_changes(
    differences: Sequence[float | None], bounds: stats.Interval
) -> Change:
    """Return the change of the balanced accuracy; null while a class has none."""
    known = [difference for difference in differences if difference is not None]
    is_whole = len(known) == len(differences)
    return Change(
        difference=math.fsum(known) / len(known) if is_whole else None,
        low=float(bounds.low),
        high=float(bounds.high),
    )
