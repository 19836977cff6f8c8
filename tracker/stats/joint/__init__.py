"""Intervals for the balanced accuracy that bound all classes together."""

from tracker.stats.joint.balanced import (
    balanced_joint,
    joint_is_costly,
    joint_lower_bound,
    joint_upper_bound,
)

__all__ = [
    "balanced_joint",
    "joint_is_costly",
    "joint_lower_bound",
    "joint_upper_bound",
]
