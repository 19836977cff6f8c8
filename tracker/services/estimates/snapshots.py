"""The counts at the moments of snapshots, and their estimates, many at once.

Rows that are computed together give the bits that each gives alone, and cost a part.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any

from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.intervals import Figures, figures
from tracker.services.estimates.measures import KEPT_MEASURES, count_trials
from tracker.services.estimates.projections import Point
from tracker.shapes import Score
from tracker.storage.detectors import Version
from tracker.storage.estimates.snapshots import (
    Snapshot,
    SnapshotInterval,
    SnapshotMeasure,
)
from tracker.storage.inserting import insert_columns, insert_rows
from tracker.words import EXACT, RECALL, REPLAYED, STORED_METHODS

# The measures that are kept, each with the methods that it is kept by.
_STORED = (
    *((RECALL, method) for method in STORED_METHODS),
    *((measure, EXACT) for measure in KEPT_MEASURES),
)

_FIGURES = tuple(Score.model_fields)

Scored = list[tuple[int, str, str, list[Figures]]]
"""The number of a point, a measure and a method, and the scores by these."""


def compute_intervals(
    points: Mapping[int, Sequence[Point]], level: float
) -> dict[int, Scored]:
    """Return the scores of points by version: of each stored method and measure."""
    # Of as many classes, with shares of them or all without, and of replays or none.
    alike = defaultdict[tuple[int, bool, bool], list[tuple[int, int, Point]]](list)
    for version_id, some in points.items():
        for number, point in enumerate(some):
            is_replay = point.population == REPLAYED
            kind = len(point.correct), point.shares is None, is_replay
            alike[kind].append((version_id, number, point))
    found: dict[int, Scored] = {version_id: [] for version_id in points}
    for same, (measure, method) in product(alike.values(), _STORED):
        chosen = [one for one in same if measure != RECALL or method in one[2].methods]
        if not chosen:
            continue
        rows = figures(
            [one.correct for *_, one in chosen],
            [
                count_trials(measure, one.correct, one.labelled, one.predicted)
                for *_, one in chosen
            ],
            method,
            method_level(method, level, same[0][2].population),
            [one.shares for *_, one in chosen],
            measure=measure,
        )
        for (version_id, number, _), scores in zip(chosen, rows, strict=True):
            found[version_id].append((number, measure, method, scores))
    return found


def store_snapshots(
    session: Session,
    taken: Iterable[tuple[Version, int, float, Sequence[Point], Scored]],
    *,
    computed_at: datetime,
) -> None:
    """Add the snapshots of versions, each with the run of the job and its level."""
    snapshots: list[dict[str, Any]] = []
    # By column, as there are many rows of each snapshot.
    intervals, measures = (defaultdict[str, list[Any]](list) for _ in range(2))
    for version, run_id, level, points, scored in taken:
        of = {"detector_id": version.detector_id, "version_id": version.id}
        first = version.sequence + 1
        snapshots += [
            {
                **of,
                "sequence": number,
                "kind": point.kind,
                "population": point.population,
                "computed_at": computed_at,
                "job_run_id": run_id,
                "confidence_level": level,
                "labels": sum(point.labelled),
                "unclear": point.unclear,
                "targeted_left_out": point.targeted,
            }
            for number, point in enumerate(points, first)
        ]
        for number, measure, method, scores in scored:
            columns, name = measures, {"measure": measure}
            if measure == RECALL:
                columns, name = intervals, {"method": method}
            formula = stats.get_method(method).formula
            head = {**of, **name, "sequence": first + number, "formula": formula}
            for key, value in head.items():
                columns[key] += [value] * len(scores)
            columns["position"] += range(len(scores))
            for key, values in zip(_FIGURES, zip(*scores, strict=True), strict=True):
                columns[key] += values
    if snapshots:
        insert_rows(session, Snapshot, snapshots)
    if intervals:
        insert_columns(session, SnapshotInterval, intervals)
    if measures:
        insert_columns(session, SnapshotMeasure, measures)
