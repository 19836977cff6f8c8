"""The counts at the moments of snapshots, and their estimates, many at once.

Rows that are computed together give the bits that each gives alone, and cost a part.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracker.services.estimates.intervals import score
from tracker.services.estimates.measures import (
    KEPT_MEASURES,
    count_trials,
    score_measure,
)
from tracker.shapes import Score
from tracker.storage.detectors import Version
from tracker.words import EXACT, STORED_METHODS


@dataclass(frozen=True, slots=True)
class Point:
    """The counts of a version at the moment of a snapshot."""

    kind: str
    population: str
    correct: tuple[int, ...]
    labelled: tuple[int, ...]
    predicted: tuple[int, ...]
    unclear: int
    targeted: int
    methods: tuple[str, ...]
    # How frequent the classes are taken to be; see `balanced_anytime`.
    shares: tuple[float, ...] | None = None


Found = dict[int, list[tuple[int, str, list[Score]]]]
"""By version: the number of a point, a method or measure, and the scores of it."""

_Placed = tuple[int, int, Point]


def estimate_points(points: Mapping[int, Sequence[Point]], level: float) -> Found:
    """Return the estimates by each stored method of the points of each version."""
    found: Found = {version_id: [] for version_id in points}
    for same in _alike(points):
        for method in STORED_METHODS:
            chosen = [place for place in same if method in place[2].methods]
            if not chosen:
                continue
            correct = [point.correct for _, _, point in chosen]
            labelled = [point.labelled for _, _, point in chosen]
            shares = [point.shares for _, _, point in chosen]
            rows = score(correct, labelled, method, level, shares)
            for (version_id, number, _), scores in zip(chosen, rows, strict=True):
                found[version_id].append((number, method, scores))
    return found


def measure_points(points: Mapping[int, Sequence[Point]], level: float) -> Found:
    """Return every other measure of the points of each version."""
    found: Found = {version_id: [] for version_id in points}
    for same in _alike(points):
        correct = [point.correct for _, _, point in same]
        for measure in KEPT_MEASURES:
            trials = [
                count_trials(measure, point.correct, point.labelled, point.predicted)
                for _, _, point in same
            ]
            rows = score_measure(measure, correct, trials, EXACT, level)
            for (version_id, number, _), scores in zip(same, rows, strict=True):
                found[version_id].append((number, measure, scores))
    return found


def _alike(points: Mapping[int, Sequence[Point]]) -> Iterator[list[_Placed]]:
    """Yield the points of all versions, those with as many classes together.

    They have shares of the classes, or all have none.
    """
    groups = defaultdict[tuple[int, bool], list[_Placed]](list)
    for version_id, some in points.items():
        for number, point in enumerate(some):
            kind = len(point.correct), point.shares is None
            groups[kind].append((version_id, number, point))
    yield from groups.values()


def dump_scores(
    version: Version, found: Sequence[tuple[int, str, list[Score]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of the next snapshots, each after its method or measure."""
    of_version = {"detector_id": version.detector_id, "version_id": version.id}
    for number, name, scores in found:
        snapshot = of_version | {"sequence": version.sequence + 1 + number}
        for position, one in enumerate(scores):
            yield name, {**snapshot, "position": position, **vars(one)}
