"""The estimate of a detector's accuracy from the labels committed so far."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Literal, NamedTuple

import numpy as np
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.detectors import choose_versions
from tracker.services.fields import BALANCED, UNCLEAR, refuse
from tracker.storage.counts import Cell, count_pending_labels, count_window, load_counts
from tracker.storage.detectors import Detector

Cells = Mapping[Cell, int]
Verdict = Literal["met", "missed", "undecided"]

# What the job stores of every snapshot; the others follow from its counts.
STORED_METHODS = ("exact", "joint", "anytime")
ALL = "*"
# Classes in all for which a page or a chart computes what was not stored; the
# slowest method takes about a third of a millisecond for each.
_MOST_COMPUTED = 2_500
# Whoever looks again after every label and then decides needs this one.
DECIDING_METHOD = "anytime"


@dataclass(frozen=True, slots=True)
class ScopeEstimate:
    """The accuracy of one class, or the balanced accuracy, with its counts."""

    scope: str
    correct: int
    labelled: int
    accuracy: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known of one version of a detector, or of all versions pooled."""

    detector: Detector
    version: str | None
    computed_at: datetime
    confidence_level: float
    method: str
    labels: int
    unclear: int
    targeted_left_out: int
    includes_targeted: bool
    is_window: bool
    classes: Sequence[ScopeEstimate]
    balanced: ScopeEstimate
    confusion: Mapping[str, Mapping[str, int]]
    last_label_at: datetime | None
    corrections: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the target is met, and the interval that says so."""

    verdict: Verdict
    low: float
    high: float


def get_estimate(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    version: str | None = None,
    method: str = "exact",
    confidence_level: float | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    include_targeted: bool = False,
) -> Estimate:
    """Compute an estimate from every label committed so far.

    It needs no label but those that the job has not folded in yet; with *since*
    or *until* the queries asked in that window are counted anew.
    """
    check_method(method)
    if since is not None and until is not None and since >= until:
        refuse("until", until.isoformat(), "it must be later than since")
    versions = choose_versions(session, detector, version)
    ids = [chosen.id for chosen in versions]
    if since is None and until is None:
        counts = current_counts(session, detector, ids)
    else:
        window = count_window(session, detector.id, since=since, until=until)
        counts = {version_id: window.get(version_id, {}) for version_id in ids}
    return build_estimate(
        detector,
        _pooled(counts.values()),
        version=version if version == "*" else next((v.name for v in versions), None),
        computed_at=computed_at,
        method=method,
        confidence_level=confidence_level or detector.confidence_level,
        include_targeted=include_targeted,
        is_window=since is not None or until is not None,
        last_label_at=max(
            (v.last_label_at for v in versions if v.last_label_at), default=None
        ),
        corrections=sum(v.corrections for v in versions),
    )


def decide(estimate: Estimate) -> Decision | None:
    """Compare the balanced accuracy with the target.

    None without a target, without labels, and for a window of time, which may have
    been chosen for what it shows.  It goes by the interval that holds after every
    label at once: one that is valid for a single look would in the end meet or miss
    any target near the truth.
    """
    target = estimate.detector.target
    if target is None or not estimate.labels or estimate.is_window:
        return None
    bounds = stats.balanced_interval(
        DECIDING_METHOD,
        [scope.correct for scope in estimate.classes],
        [scope.labelled for scope in estimate.classes],
        estimate.confidence_level,
    )
    low, high = float(bounds.low), float(bounds.high)
    if low > target:
        return Decision("met", low, high)
    return Decision("missed" if high < target else "undecided", low, high)


def most_moments(method: str, classes: int, *, of: int) -> int:
    """Return how many *of* so many moments *method* may be asked for at once."""
    if method in STORED_METHODS:
        return of
    return min(of, max(5, _MOST_COMPUTED // classes))


def check_method(method: str, *, or_all: bool = False) -> None:
    """Raise InvalidInputError unless *method* is one that there is, or maybe ``*``."""
    known = (*stats.METHODS, ALL) if or_all else stats.METHODS
    if method not in known:
        refuse("method", method, f"it must be one of {', '.join(known)}")


def current_counts(
    session: Session, detector: Detector, version_ids: Sequence[int]
) -> dict[int, dict[Cell, int]]:
    """Return the counts of each version with the waiting labels added."""
    counts = load_counts(session, version_ids)
    for version_id, changes in count_pending_labels(session, detector.id).items():
        if version_id in counts:
            counts[version_id] = _pooled([counts[version_id], changes])
    return counts


def _pooled(parts: Iterable[Cells]) -> dict[Cell, int]:
    total: dict[Cell, int] = {}
    for cells in parts:
        for cell, number in cells.items():
            total[cell] = total.get(cell, 0) + number
    return {cell: number for cell, number in total.items() if number}


def build_estimate(  # noqa: PLR0913 - plain values that stand in the estimate.
    detector: Detector,
    cells: Cells,
    *,
    version: str | None,
    computed_at: datetime,
    method: str,
    confidence_level: float,
    include_targeted: bool = False,
    is_window: bool = False,
    last_label_at: datetime | None = None,
    corrections: int = 0,
) -> Estimate:
    """Return the estimate that follows from confusion counts."""
    scored: dict[str, dict[str, int]] = {name: {} for name in detector.classes}
    unclear = targeted = 0
    for cell, number in cells.items():
        if cell.label == UNCLEAR:
            unclear += number
        elif cell.is_targeted and not include_targeted:
            targeted += number
        else:
            row = scored[cell.label]
            row[cell.predicted] = row.get(cell.predicted, 0) + number
    correct = [row.get(name, 0) for name, row in scored.items()]
    labelled = [sum(row.values()) for row in scored.values()]
    scopes = estimate_scopes(
        detector.classes, [correct], [labelled], method, confidence_level
    )[0]
    return Estimate(
        detector=detector,
        version=version,
        computed_at=computed_at,
        confidence_level=confidence_level,
        method=method,
        labels=sum(labelled),
        unclear=unclear,
        targeted_left_out=targeted,
        includes_targeted=include_targeted,
        is_window=is_window,
        classes=scopes[1:],
        balanced=scopes[0],
        confusion=scored,
        last_label_at=last_label_at,
        corrections=corrections,
    )


class Counts(NamedTuple):
    """The counts of each class at some moment, and the level of its intervals."""

    confidence_level: float
    correct: Sequence[int]
    labelled: Sequence[int]


def estimate_moments(
    detector: Detector, moments: Sequence[Counts], method: str
) -> Iterator[list[ScopeEstimate]]:
    """Yield the scopes of each of *moments*, the balanced accuracy first."""
    for level, same in groupby(moments, key=lambda counts: counts.confidence_level):
        counts = list(same)
        yield from estimate_scopes(
            detector.classes,
            [one.correct for one in counts],
            [one.labelled for one in counts],
            method,
            level,
        )


def estimate_scopes(
    classes: Sequence[str],
    correct: Sequence[Sequence[int]],
    labelled: Sequence[Sequence[int]],
    method: str,
    confidence_level: float,
) -> list[list[ScopeEstimate]]:
    """Return, for each row of class counts, the balanced estimate and each class's.

    Many rows at once cost little more than one, and give the same bits.
    """
    k = np.array(correct, dtype=np.int64).reshape(-1, len(classes))
    n = np.array(labelled, dtype=np.int64).reshape(-1, len(classes))
    by_class = stats.class_intervals(method, k, n, confidence_level)
    balanced = stats.balanced_interval(method, k, n, confidence_level)
    columns = zip(
        k.tolist(),
        n.tolist(),
        by_class.low.tolist(),
        by_class.high.tolist(),
        balanced.low.tolist(),
        balanced.high.tolist(),
        strict=True,
    )
    rows = []
    for ks, ns, lows, highs, low, high in columns:
        whole = ScopeEstimate(
            BALANCED, sum(ks), sum(ns), stats.balanced_accuracy(ks, ns), low, high
        )
        scopes = [
            ScopeEstimate(name, ki, ni, stats.class_accuracy(ki, ni), li, hi)
            for name, ki, ni, li, hi in zip(classes, ks, ns, lows, highs, strict=True)
        ]
        rows.append([whole, *scopes])
    return rows
