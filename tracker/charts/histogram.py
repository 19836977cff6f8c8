"""How often values came, as columns along an axis."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_COLUMNS = 50


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a histogram, in percent of the plot, from its upper left."""

    x: str
    y: str
    width: str
    height: str


def build_histogram(values: npt.ArrayLike, start: float) -> Sequence[Column]:
    """Return the columns of *values* on an axis from *start* to 1.

    The highest one fills the plot, and places without a value have none.  Raises
    ValueError unless every value lies on the axis.
    """
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
