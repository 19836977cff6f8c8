"""Intervals that are nearly right, and called approximations wherever shown."""

from tracker.stats.approximations.balanced import (
    balanced_agresti_coull,
    balanced_bootstrap,
    balanced_jeffreys,
    balanced_mid_p,
    balanced_normal,
    balanced_posterior,
    balanced_wilson,
    balanced_wilson_cc,
    combined,
)
from tracker.stats.approximations.one_class import (
    agresti_coull,
    bootstrap,
    jeffreys,
    mid_p,
    normal,
    posterior,
    wilson,
    wilson_cc,
)

__all__ = [
    "agresti_coull",
    "balanced_agresti_coull",
    "balanced_bootstrap",
    "balanced_jeffreys",
    "balanced_mid_p",
    "balanced_normal",
    "balanced_posterior",
    "balanced_wilson",
    "balanced_wilson_cc",
    "bootstrap",
    "combined",
    "jeffreys",
    "mid_p",
    "normal",
    "posterior",
    "wilson",
    "wilson_cc",
]
