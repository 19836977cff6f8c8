"""Intervals and evidence that hold after every label, by mixtures fixed before any."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import (
    Floats,
    checked_class_counts,
    checked_counts,
    tail_share,
    total_of,
)
from ..exact import Interval
from .programme import Bets, least_evidence, least_mean

# The best tilt shrinks with the root of the number of labels, and is largest early.
_TILTS = np.geomspace(8.0, 0.004, 15)
_TILT_SPREAD = 0.9

# Parts of a tilt that a class may have by itself, each with its weight: a class that
# has fewer labels than its share lets the others have more of the evidence.
_NEAR = {0.5: 0.25, 1.0: 0.5, 2.0: 0.25}
_WIDE = {1 / 9: 0.15, 1 / 3: 0.2, 1.0: 0.3, 3.0: 0.2, 9.0: 0.15}

# Parts of the stake on powers of the shares, and the parts of the tilt beside them.
# Predictions are shared more evenly than classes, since rare predictions hold the
# mistakes made on common classes, so powers above 1 are often right.  The last source
# needs no shares.
_SOURCES = ((0.4, 1.0, _NEAR), (0.25, 1.4, _NEAR), (0.15, 2.5, _NEAR))
_EQUAL = (0.2, 0.0, _WIDE)

# The largest share of a class over the smallest.
_MOST_UNEVEN = 1e9


def build_mixture(
    shares: Floats | None, classes: int, *, usual_tilt: float, largest_tilt: float
) -> tuple[Floats, Floats, Floats]:
    """Return the bets on the mean of *classes*, by their *shares*, (rows or 1, K).

    Without shares only the source that needs none has its part of the stake, and the
    rest is not bet.

    Of M terms, in each of which every class has up to G nodes, it returns the tilts,
    (G, M, 1, classes or 1, rows or 1), and the logarithms of the weights of nodes,
    (G, M, 1, 1, 1), and of terms, (M, 1, 1).
    """
    if classes == 1:
        return _one_class_mixture(usual_tilt, largest_tilt)
    sources = (_EQUAL,) if shares is None else (*_SOURCES, _EQUAL)
    known = np.ones((1, classes)) if shares is None else shares
    most = max(len(nodes) for _, _, nodes in sources)
    tilts, log_nodes, log_weights = [], [], []
    for part, power, nodes in sources:
        padding = [0.0] * (most - len(nodes))
        sizes, parts = (
            np.array([*some, *padding])[:, None, None, None, None]
            for some in (nodes, nodes.values())
        )
        with np.errstate(divide="ignore"):
            log_node = np.log(parts)
        directions = _directions(known**power)
        if shares is None:
            directions = directions[:, :1]
        tilts.append(_TILTS[:, None, None, None] * directions.T * sizes)
        log_nodes.append(np.broadcast_to(log_node, (most, _TILTS.size, 1, 1, 1)))
        log_weights.append(np.log(part * _tilt_weights(usual_tilt)))
    return (
        np.minimum(np.concatenate(tilts, axis=1), largest_tilt),
        np.concatenate(log_nodes, axis=1),
        np.concatenate(log_weights)[:, None, None],
    )


def _one_class_mixture(
    usual_tilt: float, largest_tilt: float
) -> tuple[Floats, Floats, Floats]:
    """Return the bets on one class, whose share is known: all sources agree."""
    stakes: dict[float, float] = {}
    for part, _, nodes in (*_SOURCES, _EQUAL):
        for tilt, weight in zip(_TILTS, _tilt_weights(usual_tilt), strict=True):
            for size, node in nodes.items():
                at = min(float(tilt) * size, largest_tilt)
                stakes[at] = stakes.get(at, 0.0) + part * node * float(weight)
    tilts = np.array(sorted(stakes))
    return (
        tilts[None, :, None, None, None],
        np.zeros((1, tilts.size, 1, 1, 1)),
        np.log([stakes[tilt] for tilt in tilts.tolist()])[:, None, None],
    )


def _tilt_weights(usual_tilt: float) -> Floats:
    worths = 1.0 / (1.0 + np.abs(np.log(_TILTS / usual_tilt) / _TILT_SPREAD) ** 3)
    return np.asarray(worths / worths.sum())


def _directions(shares: Floats) -> Floats:
    # A tilt then means the same for any number of classes.
    known = shares / total_of(shares)[:, None]
    directions = 1.0 / shares.shape[1] / known
    return np.asarray(directions / np.sqrt(total_of(known * directions**2))[:, None])


def checked_shares(shares: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return *shares* in the *shape* of the counts.

    Raises ValueError unless they are positive, finite and within 10**9 of each other,
    and broadcast.
    """
    expected = np.asarray(shares, dtype=np.float64)
    if not ((expected > 0) & np.isfinite(expected)).all():
        raise ValueError(f"shares must be positive and finite, not {shares!r:.80}")
    try:
        expected = np.broadcast_to(expected, shape)
    except ValueError:
        raise ValueError(
            f"shares must broadcast to the counts' shape {shape}, not {expected.shape}"
        ) from None
    smallest = expected.min(axis=-1, keepdims=True)
    if (expected > _MOST_UNEVEN * smallest).any():
        raise ValueError("shares must lie within a factor of 10**9")
    return expected


