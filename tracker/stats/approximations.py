"""Approximate intervals of one accuracy and of the balanced accuracy.

Those of one class take *k* correct among *n* labelled, which broadcast; both bounds
have the broadcast shape, in [0, 1], and without labels they are 0 and 1.  They raise
ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

Those of the balanced accuracy take counts whose last axis runs over 2 to 4096 classes;
the bounds have the shape that remains, and are 0 and 1 while a class has no labels.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtri

from .arguments import Floats, checked_class_counts, checked_counts, half_error
from .exact import Interval
from .laws import beta_quantile, binom

_Limit = Callable[[Floats, Floats, float], Floats]
_RowLimits = Callable[[Floats, Floats, float], tuple[float, float]]


def wilson(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Wilson's score interval for *k* correct among *n* labelled.

    With 50 labels there are accuracies that it holds only 84 % of the time at a level
    of 95 %.

    E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    return _mirrored(_wilson_low, k, n, confidence_level)


def wilson_cc(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Wilson's score interval with the continuity correction, which is cautious.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 4.
    """
    return _mirrored(_wilson_cc_low, k, n, confidence_level)


def agresti_coull(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the interval of Agresti and Coull, clipped to [0, 1].

    It is the normal approximation after z**2 more labels, half of them correct, where
    z is the deviate of the level: four more at 95 %.

    A. Agresti and B. A. Coull, The American Statistician 52 (1998), 119-126.
    """
    correct, labelled = checked_counts(k, n)
    z = _deviate(half_error(confidence_level))
    enlarged = labelled + z * z
    centre = (correct + z * z / 2.0) / enlarged
    half = z * np.sqrt(centre * (1.0 - centre) / enlarged)
    return _settled(labelled == 0, centre - half, centre + half)


def normal(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the normal approximation, clipped to [0, 1].

    It is poor: with 50 labels and a true accuracy of 0.99 it holds the truth 39 % of
    the time at a level of 95 %.
    """
    correct, labelled = checked_counts(k, n)
    share = correct / np.maximum(labelled, 1.0)
    spread = np.sqrt(share * (1.0 - share) / np.maximum(labelled, 1.0))
    half = _deviate(half_error(confidence_level)) * spread
    return _settled(labelled == 0, share - half, share + half)


def jeffreys(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Jeffreys' equal-tailed interval.

    The bounds are quantiles of Beta(k + 1/2, n - k + 1/2), but for a low of 0 where
    nothing and a high of 1 where everything is correct.

    L. D. Brown, T. T. Cai and A. DasGupta, Statistical Science 16 (2001), 101-133.
    """
    correct, labelled = checked_counts(k, n)
    low, high = _beta_limits(correct, labelled, 0.5, confidence_level)
    low = np.where(correct == 0, 0.0, low)
    high = np.where(correct == labelled, 1.0, high)
    return _settled(labelled == 0, low, high)


def posterior(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the credible interval by a uniform prior.

    The bounds cut equal tails from Beta(k + 1, n - k + 1).  The interval covers what it
    says on average over accuracies that are all equally likely, not for each.

    K. H. Brodersen, C. S. Ong, K. E. Stephan and J. M. Buhmann, 20th International
    Conference on Pattern Recognition (2010), 3121-3124.
    """
    correct, labelled = checked_counts(k, n)
    limits = _beta_limits(correct, labelled, 1.0, confidence_level)
    return _settled(labelled == 0, *limits)


def bootstrap(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the percentile bootstrap interval, of infinitely many rounds.

    Drawing n of n labels with replacement gives the binomial distribution with the
    accuracy that was seen, whose quantiles need no draws.  It is poor: a perfect score
    has the interval [1, 1].

    B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), ch. 10.
    """
    correct, labelled = checked_counts(k, n)
    tail = half_error(confidence_level)
    most = np.maximum(labelled, 1.0)
    low, high = (
        binom.ppf(chance, labelled, correct / most) / most
        for chance in (tail, 1.0 - tail)
    )
    return _settled(labelled == 0, low, high)


def mid_p(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the mid-P interval: the exact one with half the chance of what was seen.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 6.
    """
    return _mirrored(_mid_p_low, k, n, confidence_level)


def _mirrored(
    lower: _Limit, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    correct, labelled = checked_counts(k, n)
    tail = half_error(confidence_level)
    missed = lower(labelled - correct, labelled, tail)
    return _settled(labelled == 0, lower(correct, labelled, tail), 1.0 - missed)


def _deviate(tail: float) -> float:
    return -float(ndtri(tail))


def _settled(is_unknown: npt.ArrayLike, low: Floats, high: Floats) -> Interval:
    return Interval(
        np.where(is_unknown, 0.0, np.clip(low, 0.0, 1.0)),
        np.where(is_unknown, 1.0, np.clip(high, 0.0, 1.0)),
    )


def _wilson_low(k: Floats, n: Floats, tail: float) -> Floats:
    # Not the textbook's difference, which loses digits where it is small, but that
    # over its conjugate.
    z = _deviate(tail)
    square = z * z
    spread = z * np.sqrt(square / 4.0 + k * (n - k) / np.maximum(n, 1.0))
    numerator = k * k * (1.0 + square / np.maximum(n, 1.0))
    return np.asarray(numerator / ((k + square / 2.0 + spread) * (n + square)))


def _wilson_cc_low(k: Floats, n: Floats, tail: float) -> Floats:
    z = _deviate(tail)
    most, square = np.maximum(n, 1.0), z * z
    share = k / most
    inside = square - 2.0 - 1.0 / most + 4.0 * share * (n - k + 1.0)
    spread = z * np.sqrt(np.maximum(inside, 0.0))
    low = (2.0 * k + square - 1.0 - spread) / (2.0 * (n + square))
    return np.where(k == 0, 0.0, low)


def _beta_limits(
    k: Floats, n: Floats, prior: float, confidence_level: float
) -> tuple[Floats, Floats]:
    tail = half_error(confidence_level)
    a, b = k + prior, n - k + prior
    return beta_quantile(a, b, tail), 1.0 - beta_quantile(b, a, tail)


def _mid_p_low(k: Floats, n: Floats, tail: float) -> Floats:
    low = np.zeros(k.shape)
    # With everything correct half of p**n is the tail.
    perfect = (k == n) & (n > 0)
    exponent = min(math.log(2.0 * tail), 0.0)
    low[perfect] = np.exp(exponent / n[perfect])
    inner = (k > 0) & (k < n)
    a, b = k[inner], n[inner] - k[inner]
    one = np.ones_like(a)

    def excess(p: Floats, a: Floats, b: Floats) -> Floats:
        both = betainc(a, b + 1.0, p) + betainc(a + 1.0, b, p)
        return np.asarray(both / 2.0 - tail, dtype=np.float64)

    if a.size:
        bracket = (beta_quantile(a, b + one, tail), beta_quantile(a + one, b, tail))
        # One method of many needs it, and it takes long to import.
        from scipy.optimize.elementwise import find_root  # noqa: PLC0415

        low[inner] = find_root(excess, bracket, args=(a, b)).x
    return low


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


def combined(
    interval: Callable[[npt.ArrayLike, npt.ArrayLike, float], Interval],
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence_level: float,
) -> Interval:
    """Return class intervals combined to one for the balanced accuracy.

    The distances from the accuracies to their limits are combined as standard
    deviations are.  By Wilson's limits, with ten labels of each of two classes, there
    are accuracies that it holds 84 % of the time at a level of 95 %.

    G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008), 1693-1702; for Wilson's
    limits R. G. Newcombe, Statistics in Medicine 17 (1998), 873-890, method 10.
    """
    correct, labelled = checked_class_counts(k, n)
    low, high = interval(k, n, confidence_level)
    shares = correct / np.maximum(labelled, 1.0)
    # At a low level an interval may lie to one side of its estimate.
    below, above = np.maximum(shares - low, 0.0), np.maximum(high - shares, 0.0)
    classes = correct.shape[-1]
    centre = shares.mean(axis=-1)
    return _settled(
        ~labelled.all(axis=-1),
        centre - np.sqrt((below**2).sum(axis=-1)) / classes,
        centre + np.sqrt((above**2).sum(axis=-1)) / classes,
    )


def balanced_normal(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the normal approximation for the mean of the class accuracies.

    The bounds are clipped to [0, 1].  It is poor: perfect classes have the interval
    [1, 1].
    """
    correct, labelled = checked_class_counts(k, n)
    most = np.maximum(labelled, 1.0)
    shares = correct / most
    spread = np.sqrt((shares * (1.0 - shares) / most).sum(axis=-1))
    half = _deviate(half_error(confidence_level)) * spread / correct.shape[-1]
    centre = shares.mean(axis=-1)
    return _settled(~labelled.all(axis=-1), centre - half, centre + half)


def balanced_bootstrap(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the percentile interval of a bootstrap within each class.

    The balanced accuracy of labels drawn again is a mean of independent binomial
    shares, whose distributions are added up: the interval is that of infinitely many
    rounds.  It is poor: perfect classes have the interval [1, 1].

    B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), ch. 10.
    """
    return _by_row(_bootstrap_limits, k, n, confidence_level)


def balanced_posterior(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the credible interval for the mean of the class accuracies.

    The bounds cut equal tails from the distribution of the mean of independent
    Beta(k + 1, n - k + 1), which are added up numerically.  It is poor: with perfect
    classes it is drawn so far towards 1/2 that it never holds an accuracy near 1.

    K. H. Brodersen, C. S. Ong, K. E. Stephan and J. M. Buhmann, 20th International
    Conference on Pattern Recognition (2010), 3121-3124.
    """
    return _by_row(_posterior_limits, k, n, confidence_level)


def _by_row(
    limits: _RowLimits, k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    correct, labelled = checked_class_counts(k, n)
    tail = half_error(confidence_level)
    low = np.zeros(correct.shape[:-1])
    high = np.ones(correct.shape[:-1])
    # Each row has a grid of its own.
    for row in np.argwhere(labelled.all(axis=-1)):
        at = tuple(row)
        low[at], high[at] = limits(correct[at], labelled[at], tail)
    return _settled(~labelled.all(axis=-1), low, high)


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


def _sum_of(
    parts: Sequence[tuple[int, Floats]], centre: float, size: int
) -> tuple[int, Floats]:
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
