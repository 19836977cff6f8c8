"""Intervals that hold after every label at once."""

from tracker.stats.anytime.balanced import (
    balanced_anytime,
    log_balanced_evidence_above,
)
from tracker.stats.anytime.one_class import (
    anytime,
    anytime_lower_bound,
    anytime_upper_bound,
    log_evidence_above,
)

__all__ = [
    "anytime",
    "anytime_lower_bound",
    "anytime_upper_bound",
    "balanced_anytime",
    "log_balanced_evidence_above",
    "log_evidence_above",
]
