"""Buehler's limit of three classes, by summation over all outcomes."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.exact import lower_bound
from tracker.stats.joint import three
from tracker.stats.joint.outcomes import Nodes, Outcomes, nodes_needed
from tracker.stats.joint.three import three_class_limit


def tables(n, truths):
    return [binom.pmf(np.arange(of + 1), of, truths[:, [j]]) for j, of in enumerate(n)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "error"),
    [
        ((4, 4, 4), 0.025),
        pytest.param((3, 5, 8), 0.025, marks=pytest.mark.chaos),
        ((1, 2, 6), 0.25),
    ],
)
def test_no_truth_is_below_its_limit_more_often_than_promised(n, error):
    limits = np.empty([of + 1 for of in n])
    for k in np.ndindex(limits.shape):
        limits[k] = three_class_limit(k, n, error)
    some = np.linspace(0, 1, 21)
    # The worst means lie just below a limit.
    edges = np.unique(limits[limits > 0]) * (1 - 1e-12)
    worst = 0.0
    for mean in edges[:: max(1, edges.size // 50)]:
        truths = np.array([(p, q, 3 * mean - p - q) for p in some for q in some])
        truths = truths[(truths[:, 2] >= 0) & (truths[:, 2] <= 1)]
        missed = np.einsum(
            "pi,pj,pk,ijk->p", *tables(n, truths), limits > mean, optimize=True
        )
        worst = max(worst, missed.max())
    assert 0.95 * error < worst <= error


def exact_chance(outcomes, truths):
    first, second, third = tables(outcomes.n, truths)
    tails = np.cumsum(third[:, ::-1], axis=1)[:, ::-1]
    tails = np.hstack([tails, np.zeros((len(tails), 1))])
    return np.einsum("pi,pj,pij->p", first, second, tails[:, outcomes.begins])


def points_of(outcomes, total, rng):
    """Return accuracies in the box with this sum, the corners among them."""
    low = [window.low for window in outcomes.windows]
    high = [window.high for window in outcomes.windows]
    drawn = rng.uniform(low[:2], high[:2], (20_000, 2))
    ends = itertools.product(*zip(low, high, strict=True))
    corners = []
    for corner in ends:
        for j in range(3):
            point = list(corner)
            point[j] = total - sum(corner[:j]) - sum(corner[j + 1 :])
            corners.append(point)
    points = np.vstack([np.column_stack([drawn, total - drawn.sum(axis=1)]), corners])
    inside = ((points >= np.array(low) - 1e-15) & (points <= high)).all(axis=1)
    return points[inside][-1500:]


@pytest.mark.parametrize(
    ("k", "n"),
    [
        ((7, 8, 9), (8, 9, 10)),
        ((3, 15, 24), (4, 20, 40)),
        ((2, 1, 18), (5, 9, 20)),
        ((6, 12, 30), (6, 12, 30)),
    ],
)
def test_no_supremum_is_below_what_is_found_by_looking(k, n):
    rng = np.random.default_rng(sum(n))
    outcomes = Outcomes.above(k, n, 0.025)
    assert all(
        w.counts.size == of + 1 for w, of in zip(outcomes.windows, n, strict=True)
    )
    low = sum(window.low for window in outcomes.windows)
    for part in (0.3, 0.6, 0.9):
        total = low + part * (outcomes.estimate - low)
        patches, labels = three._trapezoids(outcomes, total), n[::-1]
        assert 1 <= len(patches) <= 3
        bounds = []
        for patch in patches:
            across, along = (
                nodes_needed(paths, 1e-7)
                for paths in three._paths(labels, total, patch)
            )
            bounds.append(three._supremum(outcomes, total, patch, (across, along)))
        points = points_of(outcomes, total, rng)
        assert len(points) > 100
        largest = exact_chance(outcomes, points).max()
        assert largest <= max(bounds) <= 1.05 * largest + 1e-4


def test_what_an_interpolant_may_miss_is_added_to_its_supremum(monkeypatch):
    outcomes = Outcomes.above((7, 8, 9), (8, 9, 10), 0.025)
    total = outcomes.score
    patch = three._trapezoids(outcomes, total)[0]

    def found(across, along):
        nodes = Nodes(26, across), Nodes(30, along)
        return three._supremum(outcomes, total, patch, nodes)

    exact = found(0.0, 0.0)
    assert found(1e-3, 0.0) == pytest.approx(exact + 1e-3, rel=1e-12)
    # What one direction misses at the nodes may have grown between them.
    assert found(0.0, 1e-3) > exact + 2e-3
    monkeypatch.setattr(three, "RELATIVE_ROUNDING", 1e-2)
    assert found(0.0, 0.0) > exact * 1.05


def test_trapezoids_leave_no_part_of_the_polygon_out():
    outcomes = Outcomes.above((27, 900, 950), (30, 1000, 1000), 0.025)
    rng = np.random.default_rng(2)
    for total in (2.5, 2.65, 2.72, 2.78):
        patches = three._trapezoids(outcomes, total)
        for _, q, p in points_of(outcomes, total, rng)[:300]:
            is_inside = False
            for (x, bottom, top), (end, end_bottom, end_top) in patches:
                if x - 1e-12 <= p <= end + 1e-12:
                    share = (p - x) / (end - x) if end > x else 0.0
                    least = bottom + share * (end_bottom - bottom)
                    most = top + share * (end_top - top)
                    is_inside |= least - 1e-12 <= q <= most + 1e-12
            assert is_inside


def test_halves_of_a_trapezoid_give_the_same_limit(monkeypatch):
    k, n = (18, 36, 72), (20, 40, 80)
    expected = three_class_limit(k, n, 0.025)
    refused = []

    def only_short(paths, tolerance):
        longest = max(half for path in paths for _, _, half in path)
        if longest < 0.08:
            return nodes_needed(paths, tolerance)
        refused.append(longest)
        return None

    monkeypatch.setattr(three, "nodes_needed", only_short)
    assert three_class_limit(k, n, 0.025) == pytest.approx(expected, rel=1e-4)
    assert refused


def test_what_would_take_too_long_is_not_claimed(monkeypatch):
    k, n = (18, 36, 72), (20, 40, 80)
    low = three_class_limit(k, n, 0.025)
    monkeypatch.setattr(three, "MOST_WORK", 2e5)
    hurried = three_class_limit(k, n, 0.025)
    assert float(lower_bound(k, n, 0.025 / 600).mean()) - 1e-12 <= hurried < low - 1e-3


@pytest.mark.parametrize("error", [0.25, 0.025, 5e-8])
@pytest.mark.parametrize("n", [(1, 2, 6), (5, 20, 30), (20, 40, 80), (4, 300, 10**4)])
def test_the_work_is_what_the_counts_and_the_level_say(n, error, monkeypatch):
    counted = []

    def watched(outcomes, total, patch, nodes):
        counted.append(nodes[0].number * nodes[1].number * outcomes.begins.size)
        return supremum(outcomes, total, patch, nodes)

    supremum = three._supremum
    monkeypatch.setattr(three, "_supremum", watched)
    predicted = three.work_of_three(n, error)
    rng = np.random.default_rng(sum(n))
    for truth in ((0.9, 0.9, 0.9), (0.5, 0.5, 0.5), (0.01, 0.5, 0.99)):
        k = tuple(rng.binomial(n, truth).tolist())
        counted.clear()
        three_class_limit(k, n, error)
        assert sum(counted) <= 3 * predicted


def test_what_cannot_be_proved_is_not_claimed(monkeypatch):
    k, n = (18, 36, 72), (20, 40, 80)
    monkeypatch.setattr(three, "nodes_needed", lambda *_: None)
    low = three_class_limit(k, n, 0.025)
    box = lower_bound(k, n, 0.025 / 600)
    assert low == pytest.approx(float(box.mean()), rel=1e-12)


@pytest.mark.parametrize(
    ("k", "n"),
    [
        ((18, 18, 18), (20, 20, 20)),
        ((90, 180, 360), (100, 200, 400)),
        ((27, 900, 950), (30, 1_000, 1_000)),
        ((180, 190, 280), (200, 220, 300)),
        ((25, 3, 95), (26, 40, 100)),
    ],
)
def test_one_proof_is_enough(k, n, monkeypatch):
    proved = []

    def watched(outcomes, total, *rest):
        proved.append(total)
        return supremum(outcomes, total, *rest)

    supremum = three._supremum
    monkeypatch.setattr(three, "_supremum", watched)
    three_class_limit(k, n, 0.025)
    assert len(set(proved)) == 1


@pytest.mark.parametrize(
    ("k", "n"),
    [
        ((1, 1, 1), (2, 2, 2)),
        ((0, 9, 30), (9, 20, 40)),
        ((45, 50, 60), (50, 60, 70)),
        ((90, 180, 360), (100, 200, 400)),
    ],
)
def test_what_is_left_out_of_the_sum_is_nothing(k, n):
    outcomes = Outcomes.above(k, n, 0.025)
    first, second, last = outcomes.windows
    rng = np.random.default_rng(sum(n))
    p, q = (rng.uniform(w.low, w.high, 7) for w in (second, last))
    total = q + p + rng.uniform(first.low, first.high, 7)
    reached = np.take(last.tails(q), outcomes.begins, axis=-1)
    whole = np.einsum(
        "px,py,pxy->p", first.chances(total - q - p), second.chances(p), reached
    )
    for place in range(7):
        here = slice(place, place + 1)
        found = three._chances(outcomes, total[place], q[here], p[here, np.newaxis])
        assert found.item() == pytest.approx(whole[place], rel=1e-12, abs=1e-300)


def smooth(number, top, size):
    """Return values at nodes, and the largest anywhere, of a hill with this *top*."""
    angles = (np.arange(number) + 0.5) * np.pi / number
    a, b = 4 * size * np.cos(top), size
    hill = 1 + a * np.cos(angles) - b * np.cos(2 * angles)
    highest = 1 + a * np.cos(top) - b * np.cos(2 * top)
    return np.repeat(hill[:, np.newaxis], 6, axis=1), highest


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.02, 0.1, 0.3])
def test_no_hill_between_the_angles_of_a_grid_is_missed(size, monkeypatch):
    steps = []

    def watched(coefficients, step):
        steps.append(step)
        return highest(coefficients, step)

    highest = three._highest
    monkeypatch.setattr(three, "_highest", watched)
    for place in range(24, 220):
        values, top = smooth(8, (place + 0.5) * np.pi / 256, size)
        for turned in (values, values.T):
            found = three._greatest(turned)
            # Rounding is accounted for elsewhere.
            assert top * (1 - 1e-14) <= found <= top * (1 + 4e-4)
    expected = {0.0: 8, 1e-3: 8, 0.02: 8, 0.1: 4, 0.3: 2}
    assert min(steps) == expected[size]


def test_blocks_of_nodes_join_without_a_seam(monkeypatch):
    k, n = (8, 17, 20), (9, 20, 22)
    expected = three_class_limit(k, n, 0.025)
    monkeypatch.setattr(three, "_MOST_AT_ONCE", 1)
    assert three_class_limit(k, n, 0.025) == expected


def test_three_classes_are_narrower_than_two_of_them_and_a_guess():
    # Three alike classes have about 0.82 of the doubt of two.
    three = 0.9 - three_class_limit((45, 45, 45), (50, 50, 50), 0.025)
    from_union = 0.9 - float(lower_bound(45, 50, 0.025 / 3))
    assert 0.4 < three / from_union < 0.5
