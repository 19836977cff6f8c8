"""Buehler's limit of two classes, by summation and to many digits."""

from fractions import Fraction
from math import comb

import mpmath
import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.exact import lower_bound, upper_bound
from tracker.stats.joint import outcomes, two
from tracker.stats.joint.outcomes import Nodes, Outcomes, Window, nodes_needed, nodes_of
from tracker.stats.joint.two import Line, supremum_on_line, two_class_limit


def all_limits(n, m, error):
    return np.array(
        [
            [two_class_limit((i, j), (n, m), error) for j in range(m + 1)]
            for i in range(n + 1)
        ]
    )


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("n", "m", "error"),
    [
        (10, 10, 0.025),
        (5, 40, 0.025),
        pytest.param(20, 100, 0.025, marks=pytest.mark.chaos),
        pytest.param(50, 50, 0.025, marks=pytest.mark.chaos),
        (1, 30, 0.25),
        (8, 8, 5e-5),
        (3, 3, 0.5),
    ],
)
def test_no_truth_is_below_its_limit_more_often_than_promised(n, m, error):
    limits = all_limits(n, m, error)
    rng = np.random.default_rng(n + m)
    # The worst means lie just below a limit.
    edges = np.unique(limits[limits > 0]) * (1 - 1e-12)
    edges = rng.permutation(edges)[:150]
    grid = np.concatenate([edges, np.linspace(0.01, 0.99, 50)])
    worst = 0.0
    for mean in grid:
        one = np.linspace(max(0, 2 * mean - 1), min(1, 2 * mean), 81)
        other = np.clip(2 * mean - one, 0, 1)
        first = binom.pmf(np.arange(n + 1), n, one[:, None])
        second = binom.pmf(np.arange(m + 1), m, other[:, None])
        missed = ((first @ (limits > mean)) * second).sum(axis=1)
        worst = max(worst, missed.max())
    assert 0.95 * error < worst <= error


def test_no_truth_is_below_its_limit_more_often_in_rational_arithmetic():
    n, m = 6, 9
    limits = all_limits(n, m, 0.025)
    worst = Fraction(0)
    edges = [Fraction(x) - Fraction(1, 10**12) for x in np.unique(limits)[1:].tolist()]
    for mean in edges[::3]:
        least, most = max(Fraction(0), 2 * mean - 1), min(Fraction(1), 2 * mean)
        missed = [
            next((j for j in range(m + 1) if limits[i, j] > mean), m + 1)
            for i in range(n + 1)
        ]
        for step in range(21):
            one = least + (most - least) * Fraction(step, 20)
            other = 2 * mean - one
            tails = [Fraction(0)] * (m + 2)
            for j in range(m, -1, -1):
                chance = comb(m, j) * other**j * (1 - other) ** (m - j)
                tails[j] = tails[j + 1] + chance
            total = sum(
                comb(n, i) * one**i * (1 - one) ** (n - i) * tails[missed[i]]
                for i in range(n + 1)
            )
            worst = max(worst, total)
    assert Fraction(24, 1000) < worst <= Fraction(25, 1000)


def wilson(k, n, z):
    share, ratio = mpmath.mpf(k) / n, z * z / n
    root = mpmath.sqrt(share * (1 - share) * ratio + ratio * ratio / 4)
    return share, (share + ratio / 2 - root) / (1 + ratio)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("k", "n"), [((28, 960), (30, 1000)), ((9, 9), (10, 10)), ((0, 150), (12, 200))]
)
def test_the_chance_of_what_was_seen_is_what_the_limit_needs_to_40_digits(k, n):
    error = 0.025
    total = 2 * mpmath.mpf(two_class_limit(k, n, error))
    with mpmath.workdps(40):
        z = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * mpmath.mpf(error))
        points = [[wilson(i, of, z) for i in range(of + 1)] for of in n]

        def score(i, j):
            (one, low), (other, least) = points[0][i], points[1][j]
            return one + other - mpmath.sqrt((one - low) ** 2 + (other - least) ** 2)

        # Scores grow in both counts, so where the set begins only moves down.
        seen, begin, begins = score(*k) - mpmath.mpf(10) ** -12, n[1] + 1, []
        for i in range(n[0] + 1):
            while begin > 0 and score(i, begin - 1) >= seen:
                begin -= 1
            begins.append(begin)
        box = [
            (
                float(lower_bound(a, b, error / 400)),
                1 - float(lower_bound(b - a, b, error / 400)),
            )
            for a, b in zip(k, n, strict=True)
        ]
        least = max(box[0][0], float(total) - box[1][1])
        most = min(box[0][1], float(total) - box[1][0])
        largest = mpmath.mpf(0)
        for one in np.linspace(least, most, 15).tolist():
            p, q = mpmath.mpf(one), total - mpmath.mpf(one)
            tails = [mpmath.mpf(0)] * (n[1] + 2)
            for j in range(n[1], -1, -1):
                chance = mpmath.binomial(n[1], j) * q**j * (1 - q) ** (n[1] - j)
                tails[j] = tails[j + 1] + chance
            largest = max(
                largest,
                mpmath.fsum(
                    mpmath.binomial(n[0], i) * p**i * (1 - p) ** (n[0] - i) * tails[b]
                    for i, b in enumerate(begins)
                ),
            )
    assert 0.985 * 0.025 < largest <= 0.99 * 0.025


