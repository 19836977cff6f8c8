"""How many Chebyshev nodes a polynomial of chances needs, by its size off the line."""

import math
from functools import cache
from typing import NamedTuple

import numpy as np

from tracker.stats.arguments import Floats

_NODE_COUNTS = np.arange(6, 63, 2)

# Half of an ellipse of each size, and the polygon of 32 corners around it.  The
# other half is its mirror image.
_CORNERS = 32
_GROWTHS = np.geomspace(1.15, 60.0, 15)[:, np.newaxis]
_TURNS = np.arange(_CORNERS // 2 + 1) * (2.0 * np.pi / _CORNERS)
_ACROSS = (_GROWTHS + 1.0 / _GROWTHS) / 2.0 * np.cos(_TURNS) / np.cos(np.pi / _CORNERS)
_ALONG = (_GROWTHS - 1.0 / _GROWTHS) / 2.0 * np.sin(_TURNS) / np.cos(np.pi / _CORNERS)
_ALONG_SQUARED = _ALONG**2
_LOG_REMAINDERS = np.log(4.0 / (_GROWTHS[:, 0] - 1.0)) - (
    _NODE_COUNTS[:, np.newaxis] - 1.0
) * np.log(_GROWTHS[:, 0])
# Far more than the rounding of those logarithms.
_LOG_SLACK = 1e-6

Path = tuple[tuple[int, float, float], ...]
"""Of each class its labels, and its accuracy in the middle and how far it goes."""


class Nodes(NamedTuple):
    """A number of nodes, and what the interpolant in them may miss."""

    number: int
    remainder: float


def nodes_needed(paths: tuple[Path, ...], tolerance: float) -> Nodes | None:
    """Return how many nodes keep the remainder under *tolerance*, None if none do.

    Along each path all accuracies change in proportion, so the chance of a set of
    outcomes is a polynomial.  Its interpolant in Chebyshev nodes is off by no more
    than its size on an ellipse around the path says (L. N. Trefethen, Approximation
    Theory and Approximation Practice, theorem 8.2, whose proof holds for nodes of
    the first kind as well).  Where accuracies p are complex, the chance is at most
    the product of (|p| + |1 - p|)**n.  The exponent of that is at most the sum of
    the convex n (|p| + |1 - p| - 1), so the corners of a polygon around the
    ellipse bound it.
    """
    labels = np.array([n for n, _, _ in paths[0]], dtype=float)
    middles, halves = (
        np.array([[one[part] for one in path] for path in paths])[..., None, None]
        for part in (1, 2)
    )
    # Axes: paths, classes, ellipses, corners.
    focal = _focal_sum(middles + halves * _ACROSS, halves * halves * _ALONG_SQUARED)
    exponents = np.einsum("c,pcgt->pgt", labels, focal - 1.0).max(axis=(0, -1))
    logs = np.einsum("c,cg->g", labels, np.log(focal.max(axis=(0, -1))))
    log_most = np.minimum(exponents, logs)
    # What stands still on all of these paths does so between them.
    degree = labels[(halves != 0.0).any(axis=0)[:, 0, 0]].sum()
    sizes = log_most * (1.0 + _LOG_SLACK) + _LOG_REMAINDERS
    remainders = np.exp(np.minimum(sizes.min(axis=-1) + _LOG_SLACK, 0.0))
    # A polynomial of a degree below the number of nodes is its own interpolant.
    remainders[degree < _NODE_COUNTS] = 0.0
    enough = np.flatnonzero(remainders <= tolerance)
    if not enough.size:
        return None
    return Nodes(int(_NODE_COUNTS[enough[0]]), float(remainders[enough[0]]))


def _focal_sum(real: Floats, imaginary_squared: Floats) -> Floats:
    """Return |p| + |1 - p| of complex p."""
    rest = 1.0 - real
    near = np.sqrt(real * real + imaginary_squared)
    total: Floats = near + np.sqrt(rest * rest + imaginary_squared)
    return total


@cache
def nodes_of(number: int) -> Floats:
    """Return the nodes, from 1 down to -1."""
    nodes: Floats = np.cos((np.arange(number) + 0.5) * np.pi / number)
    return nodes


@cache
def to_coefficients(count: int) -> Floats:
    """Return the matrix from values at the nodes to Chebyshev coefficients."""
    orders = np.arange(count)
    angles = (orders + 0.5) * np.pi / count
    matrix: Floats = 2.0 / count * np.cos(orders[:, np.newaxis] * angles)
    matrix[0] /= 2.0
    return matrix


def amplification(count: int) -> float:
    """Return how much errors at the nodes may grow between them at most."""
    return 2.0 / math.pi * math.log(count) + 1.0
