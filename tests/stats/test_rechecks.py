"""Accuracies by the truth from labels given twice, against enumeration in fractions."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from tracker.stats import Cell, Drawn, draw_times, label_error_bound, recheck_accuracies

# What each query of a world is: said, first label, truth; None is UNCLEAR, and 2 is
# said where the detector gave no answer.
Query = tuple[int, int | None, int | None]


def set_of(world: list[Query]) -> tuple[tuple[Cell, ...], dict]:
    sizes = Counter((said, first) for said, first, _ in world)
    cells = tuple(Cell(*cell, number) for cell, number in sizes.items())
    return cells, {cell: place for place, cell in enumerate(sizes)}


def truths(world: list[Query], classes: int) -> tuple[list[float], float, float]:
    clear = [(said, truth) for said, _, truth in world if truth is not None]
    right = [said == truth for said, truth in clear]
    by_class = [
        [said == truth for said, truth in clear if truth == name]
        for name in range(classes)
    ]
    means = [float(np.mean(one)) if one else math.nan for one in by_class]
    return [*means, float(np.mean(right))], float(np.mean(means)), 1 - wrong(world)


def wrong(world: list[Query]) -> float:
    return float(np.mean([first != truth for _, first, truth in world]))


def missed(world: list[Query], draws: tuple[Drawn, ...], level: float) -> np.ndarray:
    """Return which bounds miss: the classes, overall, balanced and label errors."""
    cells, _ = set_of(world)
    found = recheck_accuracies(2, cells, (), draws, level)
    measures, balanced, _ = truths(world, 2)
    off = [
        not low - 1e-12 <= value <= high + 1e-12
        for value, low, high in zip(
            [*measures, balanced],
            [*found.measures.low, found.balanced.low],
            [*found.measures.high, found.balanced.high],
            strict=True,
        )
        if not math.isnan(value)
    ]
    above = wrong(world) > label_error_bound(cells, (), draws, level) + 1e-12
    return np.array([*off, above])


WORLDS = {
    "a good first labeler": [(0, 0, 0)] * 3 + [(0, 1, 1), (1, 1, 1), (1, 0, 1)],
    "wrong where the detector is": [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)],
    "inverted": [(0, 1, 0), (0, 1, 0), (1, 0, 1), (1, 0, 1), (0, 0, 1)],
    "unclear": [(0, None, 0), (0, 0, None), (1, 1, 1), (1, None, None), (0, 0, 1)],
    "no answer": [(0, 0, 0), (2, 0, 0), (2, 0, 1), (1, 1, 1), (2, None, 1)],
}


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("level", [0.5, 0.8])
def test_the_chance_of_ever_missing_is_bounded_for_every_order(name, level):
    world = WORLDS[name]
    _, places = set_of(world)
    ever = [Fraction(0)] * 5

    def go_on(left: Counter, draws: tuple[Drawn, ...], chance: Fraction, seen) -> None:
        if draws:
            seen = seen | missed(world, draws, level)
        if not left:
            for place, is_missed in enumerate(seen):
                ever[place] += chance * bool(is_missed)
            return
        mass = {one: (1 if one[0] == one[1] else 3) * n for one, n in left.items()}
        total = sum(mass.values())
        for one, weight in mass.items():
            rest = left - Counter([one])
            drawn = Drawn(places[one[:2]], one[2])
            go_on(rest, (*draws, drawn), chance * Fraction(weight, total), seen)

    go_on(Counter(world), (), Fraction(1), np.zeros(5, dtype=bool))
    assert max(ever) <= 1 - Fraction(str(level))


def test_the_next_label_is_drawn_with_its_chance_and_own_clocks_are_random():
    drawn, own = Counter(), Counter()
    for seed in range(4_000):
        times = [
            draw_times(seed.to_bytes(4, "big"), str(n), differs=n < 2) for n in range(6)
        ]
        assert all(clock >= time for clock, time in times)
        assert all(clock == time for clock, time in times[2:])
        order = sorted(range(6), key=lambda n: times[n][1])
        drawn[order[0] < 2] += 1
        reached = times[order[2]][1]
        own.update(n for n in range(6) if times[n][0] <= reached)
    # 2 of weight 3 among 4 of weight 1.
    assert drawn[True] / 4_000 == pytest.approx(0.6, abs=0.03)
    differing, agreeing = (own[0] + own[1]) / 2, sum(own[n] for n in range(2, 6)) / 4
    assert differing / 4_000 == pytest.approx(agreeing / 4_000, abs=0.03)


@pytest.mark.parametrize("name", ["unclear", "no answer"])
def test_all_labels_given_again_are_the_accuracy_itself(name):
    world = WORLDS[name] * 9
    cells, places = set_of(world)
    draws = tuple(Drawn(places[one[:2]], one[2]) for one in world)
    found = recheck_accuracies(2, cells, (), draws, 0.95)
    measures, balanced, _ = truths(world, 2)
    # Bounds stand on a grid.
    width = 1e-5
    assert found.measures.low == pytest.approx(measures, abs=width)
    assert found.measures.high == pytest.approx(measures, abs=width)
    assert (found.measures.low <= measures).all()
    assert (found.measures.high >= measures).all()
    assert float(found.balanced.low) == pytest.approx(balanced, abs=width)
    assert float(found.balanced.high) == pytest.approx(balanced, abs=width)
    high = label_error_bound(cells, (), draws, 0.95)
    assert wrong(world) <= high <= wrong(world) + width
    # So does every label that was there before the first draw.
    known = tuple((one, 1) for one in draws)
    again = recheck_accuracies(2, cells, known, (), 0.95).measures
    assert again.low == pytest.approx(found.measures.low)
    assert again.high == pytest.approx(found.measures.high)


def tail(least: int, trials: int, chance: Fraction) -> Fraction:
    """Return the chance of *least* or more right ones."""
    return sum(
        (
            math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k)
            for k in range(least, trials + 1)
        ),
        Fraction(0),
    )


def test_the_process_is_bounded_from_the_count_of_the_set():
    world = [(0, 0, 0)] * 20 + [(0, 1, 1)] * 3 + [(1, 1, None)] * 2
    cells, places = set_of(world)
    draws = tuple(Drawn(places[one[:2]], one[2]) for one in world)
    found = recheck_accuracies(2, cells, (), draws, 0.95).process
    # Of 25 exactly 20 are right; UNCLEAR is not.  Each tail has a tenth of 5 %.
    tenth, a_little = Fraction(5, 1000), Fraction(1, 10**6)
    low, high = Fraction(float(found.low)), Fraction(float(found.high))
    assert tail(20, 25, low) <= tenth <= tail(20, 25, low + a_little)
    assert 1 - tail(21, 25, high) <= tenth <= 1 - tail(21, 25, high - a_little)


def replay(
    queries: int, draws: int, error: float, seed: int
) -> tuple[list[Query], tuple[Drawn, ...]]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, queries)
    said = np.where(rng.random(queries) < 0.9, truth, 1 - truth)
    first = np.where(rng.random(queries) < error, 1 - truth, truth)
    world = [*zip(said.tolist(), first.tolist(), truth.tolist(), strict=True)]
    return world, drawn_of(world, draws, seed)


def drawn_of(world: list[Query], draws: int, seed: int) -> tuple[Drawn, ...]:
    _, places = set_of(world)
    key = seed.to_bytes(4, "big")
    times = [
        draw_times(key, str(n), differs=one[0] != one[1])[1]
        for n, one in enumerate(world)
    ]
    order = sorted(range(len(world)), key=times.__getitem__)[:draws]
    return tuple(Drawn(places[world[n][:2]], world[n][2]) for n in order)


@pytest.mark.parametrize(
    ("error", "overall"), [(0, 0.04), (0.02, 0.055), (0.05, 0.065)]
)
def test_two_hundred_of_a_thousand_tell_the_accuracy_within_a_few_points(
    error, overall
):
    widths = []
    for seed in range(5):
        world, draws = replay(1_000, 200, error, seed)
        cells, _ = set_of(world)
        found = recheck_accuracies(2, cells, (), draws, 0.95)
        widths.append(float(found.measures.high[2] - found.measures.low[2]))
        # The process may differ from the set by chance.
        assert found.process.low < found.measures.low[2]
        assert found.process.high > found.measures.high[2]
    assert np.median(widths) <= overall


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["good", "as the detector", "inverted"])
def test_bounds_miss_no_more_often_than_they_may(kind):
    misses, replays = np.zeros(5), 100
    for seed in range(replays):
        world, _ = replay(150, 0, 0.03, seed)
        if kind == "as the detector":
            world = [(said, said, truth) for said, _, truth in world]
        if kind == "inverted":
            world = [(said, 1 - first, truth) for said, first, truth in world]
        misses += missed(world, drawn_of(world, 60, seed), 0.8)
    assert (misses / replays <= 0.2 + 2 * math.sqrt(0.16 / replays)).all()
