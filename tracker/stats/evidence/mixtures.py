"""What the evidence about a balanced accuracy is averaged over, fixed beforehand."""

from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats

FORMULA = 2
"""The formula that intervals are computed by; 1 was the first one."""

# The tilts over which the evidence is averaged.  The best one shrinks with the root
# of the number of labels; these serve from a handful to tens of millions, and best
# from some dozens to some thousands, where verdicts are made.
_TILTS = np.geomspace(8.0, 0.002, 20)
_USUAL_TILT, _TILT_SPREAD = 0.5, 0.9
# Where shares are not declared, half of the evidence is for equal ones and half for
# one class, each in its turn, that is so many times rarer than the others.
_RARITIES = {6.0: 0.3, 36.0: 0.2}
_MOST_RARER_CLASSES = 5


class Mixture(NamedTuple):
    """What the evidence is averaged over: a tilt and relative weights of classes."""

    tilts: Floats
    directions: Floats
    log_weights: Floats


def mixture_of(classes: int, formula: int, *, is_declared: bool) -> Mixture:
    """Return the mixture for so many classes, which no label can change.

    If shares are declared, their direction is the only one.  Raises ValueError for a
    formula that there is not.
    """
    if formula == 1:  # Snapshots that were stored by it can be computed again.
        tilts = np.geomspace(8.0, 0.002, 36)
        worths = np.arange(1.0, tilts.size + 1.0) ** -0.5
        return Mixture(tilts, np.ones((36, 1)), np.log(worths / worths.sum()))
    if formula != FORMULA:
        raise ValueError(f"formula must be 1 or {FORMULA}, not {formula!r:.80}")
    worths = 1.0 / (1.0 + (np.log(_TILTS / _USUAL_TILT) / _TILT_SPREAD) ** 2)
    log_weights = np.log(worths / worths.sum())
    if is_declared or classes > _MOST_RARER_CLASSES:
        return Mixture(_TILTS, np.ones((_TILTS.size, 1)), log_weights)
    directions, parts = [np.ones(classes)], [1.0 - sum(_RARITIES.values())]
    for times, part in _RARITIES.items():
        directions.extend(np.where(np.eye(classes) == 1, 1.0, 1.0 / times))
        parts.extend([part / classes] * classes)
    return Mixture(
        np.tile(_TILTS, len(parts)),
        np.repeat(directions, _TILTS.size, axis=0),
        (np.log(parts)[:, np.newaxis] + log_weights).ravel(),
    )
