"""How an interval closes in on its goal, label by label, as places in a picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tracker.stats import Goal, Step
from tracker.web.drawing.readings import Tick
from tracker.web.drawing.words import narrow, number

# Of the width and of the height, in percent; the numbers of the axes are around.
_LEFT, _RIGHT, _TOP, _BOTTOM = 9.0, 98.0, 4.0, 90.0
_STEPS = (1, 2, 5, 10)
_ROOM = 0.05


Closing = dict[str, Any]
"""All that is drawn; points are thousandths of the width and of the height."""


@dataclass(frozen=True, slots=True)
class _Plane:
    most: int
    low: float

    def x(self, labels: float) -> str:
        return f"{self._x(labels):.2f}%"

    def _x(self, labels: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, labels / self.most)

    def y(self, share: float) -> str:
        return f"{self._y(share):.2f}%"

    def _y(self, share: float) -> float:
        part = (1.0 - max(share, self.low)) / (1.0 - self.low)
        return _TOP + (_BOTTOM - _TOP) * part

    def bounds(self, steps: Sequence[Step]) -> tuple[list[str], list[str]]:
        """Return the points of the lower and of the upper bound, as stairs."""
        low, high = list[str](), list[str]()
        for one, following in pairwise([*steps, *steps[-1:]]):
            for share, points in ((one.low, low), (one.high, high)):
                points += [
                    f"{10 * self._x(labels):.1f},{10 * self._y(share):.1f}"
                    for labels in (one.labels, following.labels)
                ]
        return low, high

    def bracket(self, labels: int, centre: float, half_width: float) -> dict[str, Any]:
        """Return the goal at its label, within what an accuracy can be.

        Its words stand on one side of it.
        """
        centre = min(max(centre, half_width), 1.0 - half_width)
        is_left = labels > 0.6 * self.most
        return {
            "x": self.x(labels),
            "low": self.y(centre - half_width),
            "high": self.y(centre + half_width),
            "words_at": f"{self._x(labels) + (-1.5 if is_left else 1.5):.2f}%",
            "is_left": is_left,
            "labels": labels,
        }


def draw_closing(
    steps: Sequence[Step],
    ghost: Sequence[Step],
    goal: Goal,
    *,
    expected: int | None,
    at_random: int | None,
) -> Closing:
    """Return where everything lies: *steps* up to now, and *ghost* of random labels.

    The axis of the accuracy begins below the target and every interval from a quarter
    of the labels on; what reaches lower is cut off.
    """
    now = steps[-1]
    most = max(24, now.labels, expected or 0, at_random or 0)
    shown = [one for one in (*steps, *ghost) if 4 * one.labels >= now.labels]
    lowest = min([one.low for one in shown] + [goal.target or 1.0]) - _ROOM
    plane = _Plane(math.ceil(most * 1.04), max(0.0, math.floor(10 * lowest) / 10))
    past = [one for one in ghost if one.labels <= now.labels]
    if past and past[-1].labels < now.labels:
        past.append(past[-1]._replace(labels=now.labels))
    centre = (now.low + now.high) / 2.0
    goals = [
        None
        if labels is None or goal.half_width is None
        else plane.bracket(labels, centre, goal.half_width)
        for labels in (expected, at_random)
    ]
    low, high = plane.bounds(steps)
    return {
        "shares": _shares(plane),
        "labels": _labels(plane),
        "band": " ".join([*low, *reversed(high)]),
        "bounds": [" ".join(low), " ".join(high)],
        "ghost": [" ".join(points) for points in plane.bounds(past)],
        "now": plane.x(now.labels),
        "labels_now": now.labels,
        "is_now_left": now.labels < 0.1 * plane.most,
        "goal": goals[0],
        "at_random": goals[1],
        "target": None if goal.target is None else plane.y(goal.target),
        "is_cut_off": any(one.low < plane.low for one in (*steps, *past)),
    }


def _shares(plane: _Plane) -> list[Tick]:
    first = round(plane.low * 100)
    step = 5 if first >= 70 else 10 if first >= 40 else 20
    return [
        Tick(plane.y(percent / 100), narrow(f"{percent} %"))
        for percent in range(100, first - 1, -step)
    ]


def _labels(plane: _Plane) -> list[Tick]:
    rough = plane.most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = int(next(power * one for one in _STEPS if power * one >= rough))
    return [
        Tick(plane.x(count), number(count)) for count in range(0, plane.most + 1, step)
    ]
