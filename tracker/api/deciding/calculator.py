"""The calculator: intervals from counts alone, and how often they hold."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import (
    ConfidenceText,
    Method,
    Parameters,
    ShareList,
    Whole,
    WholeList,
)
from tracker.api.routes import answers, build_routes
from tracker.http import limit_exact_sums, requires
from tracker.services.deciding.calculator import (
    CalculatedIntervals,
    Coverage,
    calculate,
    calculate_coverage,
)
from tracker.stats import Side

routes = build_routes("calculator", "Intervals from counts alone.")


class IntervalChoice(Parameters):
    """What was counted, and how the interval is computed."""

    correct: WholeList = Field(
        description="One number for each class, separated by commas: 23,41."
    )
    labelled: WholeList = Field(
        description="One number for each class, separated by commas: 28,44. Two or "
        "more classes also give a balanced accuracy. At most 1,000 classes."
    )
    method: Method = Field(default="exact", description="How intervals are computed.")
    confidence_level: ConfidenceText = Field(
        default=0.95, description="For a one-sided bound it must exceed 0.5."
    )
    side: Side = Field(
        default="both", description="Both bounds, or one bound with the whole error."
    )
    set_size: Whole | None = Field(
        default=None,
        description="For one class and the method exact: the number of queries in a "
        "finite set, to bound the accuracy on that set.",
    )


class CoverageChoice(Parameters):
    """How many labels there are, and what the truth is supposed to be."""

    labelled: WholeList = Field(
        description="One number for one class, or two separated by a comma."
    )
    accuracy: ShareList = Field(
        description="The true accuracy of each class: 0.99,0.9."
    )
    method: Method = Field(default="exact", description="How intervals are computed.")
    confidence_level: ConfidenceText = Field(
        default=0.95, description="The confidence level of the intervals."
    )


@routes.get("/interval", responses=answers({200: CalculatedIntervals}))
@requires("viewer")
def get_interval(query: IntervalChoice) -> dict[str, Any]:
    """Compute intervals from counts, without any detector."""
    return calculate(**dict(query)).dump()


@routes.get("/coverage", responses=answers({200: Coverage}))
@requires("viewer")
def get_coverage(query: CoverageChoice) -> dict[str, Any]:
    """Compute exactly how often an interval would hold the truth.

    For two classes it is the interval of the balanced accuracy. If a method takes
    long for each outcome, the number of likely outcomes is limited. Each key may
    ask for one at a time; 429 says that it must wait.
    """
    with limit_exact_sums():
        return calculate_coverage(**dict(query)).dump()
