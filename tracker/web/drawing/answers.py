"""The answer of a page as it is drawn: the one bar, and precision beside it."""

import math
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from tracker.services.estimates.estimate import Estimate
from tracker.shapes import Accuracy, Moment
from tracker.web.drawing.readings import Axis, Tick
from tracker.web.drawing.words import number

# Of fewer labels there is no curve.
LEAST_DRAWN = 10
# What was so wide so long ago may leave the chart below.
_SHOWN = 8


def near_axis(*lows: float | None) -> Axis:
    """Return the axis from the multiple of 10 % below everything that is drawn."""
    lowest = min([low for low in lows if low is not None], default=0.9)
    return Axis(max(0, min(9, math.ceil(10 * lowest - 1e-9) - 1)) / 10)


def name_marks(
    axis: Axis, mark: float | None, target: float | None
) -> list[tuple[str, str, bool]]:
    """Return where the names of an estimate and a *target* stand, not on each other.

    Each begins or ends at its mark, and runs towards the middle of a bar that is near
    its end.  The second may be raised.
    """
    places = [one for one in (mark, target) if one is not None]
    anchors = ["start" if axis.part(one) < 0.5 else "end" for one in places]
    is_near = False
    if mark is not None and target is not None:
        apart = axis.part(mark) - axis.part(target)
        if apart > 0 and axis.part(target) > 0.15 and axis.part(mark) < 0.85:
            anchors = ["start", "end"]
        else:
            is_near = abs(apart) < 0.6
    return [
        (axis.place(one), anchor, is_near and number == 1)
        for number, (one, anchor) in enumerate(zip(places, anchors, strict=True))
    ]


def draw_curve(
    points: Sequence[Moment], now: Accuracy, labels: int, target: float | None
) -> dict[str, Any] | None:
    """Return how an interval closed in from ten labels on, None for fewer.

    It goes along *points* on a log axis, in thousandths of the width and of the height,
    and ends with the live interval *now*, after so many *labels*.
    """
    drawn = [one for one in points if one.labels >= LEAST_DRAWN]
    if points and labels:
        live = {"low": now.low, "high": now.high, "accuracy": now.accuracy}
        drawn = [one for one in drawn if one.labels < labels]
        drawn.append(points[-1].model_copy(update={**live, "labels": labels}))
    if not drawn or drawn[0].labels == drawn[-1].labels:
        return None
    first, last = drawn[0].labels, drawn[-1]
    near = [one.low for one in drawn if _SHOWN * one.labels >= last.labels]
    axis = near_axis(target, *near)

    def x(labels: int) -> float:
        return 1000 * math.log(labels / first) / math.log(last.labels / first)

    def place(labels: int, share: float) -> str:
        return f"{x(labels):.0f},{1000 * (1 - axis.part(share)):.0f}"

    upper = [place(one.labels, one.high) for one in drawn]
    lower = [place(one.labels, one.low) for one in reversed(drawn)]
    known = [one for one in drawn if one.accuracy is not None]
    steps = [step * 10**power for power in range(1, 9) for step in (1, 2, 5)]
    ticks = [
        Tick(f"{x(one) / 10:.1f}%", number(one))
        for one in takewhile(lambda one: one < last.labels, steps)
        # The number of labels at the end needs the rest of a narrow screen.
        if one >= first and x(one) < 600
    ]
    # Beyond a factor of 500 those of 1, 2 and 5 would touch on a narrow screen.
    apart = 1 if last.labels < 500 * first else 3
    return {
        "axis": axis,
        "band": " ".join([*upper, *lower]),
        "line": " ".join(place(one.labels, one.accuracy or 0.0) for one in known),
        "labels": ticks[::apart],
        "last": last,
    }


def list_pairs(estimate: Estimate) -> list[tuple[str, str, int]]:
    """Return labels, what was predicted for them and how often, most frequent first."""
    pairs = [
        (label, predicted, number)
        for label, row in estimate.confusion.items()
        for predicted, number in row.items()
        if predicted != label and number
    ]
    return sorted(pairs, key=lambda pair: -pair[2])
