"""How large a chart and its panels are."""

import math
from dataclasses import dataclass
from typing import Literal

Layout = Literal["wide", "narrow"]

# Room for the numbers of the vertical axis, which `axes.percent_axis` fixes.
AXIS_ROOM = 42

# Inside a panel, so that neither a thick line nor a dot at its edge moves the
# title above it or the panel beside it.
TOP, SIDE = 6, 6

GAP = 24

# Beside the large panel, for the names of its lines.
MARGIN = 88

# Half of the last number on a horizontal axis may stand beyond the panel.
_EDGE = 8
_MOST_COLUMNS = 5
_SMALL_HEIGHT = {1: 160, 2: 160, 3: 140}
_SIZE: dict[Layout, tuple[int, int]] = {"wide": (820, 290), "narrow": (320, 220)}


@dataclass(frozen=True, slots=True)
class Sheet:
    """The size of the whole picture, and of its one large panel."""

    layout: Layout
    width: int
    large_height: int

    def columns(self, count: int) -> int:
        """Return how many of *count* panels stand side by side, in even rows."""
        if self.layout == "narrow" or count == 0:
            return 1
        return math.ceil(count / math.ceil(count / _MOST_COLUMNS))

    def panel_width(self, columns: int) -> int:
        """Return the width of each of so many panels beside each other."""
        axes_in_a_row = columns if self.has_all_axes(columns) else 1
        rest = self.width - _EDGE - AXIS_ROOM * axes_in_a_row - GAP * (columns - 1)
        return max(60, rest // columns)

    def small_height(self, columns: int) -> int:
        """Return the height of a class's panel."""
        return 110 if self.layout == "narrow" else _SMALL_HEIGHT.get(columns, 120)

    @staticmethod
    def has_all_axes(columns: int) -> bool:
        """Return whether every panel, not only the first, numbers its axis."""
        return columns < 3


def build_sheet(layout: Layout, width: int | None, height: int | None) -> Sheet:
    """Return a sheet of the usual size, or of the one asked for."""
    usual_width, usual_height = _SIZE[layout]
    return Sheet(layout, width or usual_width, height or usual_height)