@pytest.mark.thorough
@pytest.mark.parametrize("n", [7, 300, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.4, 0.97, 1.0])
def test_chances_of_counts_are_right_to_40_digits(n, share):
    k = round(n * share)
    low, high = float(lower_bound(k, n, 1e-4)), float(upper_bound(k, n, 1e-4))
    window = Window.between(low, high, n, 1e-12)
    p = np.array([low, (low + high) / 2, high])
    rows, tails = window.chances(p), window.tails(p)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-9)
    with mpmath.workdps(40):
        for row, tail, at in zip(rows, tails, p.tolist(), strict=True):
            if not 0 < at < 1:
                continue
            for index in {int(row.argmax()), int(np.abs(tail[:-1] - 0.01).argmin())}:
                j = int(window.counts[index])
                chance = mpmath.binomial(n, j) * mpmath.mpf(at) ** j
                chance *= (1 - mpmath.mpf(at)) ** (n - j)
                assert row[index] == pytest.approx(float(chance), rel=2e-9)
                # Summing upward until nothing more is added.
                total, term = mpmath.mpf(0), chance
                while term > chance * mpmath.mpf(10) ** -25 and j < n + 1:
                    total += term
                    term *= mpmath.mpf(n - j) / (j + 1) * at / (1 - mpmath.mpf(at))
                    j += 1
                assert tail[index] == pytest.approx(float(total), rel=2e-9)


def test_the_counts_left_out_are_as_unlikely_as_promised():
    for low, high, n in ((0.1, 0.2, 400), (0.0, 0.01, 3000), (0.95, 1.0, 90)):
        window = Window.between(low, high, n, 1e-6)
        for p in np.linspace(low, high, 9):
            assert binom.cdf(window.counts[0] - 1, n, p) <= 1e-6
            assert binom.sf(window.counts[-1], n, p) <= 1e-6
    assert Window.between(0.5, 0.51, 10**6, 1e-6).counts.size < 3 * 10**4


@pytest.mark.parametrize(
    ("k", "n"), [((3, 40), (6, 45)), ((0, 9), (4, 9)), ((17, 2), (20, 30))]
)
def test_the_set_is_that_of_the_outcomes_with_no_lower_score(k, n):
    outcomes = Outcomes.above(k, n, 0.025)
    parts = []
    for of in n:
        share, ratio = np.arange(of + 1) / of, 1.959963984540054**2 / of
        root = np.sqrt(share * (1 - share) * ratio + ratio**2 / 4)
        parts.append((share, share - (share + ratio / 2 - root) / (1 + ratio)))
    (one, below_one), (other, below) = parts
    scores = one[:, None] + other - np.hypot(below_one[:, None], below)
    # All counts are in the windows here.
    inside = np.arange(n[1] + 1) >= outcomes.begins[:, None]
    assert outcomes.windows[0].counts.size == n[0] + 1
    assert inside[scores >= scores[k]].all()
    assert not inside[scores < scores[k] - 1e-9].any()


def polynomial(labels, begins, line):
    n, m = labels

    def chance(one, other):
        first = binom.pmf(np.arange(n + 1), n, one[:, None])
        tails = binom.sf(np.asarray(begins) - 1, m, other[:, None])
        return (first * tails).sum(axis=1)

    dense = np.linspace(line.first, line.last, 1001)
    return chance, chance(dense, line.total - dense).max()


@pytest.mark.thorough
def test_no_supremum_is_below_what_is_found_by_looking():
    rng = np.random.default_rng(11)
    ratios = []
    for _ in range(60):
        n, m = (int(10 ** rng.uniform(0, 2.5)) for _ in range(2))
        begins = np.sort(rng.integers(0, m + 2, n + 1))[::-1]
        total = rng.uniform(0.05, 1.95)
        ends = np.sort(rng.uniform(max(0, total - 1), min(1, total), 2))
        line = Line((n, m), total, *ends.tolist())
        chance, largest = polynomial((n, m), begins, line)
        found = supremum_on_line(
            chance, line, tolerance=1e-9, relative_error=0.0, absolute_error=0.0
        )
        assert found >= largest * (1 - 1e-12) - 1e-14
        ratios.append(found - largest)
    assert max(ratios) < 1e-4


