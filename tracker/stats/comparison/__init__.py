"""Whether one version is better than another, and by how much."""

from tracker.stats.comparison.differences import (
    boxed_paired_difference,
    mcnemar,
    unpaired_difference,
)
from tracker.stats.comparison.joint import joint_paired_difference
from tracker.stats.comparison.paired import Difference, paired_difference

__all__ = [
    "Difference",
    "boxed_paired_difference",
    "joint_paired_difference",
    "mcnemar",
    "paired_difference",
    "unpaired_difference",
]
