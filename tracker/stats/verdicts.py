"""Verdicts that are looked at after every label, of one claim and of many."""

import math
from collections.abc import Sequence
from typing import Literal

from tracker.stats.arguments import tail_share

Verdict = Literal["met", "missed", "undecided"]


def judge_evidence(
    log_above: float, log_below: float, confidence_level: float
) -> Verdict:
    """Return the verdict of the evidence that an accuracy is above or below a target.

    The evidence is that of `log_evidence_above` and its mirror.  Over the whole life
    of a detector *met* is ever said wrongly with a probability of at most half of the
    error, and so is *missed*.

    Raises ValueError unless 0 < confidence_level < 1.

    J. Ville, Etude critique de la notion de collectif (1939).
    """
    needed = -math.log(tail_share(confidence_level, 2)) * (1.0 + 2.0**-50)
    if max(log_above, log_below) < needed:
        return "undecided"
    return "met" if log_above > log_below else "missed"


def epoch_level(confidence_level: float, epoch: int) -> float:
    """Return the level for the *epoch*-th stretch of a life, counted from 1.

    After an alarm the verdict begins again with the labels from there on.  The j-th
    stretch may err with a chance of error / (j (j + 1)), which sums up to the error.

    Raises ValueError unless 0 < confidence_level < 1 and epoch is at least 1.
    """
    if epoch < 1:
        raise ValueError(f"epoch must be at least 1, not {epoch!r}")
    error = tail_share(confidence_level, 1) / (epoch * (epoch + 1))
    return math.nextafter(1.0 - math.nextafter(error, 0.0), 1.0)


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
