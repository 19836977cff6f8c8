"""Intervals for one class that are in wide use and guarantee nothing."""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtri

from tracker.stats.arguments import Floats, checked_counts, checked_fraction
from tracker.stats.exact import Interval
from tracker.stats.laws import beta_quantile, binom


def wilson(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Wilson's score interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].  This is
    an approximation: with 50 labels there are accuracies that it holds only 84 %
    of the time at a level of 95 %.  Without labels it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    E. B. Wilson, Journal of the American Statistical Association 22 (1927), 209-212.
    """
    correct, labelled = checked_counts(k, n)
    z = _deviate(confidence_level)
    low = _wilson_low(correct, labelled, z)
    high = 1.0 - _wilson_low(labelled - correct, labelled, z)
    return _settled(labelled, low, high)


def wilson_cc(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Wilson's score interval with the continuity correction.

    *k* correct among *n* labelled broadcast; both bounds have the broadcast shape,
    in [0, 1].  This is an approximation, if a cautious one.  Without labels it is
    [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 4.
    """
    correct, labelled = checked_counts(k, n)
    z = _deviate(confidence_level)
    low = _wilson_cc_low(correct, labelled, z)
    high = 1.0 - _wilson_cc_low(labelled - correct, labelled, z)
    return _settled(labelled, low, high)


def agresti_coull(
    k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the interval of Agresti and Coull for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, and are clipped to
    [0, 1].  It is the normal approximation after z**2 more labels, half of them
    correct, where z is the deviate of the level: four more at 95 %.  Without labels
    it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    A. Agresti and B. A. Coull, The American Statistician 52 (1998), 119-126.
    """
    correct, labelled = checked_counts(k, n)
    z = _deviate(confidence_level)
    enlarged = labelled + z * z
    centre = (correct + z * z / 2.0) / enlarged
    half = z * np.sqrt(centre * (1.0 - centre) / enlarged)
    return _settled(labelled, centre - half, centre + half)


def normal(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the normal approximation for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, and are clipped to
    [0, 1].  This is a poor approximation: with 50 labels and a true accuracy of
    0.99 it holds the truth 39 % of the time at a level of 95 %.  Without labels
    it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.
    """
    correct, labelled = checked_counts(k, n)
    share = correct / np.maximum(labelled, 1.0)
    spread = np.sqrt(share * (1.0 - share) / np.maximum(labelled, 1.0))
    half = _deviate(confidence_level) * spread
    return _settled(labelled, share - half, share + half)


def jeffreys(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return Jeffreys' equal-tailed interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].  They are
    quantiles of Beta(k + 1/2, n - k + 1/2), but for a low of 0 where nothing and a
    high of 1 where everything is correct.  This is an approximation.  Without
    labels it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    L. D. Brown, T. T. Cai and A. DasGupta, Statistical Science 16 (2001), 101-133.
    """
    correct, labelled = checked_counts(k, n)
    low, high = _beta_limits(correct, labelled, 0.5, confidence_level)
    low = np.where(correct == 0, 0.0, low)
    high = np.where(correct == labelled, 1.0, high)
    return _settled(labelled, low, high)


def posterior(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the credible interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].  They cut
    equal tails from Beta(k + 1, n - k + 1), which is what to believe after the labels
    if before them every accuracy was as likely as any other.  The interval covers
    what it says on average over such accuracies, not for each.  Without labels it
    is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    K. H. Brodersen, C. S. Ong, K. E. Stephan and J. M. Buhmann, 20th International
    Conference on Pattern Recognition (2010), 3121-3124.
    """
    correct, labelled = checked_counts(k, n)
    return _settled(labelled, *_beta_limits(correct, labelled, 1.0, confidence_level))


def bootstrap(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the percentile bootstrap interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].  Drawing n
    of n labels again and again, with replacement, gives the binomial distribution
    with the accuracy that was seen; its quantiles are where infinitely many rounds
    would end, so none is drawn.  This is a poor approximation: a perfect score has
    the interval [1, 1].  Without labels it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), ch. 10.
    """
    correct, labelled = checked_counts(k, n)
    tail = _tail(confidence_level)
    most = np.maximum(labelled, 1.0)
    low, high = (
        binom.ppf(chance, labelled, correct / most) / most
        for chance in (tail, 1.0 - tail)
    )
    return _settled(labelled, low, high)


def mid_p(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the mid-P interval for *k* correct among *n* labelled.

    *k* and *n* broadcast; both bounds have the broadcast shape, in [0, 1].  It is the
    exact interval with only half of the chance of what was seen counted into
    each tail, and an approximation for it.  Without labels it is [0, 1].

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.

    R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 6.
    """
    correct, labelled = checked_counts(k, n)
    tail = _tail(confidence_level)
    low = _mid_p_low(correct, labelled, tail)
    high = 1.0 - _mid_p_low(labelled - correct, labelled, tail)
    return _settled(labelled, low, high)


def _tail(confidence_level: float) -> float:
    return (1.0 - checked_fraction("confidence_level", confidence_level)) / 2.0


def _deviate(confidence_level: float) -> float:
    return -float(ndtri(_tail(confidence_level)))


def _settled(n: Floats, low: Floats, high: Floats) -> Interval:
    return Interval(
        np.where(n == 0, 0.0, np.clip(low, 0.0, 1.0)),
        np.where(n == 0, 1.0, np.clip(high, 0.0, 1.0)),
    )


def _wilson_low(k: Floats, n: Floats, z: float) -> Floats:
    # Not the textbook's difference, which loses digits where it is small, but that
    # over its conjugate.
    square = z * z
    spread = z * np.sqrt(square / 4.0 + k * (n - k) / np.maximum(n, 1.0))
    numerator = k * k * (1.0 + square / np.maximum(n, 1.0))
    low: Floats = numerator / ((k + square / 2.0 + spread) * (n + square))
    return low


def _wilson_cc_low(k: Floats, n: Floats, z: float) -> Floats:
    most, square = np.maximum(n, 1.0), z * z
    share = k / most
    inside = square - 2.0 - 1.0 / most + 4.0 * share * (n - k + 1.0)
    spread = z * np.sqrt(np.maximum(inside, 0.0))
    low = (2.0 * k + square - 1.0 - spread) / (2.0 * (n + square))
    corrected: Floats = np.where(k == 0, 0.0, low)
    return corrected


def _beta_limits(
    k: Floats, n: Floats, prior: float, confidence_level: float
) -> tuple[Floats, Floats]:
    tail = _tail(confidence_level)
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
        bracket = (
            beta_quantile(a, b + one, tail),
            beta_quantile(a + one, b, tail),
        )
        # One method of many needs it, and it takes long to import.
        from scipy.optimize.elementwise import find_root  # noqa: PLC0415

        low[inner] = find_root(excess, bracket, args=(a, b)).x
    return low
