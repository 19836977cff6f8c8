"""What an audit is asked for, and when it is reached."""

from typing import NamedTuple

# From a target the interval is told apart by no less than this.
_LEAST_DISTANCE = 0.005


class Step(NamedTuple):
    """The interval of what is aimed at after so many labels."""

    labels: int
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2.0


class Goal(NamedTuple):
    """What an audit is asked for: which accuracy, and how well.

    *aim* is a class, the number of classes for the overall accuracy, or None for the
    balanced one.  Either *half_width* is given, or a *target* that the interval is to
    lie above or below.
    """

    aim: int | None
    half_width: float | None
    target: float | None

    def is_reached(self, step: Step) -> bool:
        """Return whether nothing more is to be labelled."""
        if self.target is not None:
            return step.low > self.target or step.high < self.target
        return self.half_width is not None and step.half_width <= self.half_width

    def wanted(self, accuracy: float) -> float:
        """Return the half-width at which the goal would be reached."""
        if self.target is None:
            assert self.half_width is not None
            return self.half_width
        return max(_LEAST_DISTANCE, abs(accuracy - self.target))
