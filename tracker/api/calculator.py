"""The calculator: intervals from counts alone, and how often they hold."""

from dataclasses import asdict
from typing import Any

from pydantic import Field

from tracker.api.parameters import (
    LevelText,
    Method,
    Parameters,
    ShareList,
    Whole,
    WholeList,
)
from tracker.api.routes import answers, build_routes
from tracker.api.shapes import BalancedEstimate, Shape
from tracker.http import requires
from tracker.services.calculator import calculate, calculate_coverage
from tracker.stats.one_sided import Side

routes = build_routes("calculator", "Intervals from counts alone.")


class CalculatedClass(Shape):
    """The accuracy of one class: correct / labelled, and its interval."""

    correct: int
    labelled: int
    accuracy: float | None = Field(description="null without labels.")
    low: float
    high: float


class CalculatedIntervals(Shape):
    """Intervals from counts, and how they were computed."""

    method: str
    is_guaranteed: bool = Field(
        description="Whether each interval holds the truth as often as it says, "
        "whatever that is."
    )
    confidence_level: float
    side: str = Field(description="both, or the one bound that is not 0 or 1.")
    set_size: int | None
    classes: list[CalculatedClass]
    balanced: BalancedEstimate | None = Field(description="null for a single class.")


class Coverage(Shape):
    """How often an interval holds the truth, and how wide it is on average."""

    method: str
    is_guaranteed: bool
    confidence_level: float
    labelled: list[int]
    accuracy: list[float]
    holds: float = Field(description="The chance that the interval holds the truth.")
    above: float = Field(description="The chance that it lies above the truth.")
    below: float = Field(description="The chance that it lies below the truth.")
    expected_width: float


class IntervalChoice(Parameters):
    """What was counted, and how the interval is computed."""

    correct: WholeList = Field(description="Of each class, by commas: 23,41.")
    labelled: WholeList = Field(
        description="Of each class, by commas: 28,44; from two classes on there is a "
        "balanced accuracy, too. At most 1,000 classes."
    )
    method: Method = Field(default="exact", description="How intervals are computed.")
    confidence_level: LevelText = Field(
        default=0.95, description="Of one side it must exceed 0.5."
    )
    side: Side = Field(
        default="both", description="Both bounds, or one of them at the whole error."
    )
    set_size: Whole | None = Field(
        default=None,
        description="Of one class, with the method exact: how many queries there are "
        "in all, for the accuracy on just these.",
    )


class CoverageChoice(Parameters):
    """How many labels there are, and what the truth is supposed to be."""

    labelled: WholeList = Field(description="Of one class, or of two by a comma.")
    accuracy: ShareList = Field(description="The true one of each class: 0.99,0.9.")
    method: Method = Field(default="exact", description="How intervals are computed.")
    confidence_level: LevelText = Field(default=0.95, description="What they promise.")


@routes.get("/interval", responses=answers({200: CalculatedIntervals}))
@requires("viewer")
def get_interval(query: IntervalChoice) -> dict[str, Any]:
    """Compute intervals from counts, without any detector."""
    return asdict(calculate(**dict(query)))


@routes.get("/coverage", responses=answers({200: Coverage}))
@requires("viewer")
def get_coverage(query: CoverageChoice) -> dict[str, Any]:
    """Sum exactly how often an interval would hold the truth.

    Of two classes it is the interval of the balanced accuracy. Where that takes
    long for each outcome, the number of likely outcomes is limited.
    """
    return asdict(calculate_coverage(**dict(query)))
