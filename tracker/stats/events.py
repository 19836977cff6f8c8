"""Verdicts that are looked at after every label."""

import math
from typing import Literal

from tracker.stats.arguments import tail_share

Verdict = Literal["met", "missed", "undecided"]

# How far the logarithm of `anytime` evidence may be off.
_MARGIN = 1e-9
_MARGIN_PER_LABEL = 2e-14


def judge(
    log_above: float, log_below: float, labels: int, confidence_level: float
) -> Verdict:
    """Return the verdict of the evidence that an accuracy is above or below a target.

    The evidence is that of `log_evidence_above` and its mirror, or of their balanced
    kin, after so many *labels*.  Over the whole life of a detector *met* is ever said
    wrongly with a probability of at most half of the error, and so is *missed*.

    Raises ValueError unless 0 < confidence_level < 1.

    J. Ville, Etude critique de la notion de collectif (1939).
    """
    needed = -math.log(tail_share(confidence_level, 2))
    needed += _MARGIN + _MARGIN_PER_LABEL * labels
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
