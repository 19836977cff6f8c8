"""Bounds where labels may be wrong: known figures, and misses summed exactly."""

import itertools
from fractions import Fraction
from math import comb, factorial, prod

import numpy as np
import pytest

from tracker.stats import noise
from tracker.stats.exact import Interval
from tracker.stats.noise import (
    cheapest_prefix,
    choose_counted,
    label_error_bound,
    noise_aware,
)


def test_the_rate_of_wrong_labels_is_bounded_exactly():
    n, error = 12, 0.1
    for rate in np.linspace(0.001, 0.999, 97):
        missed = sum(
            comb(n, k) * rate**k * (1 - rate) ** (n - k)
            for k in range(n + 1)
            if label_error_bound(k, n, error) < rate
        )
        assert missed <= error


@pytest.mark.parametrize(
    ("f", "g", "low"), [(0.01, 0.01, 0.890), (0.03, 0.03, 0.870), (0.05, 0.02, 0.876)]
)
def test_worst_shares_of_wrong_labels_give_the_known_bounds(f, g, low):
    one = np.ones(2)
    q = Interval(0.9 * one, 0.95 * one)
    found = noise._bounds(q, f * one, g * one, one)
    assert found.classes.low == pytest.approx(low, abs=5e-4)
    assert float(found.balanced.low) == pytest.approx(low, abs=5e-4)
    assert found.classes.high == pytest.approx((0.95 + g) / (1 - f + g), abs=1e-9)


def test_the_bounds_hold_for_every_share_up_to_the_worst():
    rng = np.random.default_rng(6)
    for _ in range(300):
        f, g, q, share = rng.random(4)
        one = np.ones(2)
        bounds = noise._bounds(
            Interval(q * one, q * one), f * one, g * share * one, share * one
        ).classes
        for _ in range(20):
            false, away = rng.random() * f, rng.random() * g
            kept = rng.uniform(max(q - false, 0), min(q, 1 - false))
            truth = (kept + rng.random() * away) / (1 - false + away)
            assert bounds.low[0] <= truth <= bounds.high[0]


@pytest.mark.thorough
def test_no_truth_is_missed_more_often_than_promised():
    # Six labels of which three are checked, at every outcome of truth, label and
    # prediction; the cells are (label, truth, is right).
    size, checked, level = 4, 2, 0.6
    chances = dict(
        zip(
            itertools.product(range(2), range(2), range(2)),
            (0.05, 0.32, 0.05, 0.08, 0.06, 0.04, 0.1, 0.3),
            strict=True,
        )
    )
    truths = []
    for c in range(2):
        # What is right says the class of the label.
        said = {cell: cell[0] if cell[2] else 1 - cell[0] for cell in chances}
        of = [cell for cell in chances if cell[1] == c]
        right = [cell for cell in of if said[cell] == c]
        truths.append(sum(map(chances.get, right)) / sum(map(chances.get, of)))
    missed, total = 0.0, 0.0
    for cells in itertools.combinations_with_replacement(chances, size - checked):
        for first in itertools.combinations_with_replacement(chances, checked):
            chance = multinomial(cells, chances) * multinomial(first, chances)
            k, n, table = [0, 0], [0, 0], np.zeros((2, 2), dtype=int)
            for label, _, is_right in (*cells, *first):
                n[label] += 1
                k[label] += is_right
            for label, truth, _ in first:
                table[label, truth] += 1
            found = noise_aware(k, n, table, level)
            is_held = (found.classes.low <= truths) & (truths <= found.classes.high)
            total += chance
            missed += chance * (not is_held.all())
    assert total == pytest.approx(1)
    assert missed <= 1 - level


def compositions(total, cells):
    """Every way to spread *total* over so many cells."""
    if cells == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, cells - 1):
            yield first, *rest


def ways(counts):
    return factorial(sum(counts)) // prod(map(factorial, counts))


# Classes 0 and 1, and 2 for what is no class.  A world is the chance of each label,
# truth, prediction and second label.
def world_of(joint, second):
    """Return the chances where the second label depends on the truth alone."""
    return {
        (label, truth, said, again): Fraction(chance) * Fraction(share)
        for (label, truth, said), chance in joint.items()
        for again, share in second[truth].items()
    }


_TRUSTED = {truth: {truth: 1} for truth in range(3)}
_CARELESS = {
    0: {0: Fraction(6, 10), 1: Fraction(4, 10)},
    1: {1: Fraction(1, 2), 0: Fraction(1, 2)},
    2: {2: Fraction(8, 10), 0: Fraction(2, 10)},
}
# Wrong labels go with wrong predictions, and some that are unclear have a class.
_JOINT = {
    (0, 0, 0): Fraction(40, 100),
    (0, 1, 0): Fraction(12, 100),
    (1, 1, 1): Fraction(30, 100),
    (1, 2, 1): Fraction(4, 100),
    (2, 0, 1): Fraction(14, 100),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("second", "least_right"), [(_TRUSTED, 1.0), (_CARELESS, 0.5)])
@pytest.mark.parametrize("missing", [0, 1])
def test_unclear_missing_and_careless_second_labels_keep_the_promise(
    second, least_right, missing
):
    level, checked, rest = 0.5, 3, 2
    world = world_of(_JOINT, second)
    truths = [
        sum(p for (_, t, said, _), p in world.items() if t == c == said)
        / sum(p for (_, t, _, _), p in world.items() if t == c)
        for c in range(2)
    ]
    firsts: dict[tuple[int, int], Fraction] = {}
    for (label, _, said, _), chance in world.items():
        firsts[label, said] = firsts.get((label, said), 0) + chance
    seen: dict[tuple[int, int, int], Fraction] = {}
    for (label, _, said, again), chance in world.items():
        seen[label, said, again] = seen.get((label, said, again), 0) + chance
    missed = total = Fraction(0)
    for some in compositions(checked, len(seen)):
        p_some = ways(some) * prod(
            p**m for p, m in zip(seen.values(), some, strict=True)
        )
        for others in compositions(rest, len(firsts)):
            chance = (
                p_some
                * ways(others)
                * prod(p**m for p, m in zip(firsts.values(), others, strict=True))
            )
            total += chance
            missed += chance * is_missed(
                dict(zip(seen, some, strict=True)),
                dict(zip(firsts, others, strict=True)),
                truths,
                level=level,
                missing=missing,
                least_right=least_right,
            )
    assert total == 1
    assert missed <= 1 - Fraction(level)


