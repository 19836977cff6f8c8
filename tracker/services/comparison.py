"""Whether one version of a detector is better than another, and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.detectors import choose_versions
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.fields import BALANCED, refuse, show
from tracker.stats.comparison import (
    balanced_paired_difference,
    boxed_paired_difference,
    mcnemar,
    unpaired_difference,
)
from tracker.stats.paired import Difference, paired_difference
from tracker.storage.comparison import PairCount, count_pairs
from tracker.storage.detectors import Detector, Version, list_versions

Outcome = Literal["better", "worse", "undecided"]
Source = Literal["paired", "unpaired"]

# The exact paired interval takes longer the more pairs and classes there are, and
# at odd levels.  Up to here a comparison takes about a second; beyond it a box does.
# What was right and wrong has no say in it, for then neither would be guaranteed.
MOST_EXACT_PAIRS = 3_000
MOST_EXACT_CLASSES = 20
EXACT_LEVELS = (0.8, 0.999_999)


@dataclass(frozen=True, slots=True)
class Change:
    """How much higher the new version's accuracy is, for a class or balanced."""

    scope: str
    difference: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedChange(Change):
    """The change of one class, counted on the same queries."""

    pairs: int
    gained: int
    lost: int
    p_value: float


@dataclass(frozen=True, slots=True)
class Paired:
    """What the inputs say that both versions were given."""

    method: str
    pairs: int
    disagreeing: int
    classes: Sequence[PairedChange]
    balanced: Change


