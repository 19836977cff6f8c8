"""The counts at the moments of snapshots, and their estimates, many at once.

Rows that are computed together give the bits that each gives alone, and cost a part.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.intervals import score
from tracker.services.estimates.measures import (
    KEPT_MEASURES,
    count_trials,
    score_measure,
)
from tracker.services.estimates.projections import Point
from tracker.shapes import Score
from tracker.storage.detectors import Version
from tracker.storage.estimates.snapshots import add_snapshots
from tracker.words import EXACT, REPLAYED, STORED_METHODS

Found = dict[int, list[tuple[int, str, list[Score]]]]
"""By version: the number of a point, a method or measure, and the scores of it."""

_Placed = tuple[int, int, Point]


def score_points(
    points: Mapping[int, Sequence[Point]], level: float
) -> tuple[Found, Found]:
    """Return the estimates of points by each stored method, and other measures."""
    by_method: Found = {version_id: [] for version_id in points}
    by_measure: Found = {version_id: [] for version_id in points}
    for same in _alike(points):
        for method in STORED_METHODS:
            chosen = [place for place in same if method in place[2].methods]
            if not chosen:
                continue
            correct = [point.correct for _, _, point in chosen]
            labelled = [point.labelled for _, _, point in chosen]
            shares = [point.shares for _, _, point in chosen]
            at = method_level(method, level, same[0][2].population)
            rows = score(correct, labelled, method, at, shares)
            for (version_id, number, _), scores in zip(chosen, rows, strict=True):
                by_method[version_id].append((number, method, scores))
        correct = [point.correct for _, _, point in same]
        for measure in KEPT_MEASURES:
            trials = [
                count_trials(measure, point.correct, point.labelled, point.predicted)
                for _, _, point in same
            ]
            rows = score_measure(measure, correct, trials, EXACT, level)
            for (version_id, number, _), scores in zip(same, rows, strict=True):
                by_measure[version_id].append((number, measure, scores))
    return by_method, by_measure


def _alike(points: Mapping[int, Sequence[Point]]) -> Iterator[list[_Placed]]:
    """Yield the points of all versions, those with as many classes together.

    They have shares of the classes, or all have none, and are of replays, or none is.
    """
    groups = defaultdict[tuple[int, bool, bool], list[_Placed]](list)
    for version_id, some in points.items():
        for number, point in enumerate(some):
            is_replay = point.population == REPLAYED
            kind = len(point.correct), point.shares is None, is_replay
            groups[kind].append((version_id, number, point))
    yield from groups.values()


class Taken(NamedTuple):
    """The next snapshots of a version, as a run of the job has taken them."""

    version: Version
    run_id: int
    level: float
    points: Sequence[Point]
    # By the number of a point and a method, or a measure.
    intervals: Sequence[tuple[int, str, list[Score]]]
    measures: Sequence[tuple[int, str, list[Score]]]


def store_snapshots(
    session: Session, taken: Iterable[Taken], *, computed_at: datetime
) -> None:
    """Add the snapshots of versions, each after those that there are."""
    snapshots: list[dict[str, Any]] = []
    intervals: list[dict[str, Any]] = []
    measures: list[dict[str, Any]] = []
    for version, run_id, level, points, of_methods, of_measures in taken:
        snapshots += [
            {
                "detector_id": version.detector_id,
                "version_id": version.id,
                "sequence": version.sequence + number,
                "kind": point.kind,
                "population": point.population,
                "computed_at": computed_at,
                "job_run_id": run_id,
                "confidence_level": level,
                "labels": sum(point.labelled),
                "unclear": point.unclear,
                "targeted_left_out": point.targeted,
            }
            for number, point in enumerate(points, start=1)
        ]
        intervals += _dump_scores(version, "method", of_methods)
        measures += _dump_scores(version, "measure", of_measures)
    if snapshots:
        add_snapshots(session, snapshots, intervals, measures)


def _dump_scores(
    version: Version, kind: str, found: Sequence[tuple[int, str, list[Score]]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the next snapshots, by method or measure."""
    head: dict[str, Any] = {
        "detector_id": version.detector_id,
        "version_id": version.id,
    }
    for number, name, scores in found:
        method = EXACT if kind == "measure" else name
        head |= {kind: name, "formula": stats.get_method(method).formula}
        head["sequence"] = version.sequence + 1 + number
        for position, one in enumerate(scores):
            yield {**head, "position": position, **vars(one)}
