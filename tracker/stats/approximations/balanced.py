"""Intervals for the balanced accuracy that are in wide use and guarantee nothing."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtri

from tracker.stats.approximations.one_class import (
    agresti_coull,
    jeffreys,
    mid_p,
    wilson,
    wilson_cc,
)
from tracker.stats.arguments import (
    Floats,
    checked_class_counts,
    checked_fraction,
)
from tracker.stats.exact import Interval
from tracker.stats.laws import beta_quantile, binom

# Distributions are added up on a grid of this many steps in a standard deviation of
# the sum.  Its mean and spread are put right afterwards, and then quantiles are off
# by a few ten thousandths of the standard deviation at most.
_STEPS = 128
_GRID = 8192
_NEGLIGIBLE = 1e-12

# The outcomes of a bootstrap lie on a grid of their own.  One that is finer than this
# many steps in a standard deviation of the sum is replaced, and each outcome goes to
# the nearest node.
_BOOTSTRAP_STEPS = 512

_ClassInterval = Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval]
_Part = tuple[int, Floats]
_RowLimits = Callable[[Floats, Floats, float], tuple[float, float]]


def balanced_wilson(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the combination of the Wilson limits of the classes.

    The arguments and what is returned are those of `combined`.  This is an
    approximation: with ten labels of each of two classes there are accuracies that
    it holds 84 % of the time at a level of 95 %.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890, method 10.
    """
    return combined(wilson, k, n, confidence_level)