def is_missed(seen, rest, truths, *, level, missing, least_right):
    """Whether a bound misses; the first *missing* of those drawn have no answer."""
    k, n, table, gone = [0, 0, 0], [0, 0, 0], np.zeros((3, 3), dtype=int), [0, 0, 0]
    for (label, said, again), number in seen.items():
        n[label] += number
        k[label] += number * (said == label)
        taken = min(number, missing - sum(gone))
        gone[label] += taken
        table[label, again] += number - taken
    for (label, said), number in rest.items():
        n[label] += number
        k[label] += number * (said == label)
    found = noise_aware(
        k[:2],
        n[:2],
        table,
        level,
        others=n[2],
        unanswered=gone,
        least_right=least_right,
    )
    low, high = found.classes
    is_held = all(low[c] <= truths[c] <= high[c] for c in range(2))
    mean = sum(truths) / 2
    return not (is_held and found.balanced.low <= mean <= found.balanced.high)


def test_the_prefix_whose_gaps_cost_least_is_counted():
    def best(*answered):
        return cheapest_prefix(answered, 0.05)

    assert best() == best(False, False) == 0
    assert best(*[True] * 5) == 5
    assert best(*[True] * 200, *[False] * 100) == 200
    # Five that nobody can answer do not hold up the others.
    assert best(*[True] * 40, *[False] * 5, *[True] * 155) == 200
    assert best(*[True] * 40, *[False] * 5, *[True] * 5) == 40


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        # Of each answer in the order of the draw: trusted, untrusted or none.
        ("t" * 100, (100, True)),
        ("t" * 100 + "u", (100, True)),
        ("u" + "t" * 100, (101, True)),
        ("u" * 20 + "t" * 200, (220, False)),
        ("t" + "u" * 200, (201, False)),
        ("u" * 50 + "-", (50, False)),
        ("---", (0, False)),
        ("", (0, False)),
    ],
)
def test_trusted_answers_count_alone_where_they_say_more(answers, expected):
    is_answered = [one != "-" for one in answers]
    is_trusted = [one == "t" for one in answers]
    assert choose_counted(is_answered, is_trusted, 0.05) == expected


def test_what_is_chosen_has_the_lower_bound_if_nothing_differs():
    rng = np.random.default_rng(11)
    for _ in range(200):
        size = rng.integers(1, 60)
        answered = rng.random(size) < rng.random()
        trusted = answered & (rng.random(size) < rng.random())
        counted, only_trusted = choose_counted(answered, trusted, 0.05)
        least = {}
        for name, mask in (("trusted", trusted), ("all", answered)):
            prefix = cheapest_prefix(mask, 0.05)
            gaps = int((~mask[:prefix]).sum())
            bound = label_error_bound(gaps, prefix, 0.05) if prefix else 1.0
            least[name] = prefix, min(1.0, bound * (2 if name == "all" else 1))
        if only_trusted:
            assert trusted.any()
            assert counted == least["trusted"][0]
            assert least["trusted"][1] <= least["all"][1]
        else:
            assert counted == least["all"][0]
            assert not trusted.any() or least["trusted"][1] > least["all"][1]


def test_half_as_trusted_doubles_what_may_be_wrong():
    table = np.array([[495, 5], [5, 495]])
    trusted = noise_aware([950, 950], [1000, 1000], table, 0.95)
    other = noise_aware([950, 950], [1000, 1000], table, 0.95, least_right=0.5)
    assert (other.classes.low < trusted.classes.low).all()
    assert (other.classes.high >= trusted.classes.high).all()
    assert other.balanced.low > 0.85
    same = noise_aware([950, 950], [1000, 1000], table, 0.95, unanswered=[0, 0])
    assert same.balanced == trusted.balanced


def multinomial(cells, chances):
    counts = [cells.count(cell) for cell in chances]
    ways = factorial(len(cells)) / prod(map(factorial, counts))
    return ways * prod(p**n for p, n in zip(chances.values(), counts, strict=True))


def test_checks_without_a_mistake_come_close_to_trusting_labels():
    table = np.diag([2000, 2000])
    low, high = noise_aware([4700, 4800], [5000, 5000], table, 0.95).balanced
    assert 0.93 < low < 0.95 < high < 0.97
    none = noise_aware([47, 48], [50, 50], np.zeros((2, 2), dtype=int), 0.95)
    assert none.balanced == (0, 1)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="a row and a column for each of 2"):
        noise_aware([1, 1], [2, 2], [[1]], 0.95)
    with pytest.raises(ValueError, match="must not be more than the labels"):
        noise_aware([1, 1], [2, 2], [[3, 0], [0, 0]], 0.95)
    with pytest.raises(ValueError, match="must not be more than the labels"):
        noise_aware([1, 1], [2, 2], [[1, 0], [0, 0]], 0.95, unanswered=[2, 0])
    with pytest.raises(ValueError, match="least_right must be above 0"):
        noise_aware([1, 1], [2, 2], [[1, 0], [0, 0]], 0.95, least_right=0)
