"""Which verdicts of many detectors hold up together."""

import math
from collections.abc import Sequence
from functools import lru_cache

from tracker.services.estimates.estimate import Estimate
from tracker.stats import discoveries, log_evidence_above

# The part of the verdicts that hold up together which may be expected to be false.
ERROR = 0.05


def find_discoveries(estimates: Sequence[Estimate]) -> list[bool]:
    """Return of each estimate whether its verdict holds up among all of them.

    Of those that do the expected share of false ones is at most 5 %, however many
    detectors there are and however often they are looked at.  Where a target is met
    or missed there is evidence, and two claims about every detector with a target; a
    detector that is undecided counts with no evidence, which keeps the promise.
    """
    decided = [one.decision for one in estimates]
    claims = 2 * sum(found is not None for found in decided)
    if not claims:
        return [False for _ in estimates]
    return discoveries([_weigh(one) for one in estimates], claims, ERROR)


def _weigh(estimate: Estimate) -> float:
    found = estimate.decision
    if found is None or found.verdict == "undecided":
        return float("-inf")
    correct, counted, shares, level = found.claim
    target = found.target
    if found.verdict == "missed":
        # Below the target is the mirror image: more mistakes than it allows.
        correct = tuple(n - k for n, k in zip(counted, correct, strict=True))
        target = 1 - target
    # The results pick the day since which labels count, so its evidence has the part
    # of the error that the day has.
    part = (1 - level) / (1 - estimate.confidence_level)
    return _log_evidence(correct, counted, target, shares) + math.log(part)


@lru_cache(maxsize=1024)
def _log_evidence(
    correct: tuple[int, ...],
    labelled: tuple[int, ...],
    target: float,
    shares: tuple[float, ...] | None,
) -> float:
    return float(log_evidence_above(correct, labelled, target, shares=shares))
