"""Evidence of a fall: exact sums against adversaries, and proofs against a grid."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from tracker.stats.evidence.falls import Split, log_evidence_of_fall
from tracker.stats.evidence.intervals import log_evidence_above


def split(right_before, before, right_since, since):
    counts = (right_before, before, right_since, since)
    columns = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in counts))
    if columns[0].ndim == 1:
        columns = [column[:, None] for column in columns]
    return Split(*columns)


def log_ratio(of):
    return of.log_likelihood() - of.log_steady()


def log_most(of):
    return of.log_most(of.log_likelihood(), log_ratio(of))


def cells_up_to(most):
    return np.array([(k, n) for n in range(most + 1) for k in range(n + 1)])


def chance_of_reaching(is_reached, steps):
    """Return the chance of ever being in a state, the next label by an adversary.

    *steps* are the labels that may come: for each its chance to be right, and the
    state after it by the state before it if it is right and if it is wrong; -1 where
    it cannot come.  A label only leads to states with higher numbers.
    """
    chance = np.where(is_reached, 1.0, 0.0)
    for state in range(len(chance) - 1, -1, -1):
        if chance[state] < 1.0:
            chance[state] = max(
                (
                    p * chance[right[state]] + (1 - p) * chance[wrong[state]]
                    for p, right, wrong in steps
                    if right[state] >= 0
                ),
                default=0.0,
            )
    return chance[0]


class Cells:
    """States of several cells of (right, counted), numbered by their labels in all."""

    def __init__(self, cells, most):
        one = cells_up_to(most)
        places = np.array(list(itertools.product(range(len(one)), repeat=cells)))
        counts = one[places]
        order = np.argsort(counts[:, :, 1].sum(axis=1), kind="stable")
        self.counts = counts[order]
        self.most = most
        self._number = {row.tobytes(): i for i, row in enumerate(self.counts)}

    def step(self, cell, p):
        return p, self._after(cell, 1), self._after(cell, 0)

    def _after(self, cell, is_right):
        moved = self.counts.copy()
        moved[:, cell] += (is_right, 1)
        return [self._number.get(row.tobytes(), -1) for row in moved]


def evidence_by_counts(before, since):
    """Return the evidence of a fall of one number, each pair of counts once."""
    rows, where = np.unique(
        np.concatenate([before, since], axis=1), axis=0, return_inverse=True
    )
    return np.exp(log_evidence_of_fall(split(*rows.T)))[where.ravel()]


STEADY_OR_RISING = [
    *((p,) * 3 for p in (0.1, 0.3, 0.5, 0.7, 0.9, 0.95)),
    (0.5, 0.6, 0.7),
    (0.7, 0.7, 0.9),
]


def test_an_adversary_over_three_days_reaches_the_threshold_no_more_than_allowed():
    days = Cells(3, 5)
    first, second, third = (days.counts[:, day] for day in range(3))
    total = 0.5 * evidence_by_counts(first, second + third)
    total += 0.5 * evidence_by_counts(first + second, third)
    worst = 0.0
    for error in (0.5, 0.2):
        for accuracies in STEADY_OR_RISING:
            steps = [days.step(day, p) for day, p in enumerate(accuracies)]
            chance = chance_of_reaching(total >= 1 / error, steps)
            worst = max(worst, chance / error)
    assert 0.2 < worst <= 1
    falling = [days.step(day, p) for day, p in enumerate((1.0, 1.0, 0.0))]
    assert chance_of_reaching(total >= 5, falling) == 1


@pytest.mark.parametrize("values", [(0.5, 0.5), (0.3, 0.7), (0.5, 0.9), (0.1, 0.9)])
def test_an_adversary_who_picks_each_accuracy_is_rarely_believed_falsely(values):
    # Each side counts the labels of both accuracies apart, so its average is known.
    most = 3
    kinds = Cells(4, most)
    right, counted = kinds.counts[:, :, 0], kinds.counts[:, :, 1]
    before, since = (
        np.stack([right[:, at].sum(axis=1), counted[:, at].sum(axis=1)], axis=1)
        for at in (slice(0, 2), slice(2, 4))
    )
    mean = [
        (counted[:, at] @ np.array(values)) / np.maximum(counted[:, at].sum(axis=1), 1)
        for at in (slice(0, 2), slice(2, 4))
    ]
    is_false = mean[0] <= mean[1] + 1e-12
    evidence = evidence_by_counts(before, since)
    steps = [kinds.step(cell, values[cell % 2]) for cell in range(4)]
    for error in (0.7, 0.5):
        reached = (evidence >= 1 / error) & is_false
        assert chance_of_reaching(reached, steps) <= error


@pytest.mark.slow
@pytest.mark.parametrize(
    "accuracies",
    [(0.5,) * 4, (0.9, 0.5, 0.7, 0.7), (0.7, 0.7, 0.9, 0.5), (0.9, 0.1, 0.5, 0.5)],
)
def test_an_adversary_over_two_classes_is_rarely_believed_falsely(accuracies, balanced):
    cells, evidence = balanced
    steps = [cells.step(cell, p) for cell, p in enumerate(accuracies)]
    for error in (0.7, 0.5):
        assert chance_of_reaching(evidence >= 1 / error, steps) <= error


@pytest.fixture(scope="module")
def balanced():
    # Two classes before and the same two since.
    cells = Cells(4, 3)
    right, counted = cells.counts[:, :, 0], cells.counts[:, :, 1]
    of = split(right[:, :2], counted[:, :2], right[:, 2:], counted[:, 2:])
    return cells, np.exp(log_evidence_of_fall(of, np.array([[0.7, 0.3]])))


@pytest.mark.parametrize("sizes", [(1, 1), (3, 12), (12, 3), (12, 12), (40, 25)])
def test_the_mean_evidence_of_one_accuracy_is_at_most_1(sizes):
    before, since = sizes
    k1, k2 = (
        k.ravel()
        for k in np.meshgrid(np.arange(before + 1), np.arange(since + 1), indexing="ij")
    )
    evidence = np.exp(log_evidence_of_fall(split(k1, before, k2, since)))
    for p in (0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99):
        mean = (evidence * binom.pmf(k1, before, p) * binom.pmf(k2, since, p)).sum()
        assert 0 < mean <= 1


def least_by_search(of, shares):
    """Return the least over θ that a search finds, which cannot be too low."""
    before, right = (x.astype(int) for x in (of.before, of.right_before))
    since, wrong = (x.astype(int) for x in (of.since, of.since - of.right_since))

    def total(mean, row):
        above = log_evidence_above(right[row], before[row], mean, shares=shares)
        below = log_evidence_above(wrong[row], since[row], 1 - mean, shares=shares)
        # A fiftieth of each is not bet.
        parts = (np.logaddexp(np.log(0.98) + x, np.log(0.02)) for x in (above, below))
        return sum(parts)

    return np.array(
        [
            minimize_scalar(total, bounds=(0, 1), args=(row,), method="bounded").fun
            for row in range(len(before))
        ]
    )


@pytest.mark.parametrize("classes", [1, 2, 5])
def test_the_evidence_lies_just_below_the_least_over_all_accuracies(classes):
    rng = np.random.default_rng(classes)
    before, since = (rng.integers(1, 600, (6, classes)) for _ in range(2))
    before[0, 0], since[1, -1] = 0, 0
    of = split(rng.binomial(before, 0.95), before, rng.binomial(since, 0.7), since)
    shares = rng.dirichlet(np.ones(classes)) if classes > 1 else None
    expected = least_by_search(of, shares)
    gap = expected - log_evidence_of_fall(of, None if shares is None else shares[None])
    assert (gap >= -1e-9).all()
    assert (gap < 0.006).all()


def test_the_evidence_never_exceeds_the_likelihood_ratio():
    rng = np.random.default_rng(9)
    for classes in (1, 2, 5):
        before, since = (rng.integers(0, 900, (300, classes)) for _ in range(2))
        of = split(
            rng.binomial(before, rng.uniform(0.5, 1, before.shape)),
            before,
            rng.binomial(since, rng.uniform(0.3, 1, since.shape)),
            since,
        ).take(slice(None))
        of = of.take(np.flatnonzero(of.has_fallen()))
        assert (log_evidence_of_fall(of) <= log_most(of) + 1e-6).all()


def test_rows_have_the_bits_that_they_have_alone():
    rng = np.random.default_rng(2)
    before, since = (rng.integers(0, 900, (7, 3)) for _ in range(2))
    of = split(rng.binomial(before, 0.9), before, rng.binomial(since, 0.8), since)
    together = log_evidence_of_fall(of)
    alone = [log_evidence_of_fall(of.take([row]))[0] for row in range(7)]
    assert together.tolist() == alone


def test_without_labels_on_a_side_there_is_no_evidence():
    for of in (split([[0]], [[0]], [[2]], [[9]]), split([[9]], [[9]], [[0]], [[0]])):
        assert log_evidence_of_fall(of)[0] <= 0
    assert math.isfinite(log_evidence_of_fall(split([[0]], [[0]], [[0]], [[0]]))[0])


def test_what_bounds_the_evidence_of_many_steady_classes_is_small():
    rng = np.random.default_rng(3)
    before, since = rng.poisson(4, (40, 100)), rng.poisson(4, (40, 100))
    of = split(rng.binomial(before, 0.9), before, rng.binomial(since, 0.9), since)
    fell = of.take(np.flatnonzero(of.has_fallen()))
    assert len(fell.before) > 5
    assert (log_most(fell) < 8).all()
    assert (log_ratio(fell) > 20).all()


@pytest.mark.parametrize("most", [4_000, 400_000, 1_000_000, 10_000_000])
@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("classes", [1, 2])
def test_many_labels_of_one_side_take_nothing_from_what_the_other_proves(
    most, is_before, classes
):
    sizes = (most, 400) if is_before else (400, most)
    before, since = (np.full((1, classes), size // classes) for size in sizes)
    right = np.round(0.98 * before), np.round(0.9 * since)
    split = Split(right[0], before * 1.0, right[1], since * 1.0)
    shares = None if classes == 1 else np.full((1, classes), 0.5)
    (proved,) = log_evidence_of_fall(split, shares)
    # No evidence exceeds the ratio, and mixtures lose some of it.
    assert log_ratio(split)[0] - 12 < proved < log_ratio(split)[0]