def balanced_wilson_cc(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the combination of the classes' `wilson_cc` limits; see `combined`."""
    return combined(wilson_cc, k, n, confidence_level)


def balanced_agresti_coull(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the combination of the classes' `agresti_coull` limits; see `combined`."""
    return combined(agresti_coull, k, n, confidence_level)


def balanced_jeffreys(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the combination of the classes' `jeffreys` limits; see `combined`."""
    return combined(jeffreys, k, n, confidence_level)


def balanced_mid_p(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the combination of the classes' `mid_p` limits; see `combined`."""
    return combined(mid_p, k, n, confidence_level)


def combined(
    interval: _ClassInterval,
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence_level: float,
) -> Interval:
    """Return class intervals combined to one for the balanced accuracy.

    The last axis of *k* and *n* runs over the classes; both bounds have the shape
    that remains, in [0, 1].  The distances from the accuracies to their limits are
    combined as standard deviations are.  This is an approximation.  While a class
    has no labels it is [0, 1].

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.

    G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008), 1693-1702.
    """
    correct, labelled = checked_class_counts(k, n)
    low, high = interval(k, n, confidence_level)
    shares = correct / np.maximum(labelled, 1.0)
    # At a low level an interval may lie to one side of its estimate.
    below, above = np.maximum(shares - low, 0.0), np.maximum(high - shares, 0.0)
    classes = correct.shape[-1]
    centre = shares.mean(axis=-1)
    return _settled(
        labelled,
        centre - np.sqrt((below**2).sum(axis=-1)) / classes,
        centre + np.sqrt((above**2).sum(axis=-1)) / classes,
    )


def balanced_normal(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the normal approximation for the mean of the class accuracies.

    The last axis of *k* and *n* runs over the classes; both bounds have the shape
    that remains, and are clipped to [0, 1].  This is a poor approximation: perfect
    classes have the interval [1, 1].  While a class has no labels it is [0, 1].

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.
    """
    correct, labelled = checked_class_counts(k, n)
    most = np.maximum(labelled, 1.0)
    shares = correct / most
    spread = np.sqrt((shares * (1.0 - shares) / most).sum(axis=-1))
    half = -float(ndtri(_tail(confidence_level))) * spread / correct.shape[-1]
    centre = shares.mean(axis=-1)
    return _settled(labelled, centre - half, centre + half)


def balanced_bootstrap(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the percentile interval of a bootstrap within each class.

    The last axis of *k* and *n* runs over the classes; both bounds have the shape
    that remains, in [0, 1].  Drawing the labels of each class again and again, with
    replacement, makes the balanced accuracy a mean of independent binomial shares;
    their distributions are added up instead of being drawn from, so the interval is
    that of infinitely many rounds.  This is a poor approximation: perfect classes
    have the interval [1, 1].  While a class has no labels it is [0, 1].

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.

    B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), ch. 10.
    """
    return _by_row(_bootstrap_limits, k, n, confidence_level)


def balanced_posterior(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the credible interval for the mean of the class accuracies.

    The last axis of *k* and *n* runs over the classes; both bounds have the shape
    that remains, in [0, 1].  They cut equal tails from the distribution of the mean
    of independent Beta(k + 1, n - k + 1), which are added up numerically.  This is a
    poor approximation: with perfect classes it is drawn so far towards 1/2 that it
    never holds an accuracy near 1.  While a class has no labels it is [0, 1].

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9
    and 0 < confidence_level < 1.

    K. H. Brodersen, C. S. Ong, K. E. Stephan and J. M. Buhmann, 20th International
    Conference on Pattern Recognition (2010), 3121-3124.
    """
    return _by_row(_posterior_limits, k, n, confidence_level)


def _tail(confidence_level: float) -> float:
    return (1.0 - checked_fraction("confidence_level", confidence_level)) / 2.0


def _settled(n: Floats, low: Floats, high: Floats) -> Interval:
    is_unknown = ~n.all(axis=-1)
    return Interval(
        np.where(is_unknown, 0.0, np.clip(low, 0.0, 1.0)),
        np.where(is_unknown, 1.0, np.clip(high, 0.0, 1.0)),
    )


def _by_row(
    limits: _RowLimits, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    correct, labelled = checked_class_counts(k, n)
    tail = _tail(confidence_level)
    low = np.zeros(correct.shape[:-1])
    high = np.ones(correct.shape[:-1])
    # Each row has a grid of its own.
    for row in np.argwhere(labelled.all(axis=-1)):
        at = tuple(row)
        low[at], high[at] = limits(correct[at], labelled[at], tail)
    return _settled(labelled, low, high)


def _posterior_limits(k: Floats, n: Floats, tail: float) -> tuple[float, float]:
    a, b = k + 1.0, n - k + 1.0
    means = a / (a + b)
    variances = means * (1.0 - means) / (a + b + 1.0)
    step = math.sqrt(variances.sum()) / _STEPS
    outside = min(_NEGLIGIBLE, tail * 1e-4)
    first = np.floor(beta_quantile(a, b, outside) / step)
    last = np.ceil((1.0 - beta_quantile(b, a, outside)) / step)
    parts = []
    for alpha, beta, start, stop in zip(a, b, first, last, strict=True):
        edges = (np.arange(start, stop + 2) - 0.5) * step
        chances = betainc(alpha, beta, np.clip(edges, 0.0, 1.0))
        parts.append((int(start), np.diff(chances)))
    start, chance = _sum_of(parts, means.sum() / step, _GRID)
    nodes = (start + np.arange(_GRID)) * step
    centre = float(chance @ nodes)
    spread = math.sqrt(chance @ (nodes - centre) ** 2)
    # Between nodes the deviate is nearly linear, as the chance itself is not.
    below = np.clip(np.maximum.accumulate(np.cumsum(chance)), 0.0, 1.0)
    deviates = ndtri([tail, 1.0 - tail])
    ends = np.interp(deviates, ndtri(below), nodes + step / 2.0)
    scale = math.sqrt(variances.sum()) / spread
    low, high = (means.sum() + (ends - centre) * scale) / k.size
    return float(low), float(high)


def _bootstrap_limits(k: Floats, n: Floats, tail: float) -> tuple[float, float]:
    shares = k / n
    total = float(shares.sum())
    spread = math.sqrt((shares * (1.0 - shares) / n).sum())
    if not spread:
        return total / k.size, total / k.size
    common = math.lcm(*(int(of) for of in n))
    # Of many classes it is a whole number beyond all doubles, yet it compares.
    per_unit = float(min(common, _BOOTSTRAP_STEPS / spread))
    size = 64
    while size < 40.0 * spread * per_unit:
        size *= 2
    parts = []
    for of, share in zip(n, shares, strict=True):
        first = binom.ppf(_NEGLIGIBLE, of, share)
        last = binom.ppf(1.0 - _NEGLIGIBLE, of, share)
        outcomes = np.arange(first, last + 1.0)
        at = np.rint(outcomes * (per_unit / of)).astype(np.int64)
        masses = np.bincount(at - at[0], binom.pmf(outcomes, of, share))
        parts.append((int(at[0]), masses.astype(np.float64)))
    start, chance = _sum_of(parts, total * per_unit, size)
    below = np.cumsum(chance)
    places = np.searchsorted(below, [tail, 1.0 - tail]) + start
    low, high = places / per_unit / k.size
    return float(low), float(high)


def _sum_of(parts: Sequence[_Part], centre: float, size: int) -> tuple[int, Floats]:
    # The grid holds tens of standard deviations; what lies beyond them is wrapped
    # around it and is next to nothing.
    spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
    first = 0
    for start, masses in parts:
        wrapped = np.zeros(size)
        np.add.at(wrapped, np.arange(masses.size) % size, masses)
        spectrum *= np.fft.rfft(wrapped)
        first += start
    chance = np.fft.irfft(spectrum, size)
    start = round(centre) - size // 2
    return start, np.roll(chance, first - start)
