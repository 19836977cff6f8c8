"""How often an interval holds the truth."""

from tracker.stats.coverage.likely import (
    NEGLIGIBLE,
    count_likely,
    likely_counts,
    only_likely,
)
from tracker.stats.coverage.outcomes import (
    MOST_LOOKS,
    MOST_OUTCOMES,
    Coverage,
    IntervalFunction,
    balanced_coverage,
    chance_of_ever_missing,
    chances_of_ever_missing,
    class_coverage,
)
from tracker.stats.coverage.simulated import (
    MOST_DRAWS,
    Simulated,
    simulated_coverage,
)

__all__ = [
    "MOST_DRAWS",
    "MOST_LOOKS",
    "MOST_OUTCOMES",
    "NEGLIGIBLE",
    "Coverage",
    "IntervalFunction",
    "Simulated",
    "balanced_coverage",
    "chance_of_ever_missing",
    "chances_of_ever_missing",
    "class_coverage",
    "count_likely",
    "likely_counts",
    "only_likely",
    "simulated_coverage",
]
