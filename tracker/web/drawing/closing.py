"""How an interval closes in on its goal, label by label, as places in a picture."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tracker.stats import Goal, Step
from tracker.web.drawing.words import narrow, number

# Of the width and of the height, in percent; the numbers of the axes are around.
_LEFT, _RIGHT, _TOP, _BOTTOM = 9.0, 98.0, 4.0, 90.0
_STEPS = (1, 2, 5)
_ROOM = 0.05


@dataclass(frozen=True, slots=True)
class Mark:
    """A number at an axis."""

    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line, its ends as SVG lengths."""

    x1: str
    y1: str
    x2: str
    y2: str


@dataclass(frozen=True, slots=True)
class Block:
    """What lies between the bounds from one step to the next."""

    x: str
    y: str
    width: str
    height: str


@dataclass(frozen=True, slots=True)
class Bracket:
    """The goal, where it is expected to be reached."""

    x: str
    low: str
    high: str
    # Where its words stand, and on which side of it.
    words_at: str
    is_left: bool
    labels: int


@dataclass(frozen=True, slots=True)
class Closing:
    """All that is drawn."""

    shares: Sequence[Mark]
    labels: Sequence[Mark]
    blocks: Sequence[Block]
    bounds: Sequence[Line]
    ghost: Sequence[Line]
    now: str
    labels_now: int
    is_now_left: bool
    goal: Bracket | None
    at_random: Bracket | None
    target: str | None
    is_cut_off: bool


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

    def lines(self, steps: Sequence[Step]) -> list[Line]:
        """Return both bounds as steps."""
        found = []
        for one, following in pairwise(steps):
            x1, x2 = self.x(one.labels), self.x(following.labels)
            for y, then in (
                (self.y(one.low), self.y(following.low)),
                (self.y(one.high), self.y(following.high)),
            ):
                found.append(Line(x1, y, x2, y))
                found.append(Line(x2, y, x2, then))
        return found

    def blocks(self, steps: Sequence[Step]) -> list[Block]:
        """Return what lies between the bounds."""
        return [
            Block(
                x=self.x(one.labels),
                y=self.y(one.high),
                width=f"{self._x(following.labels) - self._x(one.labels):.2f}%",
                height=f"{self._y(one.low) - self._y(one.high):.2f}%",
            )
            for one, following in pairwise(steps)
        ]

    def bracket(self, labels: int, centre: float, half_width: float) -> Bracket:
        """Return the goal at its label, within what an accuracy can be."""
        centre = min(max(centre, half_width), 1.0 - half_width)
        is_left = labels > 0.6 * self.most
        return Bracket(
            x=self.x(labels),
            low=self.y(centre - half_width),
            high=self.y(centre + half_width),
            words_at=f"{self._x(labels) + (-1.5 if is_left else 1.5):.2f}%",
            is_left=is_left,
            labels=labels,
        )


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
    return Closing(
        shares=_shares(plane),
        labels=_labels(plane),
        blocks=plane.blocks(steps),
        bounds=plane.lines(steps),
        ghost=plane.lines(past),
        now=plane.x(now.labels),
        labels_now=now.labels,
        is_now_left=now.labels < 0.1 * plane.most,
        goal=goals[0],
        at_random=goals[1],
        target=None if goal.target is None else plane.y(goal.target),
        is_cut_off=any(one.low < plane.low for one in (*steps, *past)),
    )


def _shares(plane: _Plane) -> list[Mark]:
    first = round(plane.low * 100)
    step = 5 if first >= 70 else 10 if first >= 40 else 20
    return [
        Mark(plane.y(percent / 100), narrow(f"{percent} %"))
        for percent in range(100, first - 1, -step)
    ]


def _labels(plane: _Plane) -> list[Mark]:
    rough = plane.most / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(
        (power * one for one in _STEPS if power * one >= rough), int(power * 10)
    )
    step = max(1, int(step))
    return [
        Mark(plane.x(count), number(count)) for count in range(0, plane.most + 1, step)
    ]
