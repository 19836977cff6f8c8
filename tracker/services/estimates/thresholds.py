"""How accurate answers above a confidence are, and what confidences are worth."""

from collections.abc import Sequence
from datetime import datetime
from itertools import accumulate, groupby
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.counted import Unit, say_basis, unit_of
from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.decision import refuse_unstated
from tracker.services.estimates.intervals import ALL, MethodWord
from tracker.services.estimates.missing import is_all
from tracker.services.estimates.replays import find_replay
from tracker.services.evidence.populations import POOLED, PopulationWord
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.shapes import OfDetector, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import STEPS, pool
from tracker.storage.estimates.thresholds import ConfidenceBin, count_confidences
from tracker.words import EXACT, OVERALL, REPLAYED, UNSTATED

# Thresholds at equal shares of the queries, and bins of equal width.
_THRESHOLDS = 10
_BINS = 10


TargetRule = Literal["stored", "typed"]


class ThresholdPoint(Shape):
    """The predictions whose confidence is at least a threshold."""

    threshold: float
    queries: int
    share: float = Field(description="The share of all queries that have a confidence.")
    correct: int
    labelled: int
    accuracy: float | None = Field(description="null without a label above it.")
    low: float = Field(
        description="The lower bound of the band, which holds at all thresholds "
        "at once."
    )
    high: float


class _Confidences(OfDetector):
    computed_at: Instant
    confidence_level: float
    method: MethodWord
    measure: Literal["overall"] = Field(description="What the accuracies are of.")
    population: PopulationWord = Field(description="Whose labels it counts.")
    unit: Unit = Field(description="What counts once.")
    basis: str = Field(
        description="What it rests on, in plain words: whose labels, and what counts "
        "once. They are of the whole version."
    )
    queries: int = Field(
        description="The number of queries with a confidence, labelled or not."
    )
    labels: int = Field(description="Scored labels of queries with a confidence.")


class Thresholds(_Confidences):
    """The accuracy above each confidence threshold, and the lowest that will do."""

    target: float | None
    points: list[ThresholdPoint] = Field(description="The lowest threshold first.")
    rule: TargetRule | None = Field(
        description="How `lowest` is found. stored: the target is the detector's, set "
        "before the first query of the version came, and the thresholds are tested one "
        "after the other, each at the whole error. typed: the target may have been "
        "chosen after a look at the curve, so lower bounds are taken that hold at all "
        "thresholds and for every target at once. null without a target."
    )
    no_decision_because: str | None = Field(
        description="Why these labels decide on no threshold: nobody has said how they "
        "were chosen, or they were replayed and may have been seen or picked."
    )
    lowest: ThresholdPoint | None = Field(
        description="The lowest threshold whose accuracy is at least the target at the "
        "confidence level, at one look; null without one or without a target. Where "
        "every query gets its label, those without one count as wrong for it."
    )


class CalibrationBin(Shape):
    """The predictions whose confidence lies between two numbers."""

    start: float = Field(description="Confidences in the bin are at least this.")
    end: float = Field(
        description="Confidences in the bin are below this; in the last bin they "
        "may equal it."
    )
    queries: int
    share: float = Field(description="The share of all queries that have a confidence.")
    confidence: float = Field(
        description="The mean confidence in the bin, labelled or not."
    )
    correct: int
    labelled: int
    accuracy: float | None = Field(description="null without a label in the bin.")
    low: float = Field(description="The intervals of all bins hold at once.")
    high: float


class ExpectedCalibrationError(Shape):
    """The mean distance of confidence and accuracy over the bins, with its bounds."""

    estimate: float | None = Field(description="null while a bin has no label.")
    low: float
    high: float


class Calibration(_Confidences):
    """How well confidences agree with accuracies."""

    bins: list[CalibrationBin] = Field(
        description="The bins that have queries, in order."
    )
    ece: ExpectedCalibrationError | None = Field(
        description="The calibration error over these bins; null if no query has a "
        "confidence."
    )


def get_thresholds(
    session: Session, detector: Detector, *, target: float | None = None, **choices: Any
) -> Thresholds:
    """Return the accuracy above thresholds at fixed shares of all queries."""
    head, bins, versions = _read(session, detector, **choices)
    level, points = head["confidence_level"], list[ThresholdPoint]()
    above = _at_equal_shares(bins)
    if above:
        band = stats.simultaneous_band(
            [one.correct for one in above], [one.labelled for one in above], level
        )
        ends = zip(band.low.tolist(), band.high.tolist(), strict=True)
        points = [
            ThresholdPoint(
                threshold=one.least,
                share=one.queries / above[0].queries,
                **_score(one, *pair),
            )
            for one, pair in zip(above, ends, strict=True)
        ]
    target = target or detector.target
    # Whether it was set when nobody can have seen a label.
    at = detector.target_at
    is_early = at is not None and all(at <= one.created_at for one in versions)
    is_stored = is_early and target == detector.target
    lowest = because = None
    # Labels that may have been picked, or seen, decide nothing.
    if head["population"] == UNSTATED:
        because = refuse_unstated(head["labels"])
    elif head["population"] == REPLAYED:
        because = find_replay(session, detector, versions[0]).no_pairs_because
    if target is not None and points and because is None:
        find = stats.lowest_threshold if is_stored else stats.lowest_in_band
        lowest = find(
            [point.correct for point in points],
            _count_tried(detector, versions, points),
            [point.share for point in points],
            target=target,
            confidence_level=level,
        )
    return Thresholds(
        **head,
        target=target,
        rule=None if target is None else "stored" if is_stored else "typed",
        points=points,
        no_decision_because=because,
        lowest=None if lowest is None else points[lowest],
    )


