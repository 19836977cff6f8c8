"""How far labelers can be trusted: against known answers, and against each other."""

import math

import numpy as np
import numpy.typing as npt

from ..arguments import Floats, checked_counts, checked_fraction, tail_share
from ..exact import Interval, lower_bound, upper_bound

ACCEPTABLE_RATE = 0.02
"""Error rate that nobody is blamed for, unless told otherwise."""

_CARELESS = (0.06, 0.08, 0.1, 0.15, 0.25, 0.5)

_FALSE_FLAG = 0.01
# Logarithms, sums of a few of them, and quotients of numbers of the size of 1.
_FEW_UNITS = 2.0**-48
_DOUBT = 2.0**-40


def log_evidence_careless(
    wrong: npt.ArrayLike, known: npt.ArrayLike, *, acceptable: float = ACCEPTABLE_RATE
) -> Floats:
    """Return the logarithm of the evidence that a labeler errs more than acceptably.

    *wrong* of *known* answers differ from what is known for sure, where those queries
    came at random places and unmarked; the two broadcast.  The evidence is the mean
    over careless error rates of how many times likelier than at the acceptable one
    they make what was seen.  It falls with the true rate, so for every labeler whose
    rate is acceptable it ever reaches 1/error with a probability of at most error
    (Ville), floating point included.

    Raises ValueError unless 0 <= wrong <= known <= 10**9 and 0 < acceptable < 0.4.
    """
    errors, answers = checked_counts(wrong, known)
    if not 0 < checked_fraction("acceptable", acceptable) < 0.4:
        raise ValueError(f"acceptable must be below 0.4, not {acceptable!r}")
    rates = np.array([rate for rate in _CARELESS if rate > 1.2 * acceptable])
    right = (answers - errors)[..., None]
    terms = (
        errors[..., None] * np.log(rates / acceptable),
        right * np.log((1.0 - rates) / (1.0 - acceptable)),
    )
    doubt = (np.abs(terms[0]) + np.abs(terms[1]) + answers[..., None]) * _FEW_UNITS
    logs = terms[0] + terms[1] - doubt
    top = logs.max(axis=-1)
    mean = np.exp(logs - top[..., None]).mean(axis=-1)
    return np.asarray(top + np.log(mean) - _FEW_UNITS)


def is_careless(
    wrong: npt.ArrayLike,
    known: npt.ArrayLike,
    *,
    acceptable: float = ACCEPTABLE_RATE,
) -> npt.NDArray[np.bool_]:
    """Return whether a labeler is to be flagged.

    Asked after every known answer, and with a flag that stays, somebody whose error
    rate is acceptable is ever flagged with a probability of at most 1 %.
    The rest is as for `log_evidence_careless`.
    """
    evidence = log_evidence_careless(wrong, known, acceptable=acceptable)
    return np.asarray(evidence >= -math.log(_FALSE_FLAG))


def cohen_kappa(table: npt.ArrayLike) -> float | None:
    """Return Cohen's kappa of two labelers, None where chance alone would agree.

    *table* counts the queries by what the one and what the other said.

    Raises ValueError unless it is square and holds counts.

    J. Cohen, Educational and Psychological Measurement 20 (1960), 37-46.
    """
    counts = _checked_table(table)
    total = counts.sum()
    if not total:
        return None
    rows, columns = counts.sum(axis=1) / total, counts.sum(axis=0) / total
    return _kappa(float(np.trace(counts) / total), float(rows @ columns))


def cohen_kappa_interval(table: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return an interval of Cohen's kappa whose coverage is guaranteed.

    Queries are drawn at random.  The agreement and how often each of the two says
    each class are binomial, and have exact intervals that hold together by the union
    bound; kappa grows with the agreement and falls with what chance would give.  It
    is wider than the bootstrap, which covers too little where people rarely differ.

    Raises ValueError as `cohen_kappa` and `clopper_pearson` do.
    """
    counts = _checked_table(table)
    total = int(counts.sum())
    marginals = np.stack([counts.sum(axis=1), counts.sum(axis=0)]).astype(np.int64)
    # Of two classes the one leaves what the other does not have.
    statements = 3 if len(counts) == 2 else 2 * len(counts) + 1
    share = tail_share(confidence_level, 2 * statements)
    agreed = int(np.trace(counts))
    least, most = _chance_bounds(
        lower_bound(marginals, total, share), upper_bound(marginals, total, share)
    )
    agreement = float(lower_bound(agreed, total, share)) - _DOUBT
    low = _kappa(agreement, min(most + _DOUBT, 1.0))
    agreement = min(float(upper_bound(agreed, total, share)) + _DOUBT, 1.0)
    high = _kappa(agreement, max(least - _DOUBT, 0.0))
    return Interval(
        np.asarray(-1.0 if low is None else max(low, -1.0)),
        np.asarray(1.0 if high is None else min(high, 1.0)),
    )


def _kappa(agreement: float, by_chance: float) -> float | None:
    return None if by_chance >= 1.0 else (agreement - by_chance) / (1.0 - by_chance)


def _chance_bounds(low: Floats, high: Floats) -> tuple[float, float]:
    """Return bounds of what chance agrees on, from those of both labelers' shares."""
    if low.shape[1] == 2:
        corners = [
            a * b + (1.0 - a) * (1.0 - b)
            for a in (low[0, 0], high[0, 0])
            for b in (low[1, 0], high[1, 0])
        ]
        return float(min(corners)), float(max(corners))
    sides = ((0, 1), (1, 0))
    return (
        max(_extreme(low[one], low[two], high[two], -1) for one, two in sides),
        min(_extreme(high[one], low[two], high[two], 1) for one, two in sides),
    )


def _extreme(weights: Floats, low: Floats, high: Floats, sign: int) -> float:
    """Return the largest weighted mean of shares within bounds, with -1 the smallest.

    The shares add up to 1, so what the lower bounds leave goes to the best weights.
    """
    order = np.argsort(-sign * weights, kind="stable")
    shares, left = low.copy(), 1.0 - low.sum()
    for index in order:
        more = min(max(left, 0.0), high[index] - low[index])
        shares[index] += more
        left -= more
    return float(weights @ shares)


def _checked_table(table: npt.ArrayLike) -> Floats:
    counts = np.asarray(table)
    if counts.ndim != 2 or not 2 <= len(counts) == counts.shape[1]:
        raise ValueError(
            f"the table must have a row and column for each class, not {counts.shape}"
        )
    return checked_counts(counts, counts)[0]