FORMULA = 3
"""The formula that these intervals are computed by."""

USUAL_TILT, LARGEST_TILT = 0.3, 15.0
_MOST_AT_ONCE = 2**19

# How much of the accuracy that was seen a search begins with at least.
_LEAST_START = 0.02


def anytime(k: npt.ArrayLike, n: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return an interval for an accuracy, to be looked at after every label.

    *k* correct among *n* labelled broadcast; both bounds have the broadcast shape, in
    [0, 1].  It promises for one class what `balanced_anytime` does for several.

    Raises ValueError unless 0 <= k <= n <= 10**9 and 0 < confidence_level < 1.
    """
    correct, labelled = checked_counts(k, n)
    # Many rows of few labels have the same counts; as complex numbers they are sorted
    # in pairs.
    pairs = correct + 1j * labelled
    each, at = np.unique(pairs, return_inverse=True)
    rows = _Rows.of(each.real[:, None], each.imag[:, None])
    low, high = rows.interval(confidence_level, each.shape)
    return Interval(low[at].reshape(pairs.shape), high[at].reshape(pairs.shape))


def balanced_anytime(
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
) -> Interval:
    """Return an interval for the balanced accuracy, to be looked at after every label.

    The last axis of *k* and *n* runs over the K classes; both bounds have the shape
    that remains, in [0, 1].  The intervals after 1, 2, 3... labels hold the true
    balanced accuracy *all at once* with a probability of at least *confidence_level*,
    floating point included, whatever rule decides by the results so far which class is
    labelled next and when to stop.  Each bound alone is ever wrong with at most half of
    the error.  Where the accuracy of a class changes from label to label, this holds
    for the mean over classes of the average that it had at their labels so far.

    *shares* are how much of the labels each class is expected to get, positive and in
    any unit; they broadcast with the counts, and must have been fixed before the first
    label that is counted.  Wrong ones make the interval wider, never false; without
    them a fifth of the stake is bet, on equal ones.

    The bounds depend neither on the order of the classes nor on how many rows are
    computed at once, to the last bit.

    Raises ValueError unless there are 2 to 4096 classes, 0 <= k <= n <= 10**9,
    shares are positive and finite, and 0 < confidence_level < 1.

    J. Ville, Etude critique de la notion de collectif (1939); the martingales are
    those of H. Chernoff, Annals of Mathematical Statistics 23 (1952), 493-507.
    """
    correct, labelled = checked_class_counts(k, n)
    rows = _Rows.of(correct, labelled, shares)
    return rows.interval(confidence_level, correct.shape[:-1])


def log_evidence_above(
    k: npt.ArrayLike,
    n: npt.ArrayLike,
    accuracy: npt.ArrayLike,
    *,
    shares: npt.ArrayLike | None = None,
) -> Floats:
    """Return the logarithm of the evidence for more than this balanced *accuracy*.

    The last axis of *k* and *n* runs over the classes, of which there may be one;
    *accuracy* broadcasts with the axes that remain.  While the true balanced
    accuracy is no higher, the evidence after 1, 2, 3... labels ever reaches 1/error
    with a probability of at most error, under any rule for what to label next.
    *shares* are those of `balanced_anytime`.  The logarithm is rounded down.

    Raises ValueError as `balanced_anytime` does, and unless 0 <= accuracy <= 1.
    """
    correct, labelled = checked_counts(k, n)
    if not correct.ndim or not correct.shape[-1]:
        raise ValueError("k and n must have a last axis for the classes")
    claimed = np.asarray(accuracy, dtype=np.float64)
    if not ((claimed >= 0) & (claimed <= 1)).all():
        raise ValueError(f"accuracy must lie between 0 and 1, not {accuracy!r:.80}")
    shape = np.broadcast_shapes(correct.shape, (*claimed.shape, 1))
    correct, labelled = (np.broadcast_to(one, shape) for one in (correct, labelled))
    mean = np.broadcast_to(claimed, shape[:-1]).ravel()
    return _Rows.of(correct, labelled, shares).evidence(mean).reshape(shape[:-1])


class _Rows(NamedTuple):
    """Counts by row, (R, K), with the classes in an order that counts alone decide."""

    k: Floats
    n: Floats
    shares: Floats | None

    @classmethod
    def of(
        cls,
        correct: Floats,
        labelled: Floats,
        shares: npt.ArrayLike | None = None,
    ) -> "_Rows":
        shape = correct.shape
        known = checked_shares(1.0 if shares is None else shares, shape)
        order = np.lexsort((known, correct, labelled), axis=-1)
        correct, labelled, known = (
            np.take_along_axis(array, order, axis=-1).reshape(-1, shape[-1])
            for array in (correct, labelled, known)
        )
        return cls(correct, labelled, None if shares is None else known)

    def interval(self, confidence_level: float, shape: tuple[int, ...]) -> Interval:
        needed = -math.log(tail_share(confidence_level, 2)) * (1.0 + 2.0**-50)
        low, high = np.zeros(len(self.k)), np.ones(len(self.k))
        for rows, part in self._blocks(sides=2):
            # Behind them those with right and wrong exchanged, whose classes are in
            # another order.
            other = _Rows.of(part.n - part.k, part.n, part.shares)
            both = _Rows._make(
                None if one is None else np.concatenate([one, two])
                for one, two in zip(part, other, strict=True)
            )
            low[rows], missed = np.split(both._lower(needed), 2)
            high[rows] = np.minimum(np.nextafter(1.0 - missed, 2.0), 1.0)
        return Interval(low.reshape(shape), high.reshape(shape))

    def evidence(self, mean: Floats) -> Floats:
        found = np.empty(len(mean))
        for rows, part in self._blocks():
            claimed = mean[rows]
            found[rows] = least_evidence(part._bets(), claimed, part._near(claimed))
        return found

    def _blocks(self, sides: int = 1) -> "Iterator[tuple[slice, _Rows]]":
        rows, classes = self.k.shape
        terms = 60 if self.shares is not None else 15
        each = sides * terms * classes * max(5, min(classes, 64))
        block = max(1, _MOST_AT_ONCE // each)
        for at in range(0, rows, block):
            some = slice(at, at + block)
            part = _Rows._make(None if one is None else one[some] for one in self)
            yield some, part

    def _bets(self) -> Bets:
        tilts, log_nodes, log_weights = build_mixture(
            self.shares,
            self.n.shape[1],
            usual_tilt=USUAL_TILT,
            largest_tilt=LARGEST_TILT,
        )
        return Bets(
            scores=log_nodes + tilts * np.ascontiguousarray(self.k.T),
            growth=np.expm1(tilts),
            labelled=self.n,
            log_weights=log_weights,
            floor=0.0,
        )

    def _near(self, mean: Floats) -> Floats:
        """Return accuracies near those seen that have a *mean*, if labelled ones can.

        Only labelled classes have a share in it: the evidence is least where these
        are as accurate as the mean allows.
        """
        costs = np.where(self.n > 0, 1.0 / self.n.shape[1], 0.0)
        most = total_of(costs)
        middle = (self.k + 0.5) / (self.n + 1.0)
        seen, wanted = total_of(costs * middle), np.minimum(mean, most)
        up = (wanted - seen) / np.maximum(most - seen, 1e-300)
        down = wanted / np.maximum(seen, 1e-300)
        higher = middle + np.clip(up, 0.0, 1.0)[:, None] * (1.0 - middle)
        return np.where((wanted > seen)[:, None], higher, down[:, None] * middle)

    def _lower(self, needed: float) -> Floats:
        middle = (self.k + 0.5) / (self.n + 1.0)
        cost = 1.0 / self.n.shape[1]
        spread = cost * middle * (1.0 - middle) / (self.n + 1.0)
        size = np.sqrt(total_of(cost * spread))[:, None]
        start = middle - math.sqrt(2.0 * (needed + 1.5)) * spread / size
        # Newton's steps come down to a rare class quicker than up from next to nothing.
        start = np.clip(start, _LEAST_START * middle, 1.0 - 1e-9)
        return np.maximum(least_mean(self._bets(), needed, start), 0.0)
