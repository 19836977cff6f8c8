"""Verdicts on many claims together."""

import math
from collections.abc import Sequence

# What the logarithm of a threshold is raised by, against rounding.
_FEW_UNITS = 2.0**-48


def discoveries(logs: Sequence[float], hypotheses: int, error: float) -> list[bool]:
    """Return which of the claims stand, by e-BH.

    *logs* are the logarithms of the evidence for each claim, so that the expectation
    of the evidence is at most 1 while the claim is false; *hypotheses* says how many
    claims there are in all, those without evidence among them.  Of the claims that
    stand the expected share of false ones is at most *error*, however the pieces of
    evidence depend on one another.  With evidence that may be looked at at any time
    this holds at every such look, too.

    R. Wang and A. Ramdas, Journal of the Royal Statistical Society B 84 (2022),
    822-852.
    """
    stand = [False] * len(logs)
    order = sorted(range(len(logs)), key=lambda i: -logs[i])
    enough = [
        rank
        for rank, i in enumerate(order, 1)
        if logs[i] >= log_threshold(hypotheses / (error * rank))
    ]
    for i in order[: max(enough, default=0)]:
        stand[i] = True
    return stand


def log_threshold(evidence: float) -> float:
    """Return the logarithm of *evidence*, rounded up."""
    return math.log(evidence) * (1.0 + _FEW_UNITS)
