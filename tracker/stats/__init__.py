"""Intervals for accuracies: numbers in, numbers out."""

from tracker.stats.balanced import balanced_accuracy, balanced_union
from tracker.stats.binomial import (
    Interval,
    class_accuracy,
    clopper_pearson,
    lower_bound,
    upper_bound,
)
from tracker.stats.joint.balanced import joint_is_costly
from tracker.stats.methods import (
    METHODS,
    Method,
    balanced_interval,
    class_intervals,
    get_method,
)
from tracker.stats.planning import (
    expected_width,
    labels_to_decide,
    labels_to_reach_balanced_width,
    labels_to_reach_width,
)

__all__ = [
    "METHODS",
    "Interval",
    "Method",
    "balanced_accuracy",
    "balanced_interval",
    "balanced_union",
    "class_accuracy",
    "class_intervals",
    "clopper_pearson",
    "expected_width",
    "get_method",
    "joint_is_costly",
    "labels_to_decide",
    "labels_to_reach_balanced_width",
    "labels_to_reach_width",
    "lower_bound",
    "upper_bound",
]
