"""Whether mistakes come in bursts, as those of one event do that nobody declared."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from tracker.stats.arguments import Floats

_BLOCK = 50
_FIRST_LOOK, _FIRST_ERROR = 100, 0.01


class Bursts(NamedTuple):
    """How many mistakes follow one another, and how many would without bursts.

    *p_value* is the chance of as many or more if order told nothing about mistakes.
    """

    neighbours: int
    expected: float
    p_value: float


def find_bursts(classes: Sequence[Sequence[bool]]) -> Bursts:
    """Return whether the mistakes of each class come in bursts.

    For each class, *classes* says of its labels, in the order of their queries, which
    are mistakes.  They are cut into blocks of about 50, so that a slow change of the
    accuracy looks like no burst.  Given how many mistakes each block has, the number
    of mistakes that follow one another is summed exactly.

    W. L. Stevens, Annals of Eugenics 9 (1939), 10-17.
    """
    law, neighbours, expected = np.ones(1), 0, 0.0
    for wrong in classes:
        for block in _blocks(np.asarray(wrong, dtype=bool)):
            mistakes = int(block.sum())
            neighbours += int((block[1:] & block[:-1]).sum())
            expected += mistakes * (mistakes - 1) / max(block.size, 1)
            law = np.convolve(law, neighbour_law(block.size, mistakes))
    return Bursts(neighbours, expected, min(float(law[neighbours:].sum()), 1.0))


def neighbour_law(labels: int, mistakes: int) -> Floats:
    """Return the chances that 0, 1, 2... mistakes follow another, in random order.

    With m mistakes in r runs m - r of them do.
    """
    if not mistakes:
        return np.ones(1)
    runs = np.arange(1, mistakes + 1)
    right = labels - mistakes
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = (
            _log_choose(mistakes - 1, runs - 1)
            + _log_choose(right + 1, runs)
            - _log_choose(labels, np.asarray(mistakes))
        )
    return np.asarray(np.where(runs <= right + 1, np.exp(logs), 0.0)[::-1])


def bursts_are_beyond_doubt(bursts: Bursts, labels: int) -> bool:
    """Return whether to warn of bursts after so many *labels*.

    Looks are at 100, 200, 400... labels, and the j-th spends 0.01 / 2**(j - 1); so a
    version is ever warned of falsely with a chance of at most 2 %.
    """
    look = burst_look(labels)
    return look > 0 and bursts.p_value <= _FIRST_ERROR / 2 ** (look - 1)


def burst_look(labels: int) -> int:
    """Return the number of looks that are due after so many *labels*, 0 before any."""
    return max(0, math.floor(math.log2(max(labels, 1) / _FIRST_LOOK)) + 1)


def _blocks(wrong: npt.NDArray[np.bool_]) -> list[npt.NDArray[np.bool_]]:
    return np.array_split(wrong, max(1, round(wrong.size / _BLOCK)))


def _log_choose(n: int, k: npt.NDArray[np.int64]) -> Floats:
    rest = np.maximum(n - k, 0)
    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0))
