"""The part of a history that a chart shows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tracker.charts import axes
from tracker.charts.series import Axis, thin
from tracker.shapes import Moment

# What a bound stays above the bottom of its panel at least.
_ROOM = 0.05


@dataclass(frozen=True, slots=True)
class View:
    """What the panels of one chart have in common along the horizontal axis.

    From *settled* labels on, the vertical axis reaches every lower bound; before
    that a band may run along the bottom of its panel.
    """

    x: Axis
    x_domain: tuple[float, float]
    start: float
    settled: float
    is_whole: bool = False

    def cut(self, points: Sequence[Moment], *, limit: int) -> list[Moment]:
        """Return the points in view, thinned, with the one in force at its start."""
        before = sum(point.labels <= self.start for point in points)
        seen = points[max(before - 1, 0) :] if self.x == "labels" else points
        return thin(seen, limit=limit, x=self.x)

    def percent_domain(
        self, points: Iterable[Moment], *, target: float | None = None
    ) -> tuple[float, float]:
        """Return the ends of a vertical axis for *points* and *target*."""
        if self.is_whole:
            return 0.0, 1.0
        bounds = [p.low - _ROOM for p in points if p.labels >= self.settled]
        if target is not None:
            # A line on the bottom of the panel would look like its frame.
            bounds.append(target - 0.02)
        return axes.percent_domain(max(0.0, bound) for bound in bounds or [0.0])

    def is_cut(self, points: Iterable[Moment], bottom: float) -> bool:
        """Return whether a band of *points* reaches below the *bottom* of its axis."""
        return any(p.low < bottom for p in points if p.labels >= self.start)


def build_view(
    paths: Sequence[Sequence[Moment]], x: Axis, *, is_whole: bool = False
) -> View:
    """Return the view of all *paths*, each of them with points in order."""
    last = max(path[-1].labels for path in paths)
    labels = axes.labels_domain(min(path[0].labels for path in paths), last)
    settled = max(labels[0], last / 4)
    if x == "labels":
        return View(x, labels, labels[0], settled, is_whole)
    times = axes.time_domain(
        min(path[0].computed_at for path in paths),
        max(path[-1].computed_at for path in paths),
    )
    return View(x, times, labels[0], settled, is_whole)