def _count_tried(
    detector: Detector, versions: Sequence[Version], points: Sequence[ThresholdPoint]
) -> list[int]:
    """Return of how many queries those that are right are counted at each point."""
    if not is_all(detector):
        return [point.labelled for point in points]
    # Those without a label may turn out wrong, and so may deleted ones.
    deleted = sum(one.deleted for one in versions)
    return [point.queries + deleted for point in points]


def get_calibration(
    session: Session, detector: Detector, **choices: Any
) -> Calibration:
    """Return the bins of confidence that have queries, with their accuracies."""
    head, every, _ = _read(session, detector, **choices)
    tenths = [
        _sum_up(list(same), place)
        for place, same in groupby(every, lambda row: min(row.step * _BINS // STEPS, 9))
    ]
    if not tenths:
        return Calibration(**head, bins=[], ece=None)
    k, n = [one.correct for one in tenths], [one.labelled for one in tenths]
    means = [min(one.confidence / one.queries, 1.0) for one in tenths]
    shares = [one.queries / head["queries"] for one in tenths]
    band = stats.simultaneous_band(k, n, head["confidence_level"])
    bins = [
        CalibrationBin(
            start=one.step / _BINS,
            end=(one.step + 1) / _BINS,
            share=share,
            confidence=mean,
            **_score(one, low, high),
        )
        for one, share, mean, low, high in zip(
            tenths, shares, means, band.low.tolist(), band.high.tolist(), strict=True
        )
    ]
    error = stats.calibration_error(band, k, n, means, shares)
    return Calibration(
        **head, bins=bins, ece=ExpectedCalibrationError(**error._asdict())
    )


def _read(
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    version: str | None = None,
    confidence_level: float | None = None,
) -> tuple[dict[str, Any], list[ConfidenceBin], Sequence[Version]]:
    """Return what is said of all labels, their bins, and their versions."""
    versions = choose_versions(session, detector, version)
    counts = pool(current_counts(session, versions).values())
    is_pooled = version == ALL
    population, standings = pick_population(detector, counts, is_pooled=is_pooled)
    ids = [one.id for one in versions]
    bins = count_confidences(session, detector.id, ids, standings, are_pooled=is_pooled)
    if is_pooled and population != UNSTATED:
        population = POOLED
    labels = sum(one.labelled for one in bins)
    head = {
        "detector": dump_id("det", detector.id),
        "name": detector.name,
        "version": ALL if is_pooled else next((one.name for one in versions), None),
        "computed_at": computed_at,
        "confidence_level": confidence_level or detector.confidence_level,
        "method": EXACT,
        "measure": OVERALL,
        "population": population,
        "unit": unit_of(detector),
        "basis": say_basis(detector, population, labels),
        "queries": sum(one.queries for one in bins),
        "labels": labels,
    }
    return head, bins, versions


def _score(one: ConfidenceBin, low: float, high: float) -> dict[str, Any]:
    found = {name: getattr(one, name) for name in ("queries", "correct", "labelled")}
    accuracy = stats.class_accuracy(one.correct, one.labelled)
    return found | {"accuracy": accuracy, "low": low, "high": high}


def _at_equal_shares(bins: Sequence[ConfidenceBin]) -> list[ConfidenceBin]:
    """Return the highest thresholds that leave 100 %, 90 %, ... 10 % of the queries."""
    sums = accumulate(
        reversed(bins), lambda above, one: _sum_up([above, one], one.step)
    )
    above = list(sums)[::-1]
    chosen = {
        max(
            i
            for i, one in enumerate(above)
            if one.queries * _THRESHOLDS >= part * above[0].queries
        )
        for part in range(1, _THRESHOLDS + 1)
        if above
    }
    return [above[i] for i in sorted(chosen)]


def _sum_up(bins: Sequence[ConfidenceBin], step: int) -> ConfidenceBin:
    least = min(one.least for one in bins)
    sums = np.array([one[2:] for one in bins]).sum(axis=0).tolist()
    return ConfidenceBin(step, least, sums[0], *map(int, sums[1:]))
