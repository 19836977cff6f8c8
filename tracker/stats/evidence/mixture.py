"""What evidence is averaged over: tilts and directions, fixed before any label."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tracker.stats.arguments import Floats, total_of

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


class Mixture(NamedTuple):
    """Bets of M terms, in each of which every class has up to G nodes.

    *tilts* is (rows or 1, M, classes or 1, G), *log_nodes* (M, 1, G) and
    *log_weights* (M,).
    """

    tilts: Floats
    log_nodes: Floats
    log_weights: Floats


def build_mixture(
    shares: Floats | None, weights: Floats, *, usual_tilt: float, largest_tilt: float
) -> Mixture:
    """Return the bets on a mean with *weights*, by the *shares* of its classes.

    Both are (rows or 1, K).  Without shares only the source that needs none has its
    part of the stake, and the rest is not bet.
    """
    if weights.shape[-1] == 1:
        return _one_class_mixture(usual_tilt, largest_tilt)
    sources = (_EQUAL,) if shares is None else (*_SOURCES, _EQUAL)
    known = np.ones((1, 1)) if shares is None else shares
    most = max(len(nodes) for _, _, nodes in sources)
    tilts, log_nodes, log_weights = [], [], []
    for part, power, nodes in sources:
        padding = [0.0] * (most - len(nodes))
        with np.errstate(divide="ignore"):
            log_node = np.log([*nodes.values(), *padding])
        directions = _directions(known**power, weights)[:, None, :, None]
        tilts.append(_TILTS[:, None, None] * directions * np.array([*nodes, *padding]))
        log_nodes.append(np.broadcast_to(log_node, (_TILTS.size, 1, most)))
        log_weights.append(np.log(part * _tilt_weights(usual_tilt)))
    return Mixture(
        np.minimum(np.concatenate(tilts, axis=1), largest_tilt),
        np.concatenate(log_nodes),
        np.concatenate(log_weights),
    )


def _one_class_mixture(usual_tilt: float, largest_tilt: float) -> Mixture:
    """Return the bets on one class, whose share is known: all sources agree."""
    stakes: dict[float, float] = {}
    for part, _, nodes in (*_SOURCES, _EQUAL):
        for tilt, weight in zip(_TILTS, _tilt_weights(usual_tilt), strict=True):
            for size, node in nodes.items():
                at = min(float(tilt) * size, largest_tilt)
                stakes[at] = stakes.get(at, 0.0) + part * node * float(weight)
    tilts = np.array(sorted(stakes))
    return Mixture(
        tilts[None, :, None, None],
        np.zeros((tilts.size, 1, 1)),
        np.log([stakes[tilt] for tilt in tilts.tolist()]),
    )


def _tilt_weights(usual_tilt: float) -> Floats:
    worths = 1.0 / (1.0 + np.abs(np.log(_TILTS / usual_tilt) / _TILT_SPREAD) ** 3)
    return np.asarray(worths / worths.sum())


def _directions(shares: Floats, weights: Floats) -> Floats:
    # A tilt then means the same for any number of classes.
    shares, weights = np.broadcast_arrays(shares, weights)
    known = shares / total_of(shares)[:, None]
    directions = weights / known
    scaled: Floats = directions / np.sqrt(total_of(known * directions**2))[:, None]
    return scaled


def checked_shares(name: str, shares: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    """Return *shares* in the *shape* of the counts.

    Raises ValueError, with *name*, unless they are positive, finite and within 10**9
    of each other, and broadcast.
    """
    expected = np.asarray(shares, dtype=np.float64)
    if not ((expected > 0) & np.isfinite(expected)).all():
        raise ValueError(f"{name} must be positive and finite, not {shares!r:.80}")
    try:
        expected = np.broadcast_to(expected, shape)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to the counts' shape {shape}, not {expected.shape}"
        ) from None
    smallest = expected.min(axis=-1, keepdims=True)
    if (expected > _MOST_UNEVEN * smallest).any():
        raise ValueError(f"{name} must lie within a factor of 10**9")
    return expected