def test_the_remainder_is_bounded():
    line = Line((40, 60), 1.5, 0.55, 0.9)
    begins = np.linspace(60, 30, 41).round()
    chance, _ = polynomial(line.labels, begins, line)
    middle, half = 0.725, 0.175
    path = ((40, middle, half), (60, 1.5 - middle, -half))
    x = np.linspace(-1, 1, 801)
    truth = chance(middle + half * x, 1.5 - middle - half * x)
    numbers = set()
    for tolerance in (1e-1, 1e-3, 1e-5, 1e-8):
        number, remainder = nodes_needed((path,), tolerance)
        numbers.add(number)
        nodes = middle + half * nodes_of(number)
        fitted = np.polynomial.chebyshev.Chebyshev.fit(
            nodes_of(number), chance(nodes, 1.5 - nodes), number - 1, domain=[-1, 1]
        )
        assert np.abs(fitted(x) - truth).max() <= remainder + 1e-12 <= tolerance + 1e-12
    assert len(numbers) >= 3
    # On a line far longer than the spread of the counts no number is enough.
    wide = ((10**6, 0.5, 0.5), (10**6, 0.5, -0.5))
    assert nodes_needed((wide,), 1e-9) is None


def test_a_polynomial_of_a_low_degree_needs_no_more_nodes_than_that():
    path = ((3, 0.5, 0.5), (4, 0.5, -0.5))
    assert nodes_needed((path,), 1e-15) == Nodes(8, 0.0)
    # What moves on one of the paths moves between them.
    paths = ((30, 0.5, 0.0), (4, 0.5, 0.1)), ((30, 0.5, 0.1), (4, 0.5, 0.0))
    assert nodes_needed(paths, 1e-300) == Nodes(36, 0.0)


def test_a_line_in_pieces_gives_the_same_limit(monkeypatch):
    k, n = (45, 180), (50, 200)
    expected = two_class_limit(k, n, 0.025)
    asked = []

    def only_short(paths, tolerance):
        asked.append(paths[0][0][2])
        return nodes_needed(paths, tolerance) if asked[-1] < 0.02 else None

    monkeypatch.setattr(two, "nodes_needed", only_short)
    assert two_class_limit(k, n, 0.025) == pytest.approx(expected, rel=1e-6)
    assert max(asked) > 0.05


def test_what_cannot_be_proved_is_not_claimed(monkeypatch):
    monkeypatch.setattr(two, "nodes_needed", lambda *_: None)
    low = two_class_limit((45, 180), (50, 200), 0.025)
    box = lower_bound([45, 180], [50, 200], 0.025 / 400)
    assert low == pytest.approx(float(box.mean()), rel=1e-12)
    monkeypatch.setattr(two, "supremum_on_line", lambda *_, **__: float("nan"))
    assert two_class_limit((45, 180), (50, 200), 0.025) == low


def test_a_doubtful_chance_is_taken_for_the_higher_one(monkeypatch):
    low = two_class_limit((45, 180), (50, 200), 0.025)
    monkeypatch.setattr(two, "RELATIVE_ROUNDING", 1e-3)
    doubted = two_class_limit((45, 180), (50, 200), 0.025)
    monkeypatch.undo()
    monkeypatch.setattr(outcomes, "ACCURACY_ROUNDING", 1e-7)
    assert max(doubted, two_class_limit((45, 180), (50, 200), 0.025)) < low - 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("error", [0.5, 0.05, 1e-4, 1e-9])
def test_odd_counts_end_with_a_limit_that_uses_up_the_error(error, monkeypatch):
    rng = np.random.default_rng(17)
    used, steps = [], []

    def watched(*arguments, **named):
        used.append(supremum_on_line(*arguments, **named))
        return used[-1]

    monkeypatch.setattr(two, "supremum_on_line", watched)
    for _ in range(60):
        n = tuple(int(10 ** rng.uniform(0, 4)) for _ in range(2))
        k = tuple(int(rng.binomial(of, rng.choice([0.001, 0.5, 0.95]))) for of in n)
        used.clear()
        low = two_class_limit(k, n, error)
        assert 0 <= low <= (k[0] / n[0] + k[1] / n[1]) / 2
        steps.append(len(used))
        proved = [chance for chance in used if chance <= 0.99 * error]
        assert not used or max(proved, default=0.0) > 0.9899 * error or low > 0
    assert max(steps) < 40
    assert np.mean(steps) < 10
