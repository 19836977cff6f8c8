"""The part of a history that a chart shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracker.charts import axes
from tracker.charts.series import Axis, Point, thin


@dataclass(frozen=True, slots=True)
class View:
    """What the panels of one chart have in common along the horizontal axis.

    From *start* labels on, the vertical axis has to reach every lower bound;
    before that a band may run along the bottom of its panel.
    """

    x: Axis
    x_domain: tuple[float, float]
    start: float

    def cut(self, points: Sequence[Point], *, limit: int) -> list[Point]:
        """Return the points in view, thinned, with the one in force at its start."""
        before = sum(point.labels <= self.start for point in points)
        seen = points[max(before - 1, 0) :] if self.x == "labels" else points
        return thin(seen, limit=limit, x=self.x)

    def percent_domain(
        self, points: Iterable[Point], *, target: float | None = None
    ) -> tuple[float, float]:
        """Return the ends of a vertical axis for *points* and *target*."""
        bounds = [point.low for point in points if point.labels >= self.start]
        if target is not None:
            # A line upon the bottom of the panel would look like its frame.
            bounds.append(max(0, target - 0.02))
        return axes.percent_domain(bounds or [0.0])


def build_view(paths: Sequence[Sequence[Point]], x: Axis) -> View:
    """Return the view of all *paths*, each of them with points in order."""
    labels = axes.labels_domain(
        min(path[0].labels for path in paths), max(path[-1].labels for path in paths)
    )
    if x == "labels":
        return View(x, labels, labels[0])
    times = axes.time_domain(
        min(path[0].computed_at for path in paths),
        max(path[-1].computed_at for path in paths),
    )
    return View(x, times, labels[0])
