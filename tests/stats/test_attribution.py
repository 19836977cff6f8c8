"""What moved a judged rate, in simulated worlds and by exact sums."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import multinomial

from tracker.stats import anchored_shift, investigation_level, is_shown, mix_shift

SOURCES = ("judge", "system", "mix", "truth")


class World:
    """A stream of inputs, two systems and two judges; easy inputs are right oftener."""

    def __init__(self, rng, *, moved=None, size=4_000, by=0.12):
        self.rng, self.size = rng, size
        easy = 0.5 + by * 2 * (moved == "mix")
        self.then, self.now = self.week(0.5), self.week(easy)
        worse = by if moved == "system" else 0.0
        strict = by if moved == "judge" else 0.0
        self.systems = {"old": 0.0, "new": worse}
        self.judges = {"old": 0.0, "new": strict}

    def week(self, easy):
        # An input: how hard it is, and its luck with system and judge, which stays.
        is_easy = self.rng.random(self.size) < easy
        base = np.where(is_easy, 0.98, 0.72)
        return base, self.rng.random(self.size), self.rng.random(self.size)

    def truth(self, week, system, at=slice(None)):
        base, luck, _ = (one[at] for one in week)
        return luck < base - self.systems[system]

    def judged(self, week, system, judge, at=slice(None)):
        right = self.truth(week, system, at)
        _, _, luck = (one[at] for one in week)
        # It misses 10 % of the mistakes, and fails some right ones.
        return np.where(right, luck > 0.05 + self.judges[judge], luck < 0.1)


def investigate(world, anchors, number=1, confidence_level=0.95):
    at = world.rng.integers(0, world.size, anchors)
    level = investigation_level(confidence_level, number)
    j0 = world.judged(world.then, "old", "old", at).astype(int)
    j1 = world.judged(world.then, "old", "new", at).astype(int)
    j2 = world.judged(world.then, "new", "new", at).astype(int)
    y0 = world.truth(world.then, "old", at).astype(int)
    y2 = world.truth(world.then, "new", at).astype(int)
    found = {}
    pairs = {"judge": j1 - j0, "system": j2 - j1, "mix": j2 - j0, "truth": y2 - y0}
    for name, one in pairs.items():
        count = Counter(one.tolist())
        found[name] = anchored_shift(count[1], count[-1], 0, anchors, level)
    now = int(world.judged(world.now, "new", "new").sum()), world.size
    then = int(world.judged(world.then, "old", "old").sum()), world.size
    found["mix"] = mix_shift(now, then, found["mix"])
    return found


@pytest.mark.parametrize("moved", ["system", "judge", "mix"])
def test_what_alone_moved_is_named_and_nothing_else(moved):
    for seed in range(5):
        found = investigate(World(np.random.default_rng(seed), moved=moved), 400)
        shown = {name for name, interval in found.items() if is_shown(interval)}
        assert shown == ({"system", "truth"} if moved == "system" else {moved}), seed


@pytest.mark.slow
def test_nothing_is_named_where_nothing_moved():
    # A low level, so that errors could be seen: each interval may err in an eighth.
    named, replays = Counter(), 200
    for seed in range(replays):
        world = World(np.random.default_rng(1_000 + seed))
        found = investigate(world, 200, confidence_level=0.5)
        named["any"] += any(is_shown(interval) for interval in found.values())
    assert named["any"] / replays <= 0.25 + 2 * math.sqrt(0.25 * 0.75 / replays)


@pytest.mark.parametrize(
    ("anchors", "flips"),
    [
        pytest.param(100, 0.02, marks=pytest.mark.slow),
        pytest.param(200, 0.02, marks=pytest.mark.thorough),
    ],
)
def test_an_effect_at_the_edge_is_rarely_shown_by_exact_sums(anchors, flips):
    level = investigation_level(0.95, 1)
    chances = [flips / 2, flips / 2 + 0.01, 1 - flips - 0.01]
    wrong = 0.0
    for gained in range(12):
        for lost in range(30):
            counts = [gained, lost, anchors - gained - lost]
            chance = multinomial.pmf(counts, anchors, chances)
            if chance > 1e-9:
                high = anchored_shift(gained, lost, 0, anchors, level)[1]
                wrong += chance * (high < -0.01)
    assert wrong <= 0.05 / 16


def test_investigations_share_the_error_for_ever():
    levels = [investigation_level(0.95, number) for number in range(1, 2_000)]
    assert sum(4 * (1 - level) for level in levels) <= 0.05
    assert levels[0] == pytest.approx(1 - 0.05 / 8)
    assert levels == sorted(levels)
    with pytest.raises(ValueError, match="number"):
        investigation_level(0.95, 0)


def test_anchors_that_are_not_known_count_as_either():
    known = anchored_shift(3, 20, 0, 200, 0.99)
    open_ones = anchored_shift(3, 20, 10, 200, 0.99)
    assert open_ones[0] < known[0] < known[1] < open_ones[1]
    for gained in range(11):
        one = anchored_shift(3 + gained, 30 - gained, 0, 200, 0.99)
        assert open_ones[0] <= one[0] + 1e-6
        assert one[1] <= open_ones[1] + 1e-6
    assert anchored_shift(0, 0, 5, 5, 0.99) == (-1.0, 1.0)
    # Far out another exact method answers at once.
    low, high = anchored_shift(3, 20, 0, 200, 1 - 1e-8)
    assert low < known[0] < known[1] < high


def test_the_mix_is_what_is_left_rounded_outward():
    low, high = mix_shift((1, 3), (2, 3), (-0.1, 0.25))
    assert low <= -1 / 3 - 0.25 <= low + 1e-12
    assert high - 1e-12 <= -1 / 3 + 0.1 <= high
    assert mix_shift((0, 1), (1, 1), (-1.0, 1.0)) == (-1.0, pytest.approx(0.0))
