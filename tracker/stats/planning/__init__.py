"""How many more labels it takes."""

from tracker.stats.planning.certification import (
    chance_to_certify,
    fewest_correct_to_certify,
    labels_to_certify,
    labels_to_certify_without_errors,
    next_class,
)
from tracker.stats.planning.methods import labels_to_narrow
from tracker.stats.planning.verdicts import labels_to_decide
from tracker.stats.planning.widths import (
    MOST_PLANNED,
    expected_width,
    labels_to_reach_balanced_width,
    labels_to_reach_width,
)

__all__ = [
    "MOST_PLANNED",
    "chance_to_certify",
    "expected_width",
    "fewest_correct_to_certify",
    "labels_to_certify",
    "labels_to_certify_without_errors",
    "labels_to_decide",
    "labels_to_narrow",
    "labels_to_reach_balanced_width",
    "labels_to_reach_width",
    "next_class",
]
