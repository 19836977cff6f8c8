"""The history of a detector as series for its chart."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from tracker.charts.series import Axis, Point, Series
from tracker.charts.sheet import Layout
from tracker.charts.themes import Theme
from tracker.charts.tightening import tightening_chart
from tracker.services.detectors import choose_versions
from tracker.services.estimates import check_method, most_moments
from tracker.services.fields import BALANCED
from tracker.services.history import list_readings
from tracker.storage.detectors import Detector, Version
from tracker.storage.snapshots import (
    find_newest_snapshot,
    list_checkpoints,
    list_intervals_of,
)

# More points than these cannot be told apart on a screen.
_MOST_POINTS = 250
_MOST_CLASSES = 12


def build_chart(  # noqa: PLR0913 - the choices that a page offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None = None,
    method: str = "exact",
    x: Axis = "labels",
    theme: Theme = "light",
    layout: Layout = "wide",
) -> dict[str, Any]:
    """Return the tightening chart of one version as a Vega-Lite specification.

    It is drawn from about 250 checkpoints and the newest snapshot, however long
    the history is.
    """
    check_method(method)
    versions = choose_versions(session, detector, version)
    newest = versions[-1] if versions else None
    series = [] if newest is None else _load_series(session, detector, newest, method)
    name = "" if newest is None else f", version {newest.name}"
    return tightening_chart(
        series,
        title=f"{detector.name}{name}",
        confidence_level=detector.confidence_level,
        method=method,
        target=detector.target,
        x=x,
        theme=theme,
        layout=layout,
        class_count=len(detector.classes),
    )


def _load_series(
    session: Session, detector: Detector, version: Version, method: str
) -> list[Series]:
    most = most_moments(method, len(detector.classes), of=_MOST_POINTS)
    ids = _choose_snapshots(session, version.id, most=most)
    if not ids:
        return []
    last = list_intervals_of(session, ids[-1:], method="exact")
    # The classes of which least is known deserve the panels there are.
    widest = sorted(last[1:], key=lambda row: row.low - row.high)[:_MOST_CLASSES]
    positions = [0, *sorted(row.position for row in widest)]
    points: dict[int, list[Point]] = {position: [] for position in positions}
    for row in list_readings(
        session, detector, ids, method=method, positions=positions
    ):
        points[row.position].append(
            Point(
                labels=row.labels,
                computed_at=row.computed_at,
                correct=row.correct,
                labelled=row.labelled,
                accuracy=row.accuracy,
                low=row.low,
                high=row.high,
            )
        )
    scopes = [BALANCED, *detector.classes]
    return [Series(scopes[position], points[position]) for position in positions]


def _choose_snapshots(
    session: Session, version_id: int, *, most: int = _MOST_POINTS
) -> list[int]:
    # A log axis has no place for zero labels.
    marks = [mark for mark in list_checkpoints(session, version_id) if mark.labels > 0]
    newest = find_newest_snapshot(session, version_id)
    ids = [mark.id for mark in _spread(marks, most)]
    if newest is not None and newest.labels > 0 and newest.id not in ids[-1:]:
        ids.append(newest.id)
    return ids


def _spread(marks: Sequence[Any], most: int) -> list[Any]:
    """Return about *most* marks, evenly along the log of their labels.

    Above a hundred labels checkpoints are spread so already; every mark below
    that stays where there is room.
    """
    if len(marks) <= most:
        return list(marks)
    half = most // 2
    dense = [mark for mark in marks if mark.labels <= half]
    sparse = marks[len(dense) :]
    step = -(-len(sparse) // (most - min(len(dense), half)))
    return [*dense[-half:], *sparse[step - 1 :: step], marks[-1]][: most + 1]


def list_widths(
    session: Session, version_id: int, method: str = "exact"
) -> list[float]:
    """Return how wide the balanced interval was at up to 250 moments, in order."""
    ids = _choose_snapshots(session, version_id)
    rows = list_intervals_of(session, ids, method=method, positions=[0]) if ids else []
    return [row.high - row.low for row in rows]
