"""Distributions: those of SciPy, imported late, and quantiles of the Beta."""

import importlib
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, ndtri

from .arguments import Floats


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> Any:
        law = getattr(importlib.import_module("scipy.stats"), self._name)
        return getattr(law, function)


binom = _Law("binom")
hypergeom = _Law("hypergeom")


# From this many right and wrong on, a closed approximation is close enough to be
# corrected twice and then be off by less than the library's inverse; where it was
# not, the second correction, in standard deviations, is still large.
_LARGE = 500.0
_SETTLED = 3e-8


def beta_quantile(a: Floats, b: Floats, share: float) -> Floats:
    """Return where the Beta(a, b) distribution function reaches *share*.

    *a* and *b* are positive arrays of one shape, which is that of the result.
    A caller that needs a guarantee must check the result: the library behind it can
    be completely wrong.
    """
    shape = a.shape
    a, b = a.ravel(), b.ravel()
    quantile = np.empty_like(a)
    is_large = np.minimum(a, b) >= _LARGE
    large, rest = np.flatnonzero(is_large), np.flatnonzero(~is_large)
    if large.size:
        # The library takes ten times as long here as for small counts, and with 1000
        # of 10**9 returns twice the right value.  The textbook approximation misses by
        # a hundredth of a percent of the wanted deviate, and asking it for a deviate
        # that is off by as much the other way divides the miss by ten thousand.
        of = a[large], b[large]
        wanted = float(ndtri(share))
        deviate = miss = np.full(large.size, wanted)
        for _ in range(2):
            reached = betainc(*of, _approximate_quantile(*of, deviate))
            miss = np.asarray(ndtri(reached) - wanted, dtype=np.float64)
            deviate = deviate - miss
        quantile[large] = _approximate_quantile(*of, deviate)
        rest = np.concatenate([rest, large[~(np.abs(miss) < _SETTLED)]])
    quantile[rest] = betaincinv(a[rest], b[rest], share)
    return quantile.reshape(shape)


def _approximate_quantile(a: Floats, b: Floats, deviate: Floats) -> Floats:
    # M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.5.22.
    first, second = 1.0 / (2.0 * a - 1.0), 1.0 / (2.0 * b - 1.0)
    mean = 2.0 / (first + second)
    spread = (deviate * deviate - 3.0) / 6.0
    exponent = deviate * np.sqrt(mean + spread) / mean + (second - first) * (
        spread + 5.0 / 6.0 - 2.0 / (3.0 * mean)
    )
    return a / (a + b * np.exp(-2.0 * exponent))