@dataclass(frozen=True, slots=True)
class Unpaired:
    """What the labels of each version say, whatever the queries were."""

    method: str
    old: Estimate
    new: Estimate
    classes: Sequence[Change]
    balanced: Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a detector, side by side."""

    detector: Detector
    old: str
    new: str
    computed_at: datetime
    confidence_level: float
    paired: Paired | None
    unpaired: Unpaired
    verdict: Outcome
    verdict_from: Source


def get_comparison(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    old: str | None = None,
    new: str | None = None,
    confidence_level: float | None = None,
) -> Comparison:
    """Compare two versions of *detector* by every label committed so far.

    *new* is the version that queries last arrived with unless given, *old* the one
    that arrived before it.  Raises InvalidInputError, which names the field, for an
    unknown version or the same one twice, and ConflictError if there is only one.
    """
    level = confidence_level or detector.confidence_level
    before, after = choose_two_versions(session, detector, old=old, new=new)
    counts = count_pairs(session, detector.id, old_id=before.id, new_id=after.id)
    estimates = [
        get_estimate(
            session,
            detector,
            computed_at=computed_at,
            version=version.name,
            method="exact",
            confidence_level=level,
        )
        for version in (before, after)
    ]
    paired = _build_paired(detector, counts, level)
    unpaired = _build_unpaired(estimates[0], estimates[1], level)
    is_whole = paired is not None and all(change.pairs for change in paired.classes)
    deciding = paired.balanced if paired and is_whole else unpaired.balanced
    return Comparison(
        detector=detector,
        old=before.name,
        new=after.name,
        computed_at=computed_at,
        confidence_level=level,
        paired=paired,
        unpaired=unpaired,
        verdict=_judge(deciding),
        verdict_from="paired" if is_whole else "unpaired",
    )


def choose_two_versions(
    session: Session, detector: Detector, *, old: str | None, new: str | None
) -> tuple[Version, Version]:
    """Return the versions called *old* and *new*; see ``get_comparison``."""
    versions = list_versions(session, detector.id)
    names = {version.name: version for version in versions}
    for field, name in (("old", old), ("new", new)):
        if name is not None and name not in names:
            known = ", ".join(show(name) for name in list(names)[-10:]) or "none yet"
            refuse(field, name, f"there is no such version; there are: {known}")
    if len(versions) < 2:
        raise ConflictError(
            f"the detector {show(detector.name)} has "
            f"{'only one version' if versions else 'no version yet'}; "
            "a comparison takes two"
        )
    after = names[new] if new else choose_versions(session, detector, None)[0]
    before = names[old] if old else _before(versions, after)
    if before is after:
        refuse(
            "old" if new is None else "new",
            after.name,
            "it cannot be compared with itself",
        )
    return before, after


def _before(versions: Sequence[Version], after: Version) -> Version:
    # Of the first version the next one: queries went back to what they came from.
    return versions[versions.index(after) - 1 if versions[0] is not after else 1]


def _build_paired(
    detector: Detector, counts: Sequence[PairCount], level: float
) -> Paired | None:
    counted = {count.label: count for count in counts}
    torn = counted.pop(None, None)
    if not counted:
        return None
    tallies = [counted.get(name, PairCount(name, 0, 0, 0)) for name in detector.classes]
    pairs = [tally.pairs for tally in tallies]
    gained = [tally.gained for tally in tallies]
    lost = [tally.lost for tally in tallies]
    is_exact = _may_be_exact(pairs, level)
    each, whole = _paired_bounds(gained, lost, pairs, level, is_exact=is_exact)
    classes = [
        PairedChange(
            scope=name,
            difference=(b - c) / n if n else None,
            low=low,
            high=high,
            pairs=n,
            gained=b,
            lost=c,
            p_value=p_value,
        )
        for name, b, c, n, low, high, p_value in zip(
            detector.classes,
            gained,
            lost,
            pairs,
            each.low.tolist(),
            each.high.tolist(),
            mcnemar(gained, lost).tolist(),
            strict=True,
        )
    ]
    return Paired(
        method="exact" if is_exact else "box",
        pairs=sum(pairs),
        disagreeing=torn.pairs if torn else 0,
        classes=classes,
        balanced=_balance([one.difference for one in classes], whole),
    )


def _may_be_exact(pairs: Sequence[int], level: float) -> bool:
    return (
        sum(pairs) <= MOST_EXACT_PAIRS
        and len(pairs) <= MOST_EXACT_CLASSES
        and EXACT_LEVELS[0] <= level <= EXACT_LEVELS[1]
    )


def _paired_bounds(
    gained: list[int],
    lost: list[int],
    pairs: list[int],
    level: float,
    *,
    is_exact: bool,
) -> tuple[Difference, Difference]:
    """Return the bounds of every class, and those of the balanced accuracy."""
    if is_exact:
        return _exact_bounds(tuple(gained), tuple(lost), tuple(pairs), level)
    alone = boxed_paired_difference(_alone(gained), _alone(lost), _alone(pairs), level)
    return alone, boxed_paired_difference(gained, lost, pairs, level)


# A page that is opened again asks for the same bounds.
@lru_cache(maxsize=256)
def _exact_bounds(
    gained: tuple[int, ...], lost: tuple[int, ...], pairs: tuple[int, ...], level: float
) -> tuple[Difference, Difference]:
    return (
        paired_difference(gained, lost, pairs, level),
        balanced_paired_difference(gained, lost, pairs, level),
    )


def _alone(column: list[int]) -> list[list[int]]:
    # The last axis runs over classes that are averaged; here each stands alone.
    return [[number] for number in column]


def _build_unpaired(old: Estimate, new: Estimate, level: float) -> Unpaired:
    was, now = (
        ([s.correct for s in one.classes], [s.labelled for s in one.classes])
        for one in (old, new)
    )
    each = unpaired_difference(
        (_alone(now[0]), _alone(now[1])), (_alone(was[0]), _alone(was[1])), level
    )
    classes = [
        Change(before.scope, _subtract(after.accuracy, before.accuracy), low, high)
        for before, after, low, high in zip(
            old.classes, new.classes, each.low.tolist(), each.high.tolist(), strict=True
        )
    ]
    return Unpaired(
        method=new.method,
        old=old,
        new=new,
        classes=classes,
        balanced=_balance(
            [one.difference for one in classes], unpaired_difference(now, was, level)
        ),
    )


def _subtract(new: float | None, old: float | None) -> float | None:
    return None if new is None or old is None else new - old


def _balance(differences: Sequence[float | None], bounds: Difference) -> Change:
    known = [difference for difference in differences if difference is not None]
    is_whole = len(known) == len(differences)
    return Change(
        BALANCED,
        math.fsum(known) / len(known) if is_whole else None,
        float(bounds.low),
        float(bounds.high),
    )


def _judge(change: Change) -> Outcome:
    if change.low > 0:
        return "better"
    return "worse" if change.high < 0 else "undecided"
