"""What is told look by look, and where labels can have decided anything."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker.services.telling.events import Look, follow_verdict
from tracker.storage.telling import Event

# No evidence exceeds the ratio of likelihoods, and a verdict takes one of 2 / error,
# which is 40 at a level of 95 %.
LEAST_EVIDENCE = 3.68


def follow_all(
    looks: Sequence[Look], target: float, level: float
) -> list[dict[str, Any]]:
    """Return what is told where the worker looks at each of *looks*."""
    told: list[dict[str, Any]] = []
    for one in looks:
        last = Event(data=told[-1]) if told else None
        found = follow_verdict(one, target, level, last)
        if found is not None:
            told.append(found)
    return told


def may_be_decided(
    k: npt.NDArray[np.int64], n: npt.NDArray[np.int64], accuracies: npt.ArrayLike
) -> npt.NDArray[np.bool_]:
    """Return where the labels speak against accuracies whose mean is the target.

    The classes run along the last axis, as in the statistics.
    """
    share, p = k / np.maximum(n, 1), np.asarray(accuracies, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(share > 0, share * np.log(share / p), 0.0)
        parts += np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - p)), 0.0)
    return np.asarray(np.nansum(n * parts, axis=-1) >= LEAST_EVIDENCE)
