"""Learn from the labels so far where the next ones tell most."""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from tracker.stats.active.ledger import OPEN, Ledger
from tracker.stats.active.rounds import (
    UNIT,
    Round,
    expected_counts,
    label_chances,
)
from tracker.stats.active.strata import NO_CONFIDENCE, Ints, Strata, bin_logits
from tracker.stats.arguments import Floats

_WEIGHT_UNIT = 2**16
_UNIFORM_PART = 0.5
_FIRST_ROUND, _LONGEST_ROUND = 24, 400

_SLOPE_SPREAD = 0.35
_CLASS_SPREAD = 0.7
_SHARE_LABELS = 1.5
_UNCLEAR_LABELS = 0.1


class Belief(NamedTuple):
    """What is believed of confidences before any label, give or take.

    The log odds of being wrong are *slope* times what the confidence says, and
    *without* where there is none.
    """

    slope: float
    without: float


CAUTIOUS = Belief(slope=0.8, without=0.0)
AS_SAID = Belief(slope=1.0, without=-2.2)


def round_length(draws: int) -> int:
    """Return how many draws the round that begins after *draws* has."""
    return min(_LONGEST_ROUND, max(_FIRST_ROUND, draws // 5))


def next_round(
    ledger: Ledger, known: Ints, aim: int | None, *, is_even: bool = False
) -> Round:
    """Return the next round: its weights, its model and its bets.

    *ledger* may have open draws; *known* (strata, classes + 1) counts the labels
    that are there without a draw, *aim* is a class, or None for the balanced
    accuracy.  Half of the chances are uniform, so that what confidences hide is
    found; half go by how much a label is expected to move the aim.  If *is_even* all
    are uniform, which is random labelling with the same bets.

    J. Neyman, Journal of the Royal Statistical Society 97 (1934), 558-625.
    """
    strata = ledger.strata
    counts = _label_counts(ledger, known)
    drawn = np.bincount(ledger.drawn, minlength=len(strata.sizes))
    left: Ints = strata.sizes - drawn - known.sum(axis=1)
    labels = counts.sum()
    wrong, rows = fitted(strata, counts, CAUTIOUS)
    # Nobody is so sure after so few labels.
    wrong = np.clip(wrong, 0.1 / (labels + 10.0), 1.0 - 0.1 / (labels + 10.0))
    wrong_units = np.maximum(np.rint(wrong * UNIT), 1).astype(np.int64)
    row_units = np.floor(rows * UNIT).astype(np.int64)
    chances = label_chances(strata, wrong_units, row_units)
    belief = _Expected(strata, chances, left, counts)
    directions = 1.0 / (strata.classes * belief.sizes)
    # A class that nobody predicts and nobody has found cannot be bet on.
    of_class = counts[:, :-1].sum(axis=0)
    is_said = np.isin(np.arange(strata.classes), strata.predicted)
    directions[(of_class == 0) & ~is_said] = 0.0
    aimed = directions if aim is None else np.eye(strata.classes)[aim]
    spread = np.sqrt(belief.variance_of_aim(aimed))
    mean = float(left @ spread) / max(1, int(left.sum()))
    relative = spread / mean if mean > 0 else np.ones_like(spread)
    weights = _UNIFORM_PART + (1.0 - _UNIFORM_PART) * relative
    if is_even:
        weights = np.ones_like(weights)
    whole = np.maximum(np.rint(_WEIGHT_UNIT * weights), 1).astype(np.int64)
    return Round(
        start=len(ledger.drawn),
        weights=whole,
        wrong=wrong_units,
        rows=row_units,
        directions=directions,
        spreads=belief.spreads(directions, whole),
    )


def _label_counts(ledger: Ledger, known: Ints) -> Ints:
    counts = known.copy()
    answered = ledger.labels != OPEN
    np.add.at(counts, (ledger.drawn[answered], ledger.labels[answered]), 1)
    return counts


class _Expected:
    """What the model of one round expects of the set, counts of labels included."""

    def __init__(
        self, strata: Strata, chances: Ints, left: Ints, counts: Ints | None = None
    ) -> None:
        self.q = chances / UNIT
        self.left = left
        self.said = strata.predicted[:, None] == np.arange(strata.classes)
        right, of = (left @ x[:, :-1] / UNIT for x in expected_counts(strata, chances))
        if counts is not None:
            right = right + (counts[:, :-1] * self.said).sum(axis=0)
            of = of + counts[:, :-1].sum(axis=0)
        self.sizes: Floats = np.maximum(of, 1.0)
        self.accuracies: Floats = np.clip(right / self.sizes, 0.0, 1.0)
        # What the variance of a measure is divided by to be one of counts.
        self.scales = np.append(self.sizes, [max(1.0, float(self.sizes.sum())), 1.0])

    def variance_of_aim(self, directions: Floats) -> Floats:
        """Return the variance that one label of each stratum has in the aim."""
        values = directions * (self.said - self.accuracies)
        mean = (self.q * values).sum(axis=1)
        variance = (self.q * values**2).sum(axis=1) - mean**2
        return np.asarray(np.maximum(variance, 0.0))

    def spreads(self, directions: Floats, weights: Ints) -> Floats:
        """Return the variance of one draw for each measure, over its scale."""
        by_class = self.q * (1.0 - self.q) * (self.said - self.accuracies) ** 2
        right, some = (self.q * self.said).sum(axis=1), self.q.sum(axis=1)
        r = float(self.sizes @ self.accuracies / self.sizes.sum())
        overall = right * (1 - r) ** 2 + (some - right) * r**2 - (right - r * some) ** 2
        per_query = np.column_stack(
            [by_class, np.maximum(overall, 0.0), self.variance_of_aim(directions)]
        )
        shares = (self.left / weights)[:, None] * per_query
        variance = float(self.left @ weights) * shares.sum(axis=0)
        # Where the model expects no variance at all, bets are still finite.
        least = 1e-9 * np.append(np.ones(len(self.sizes) + 1), 1e-9)
        return np.asarray(np.maximum(variance / self.scales, least))


def fitted(strata: Strata, counts: Ints, before: Belief) -> tuple[Floats, Floats]:
    """Return how likely each stratum is wrong, and as which class (rows sum to < 1).

    *counts* (strata, classes + 1) are the labels so far, and *before* is believed
    without any.
    """
    said = strata.predicted
    total = counts.sum(axis=1).astype(np.float64)
    right = counts[np.arange(len(said)), said]
    logits = _logistic(strata, total - right, total, before)
    shares = np.bincount(said, weights=strata.sizes, minlength=strata.classes)
    shares = _SHARE_LABELS * shares / shares.sum()
    seen = np.zeros((strata.classes, strata.classes + 1))
    np.add.at(seen, said, counts)
    mass = seen + np.append(shares, _UNCLEAR_LABELS)
    mass[np.arange(strata.classes), np.arange(strata.classes)] = 0.0
    rows: Floats = mass[:, :-1] / mass.sum(axis=1, keepdims=True)
    return np.asarray(expit(logits)), rows


def _logistic(strata: Strata, wrong: Floats, total: Floats, before: Belief) -> Floats:
    """Return log odds of being wrong by ridge regression on those of the confidence.

    Newton's steps are halved until the loss falls: undamped ones overshoot far from
    the middle, and the model becomes absurdly sure.
    """
    z = bin_logits(strata.bins)
    none = strata.bins == NO_CONFIDENCE
    of_class = strata.predicted[:, None] == np.arange(strata.classes)
    design = np.column_stack([np.ones_like(z), z, none, of_class])
    centre = np.zeros(design.shape[1])
    centre[1:3] = before
    spread = np.full(design.shape[1], _CLASS_SPREAD)
    spread[:3] = 1.0, _SLOPE_SPREAD, 1.0
    precision = spread**-2.0

    def loss(b: Floats) -> float:
        x = design @ b
        fit = total @ np.logaddexp(0.0, x) - wrong @ x
        return float(fit + precision @ (b - centre) ** 2 / 2.0)

    b, now = centre, loss(centre)
    for _ in range(30):
        p = expit(design @ b)
        slope = design.T @ (total * p - wrong) + precision * (b - centre)
        curve = (design * (total * p * (1.0 - p))[:, None]).T @ design
        step = np.linalg.solve(curve + np.diag(precision), slope)
        size = 1.0
        while size > 1e-6 and loss(b - size * step) > now:
            size /= 2.0
        b, was = b - size * step, now
        now = loss(b)
        if was - now < 1e-9 * (1.0 + abs(now)):
            break
    return np.asarray(design @ b)
