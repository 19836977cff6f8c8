"""Histograms: the rounds of a study, and tails of the binomial distribution."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracker.stats import TailSide, binomial_tail

_COLUMNS = 50


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a histogram, in percent of the plot, from its upper left."""

    x: str
    y: str
    width: str
    height: str


def build_histogram(values: npt.ArrayLike, start: float) -> Sequence[Column]:
    """Return a histogram of *values* from *start* to 1; raises ValueError beyond it."""
    shown = np.asarray(values, dtype=np.float64)
    if not ((shown >= start) & (shown <= 1)).all():
        raise ValueError(f"values must lie between {start} and 1")
    numbers, _ = np.histogram(shown, bins=_COLUMNS, range=(start, 1))
    heights = 100 * numbers / max(1, numbers.max())
    step = 100 / _COLUMNS
    return [
        Column(
            x=f"{place * step:.2f}%",
            y=f"{100 - height:.2f}%",
            width=f"{step:.2f}%",
            height=f"{height:.2f}%",
        )
        for place, height in enumerate(heights.tolist())
        if height
    ]


# In the picture's own units.
WIDTH, HEIGHT = 600.0, 150.0
_GAP = 0.15
_HEADROOM = 1.08


@dataclass(frozen=True, slots=True)
class Bar:
    """A column of the picture."""

    x: float
    y: float
    width: float
    height: float
    is_marked: bool


@dataclass(frozen=True, slots=True)
class TailPicture:
    """The binomial distribution of the correct ones, with a tail marked."""

    correct: int
    labelled: int
    supposed: float
    side: TailSide
    probability: float
    bars: Sequence[Bar]
    # The place of *correct*, and the numbers at both ends.
    mark: float
    first: int
    last: int


def draw_tail(
    correct: int, labelled: int, supposed: float, side: TailSide
) -> TailPicture:
    """Return the picture of *correct* of *labelled* under a *supposed* accuracy."""
    tail = binomial_tail(correct, labelled, supposed, side)
    first, last = int(tail.first[0]), int(tail.last[-1])
    scale = WIDTH / (last - first + 1)
    spans = tail.last - tail.first + 1
    # Densities, not probabilities: the outermost columns may be cut.
    density = tail.chance / spans
    top = float(density.max()) * _HEADROOM or 1.0
    gaps = _GAP * np.minimum(spans * scale, 6.0)
    heights = density / top * HEIGHT
    shown = [
        (tail.first - first) * scale + gaps / 2,
        HEIGHT - heights,
        spans * scale - gaps,
        heights,
    ]
    rows = zip(*(some.tolist() for some in shown), tail.is_marked, strict=True)
    return TailPicture(
        correct=correct,
        labelled=labelled,
        supposed=supposed,
        side=side,
        probability=tail.probability,
        bars=[
            Bar(
                round(x, 2),
                round(y, 2),
                round(width, 2),
                round(height, 2),
                bool(marked),
            )
            for x, y, width, height, marked in rows
        ],
        mark=round((correct - first + 0.5) * scale, 2),
        first=first,
        last=last,
    )


def draw_curve(chances: Sequence[float], *, ceiling: float) -> str:
    """Return the points of a line over 1, 2, 3... labels, on a log axis.

    *chances* lie between 0 and *ceiling*; points closer than a pixel are left out.
    """
    most = math.log(len(chances)) or 1.0
    points: list[str] = []
    seen = -1.0
    for number, chance in enumerate(chances, start=1):
        x = round(math.log(number) / most * WIDTH, 1)
        if x - seen >= 1.0 or number == len(chances):
            points.append(f"{x:g},{round(HEIGHT * (1 - chance / ceiling), 1):g}")
            seen = x
    return " ".join(points)
