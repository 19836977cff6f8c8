import json
import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from tracker.stats.evidence.intervals import anytime
from tracker.stats.monitoring.slices import (
    SliceEvidence,
    SliceWatch,
    compare_once,
    judge_slices,
    slice_intervals,
)

NOTHING = SliceEvidence(1500, 3000, 0.0, 0.0, 0.0, 0.0)


def courses(blocks, here, rest):
    """Yield how many are right on both sides of each block, with the chance of it."""
    sides = [
        (n, p) for block in blocks for n, p in zip(block, (here, rest), strict=True)
    ]
    for counts in product(*(range(n + 1) for n, _ in sides)):
        yield (
            counts,
            math.prod(
                binom.pmf(k, n, p) for k, (n, p) in zip(counts, sides, strict=True)
            ),
        )


def after(blocks, counts):
    """Return the evidence about slice a after *blocks* with these right labels."""
    watch = SliceWatch()
    for block, (m, r) in enumerate(blocks):
        right = [index < counts[2 * block] for index in range(m)]
        others = [index < counts[2 * block + 1] for index in range(r)]
        # The last label of the slice ends the block, since only then are there others.
        for is_right in right[:-1]:
            watch.add("a", is_right)
        for is_right in others:
            watch.add("b", is_right)
        watch.add("a", right[-1])
    return watch.evidence()["a"]


def mean_evidence(blocks, here, rest):
    """Return the mean evidence that slice a is worse and better, over all courses."""
    terms = [], []
    for counts, chance in courses(blocks, here, rest):
        evidence = after(blocks, counts)
        terms[0].append(chance * math.exp(evidence.worse))
        terms[1].append(chance * math.exp(evidence.better))
    return math.fsum(terms[0]), math.fsum(terms[1])


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", [0.1, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("blocks", [[(4, 4), (4, 4)], [(4, 30)], [(25, 4)]])
def test_where_nothing_differs_the_evidence_is_on_average_at_most_one(blocks, accuracy):
    worse, better = mean_evidence(blocks, accuracy, accuracy)
    assert 0.1 < worse <= 1
    assert 0.1 < better <= 1


def test_a_slice_that_is_not_worse_gathers_no_evidence_for_it():
    blocks = [(4, 12)]
    assert mean_evidence(blocks, 0.95, 0.7)[0] < 0.9
    assert mean_evidence(blocks, 0.7, 0.95)[1] < 0.9
    assert mean_evidence(blocks, 0.5, 0.95)[0] > 1.5


# Labels of a slice with a tenth of all, beside a rest of 95 %, until it is first
# called worse among 2, 20 and 500 slices; from an independent program.
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("accuracy", "labels"), [(0.85, (94, 142, 202)), (0.75, (37, 51, 69))]
)
def test_a_worse_slice_is_found_after_the_known_number_of_labels(accuracy, labels):
    rng = np.random.default_rng(3)
    thresholds = np.log(np.array([2, 20, 500]) * 2 / 0.05)
    found = np.zeros((40, 3))
    for run in found:
        watch, seen = SliceWatch(), 0
        while not run.all():
            in_slice = rng.random() < 0.1
            if in_slice:
                watch.add("a", bool(rng.random() < accuracy))
                seen += 1
                peak = watch.evidence()["a"].worse_peak
                run[(run == 0) & (peak >= thresholds)] = seen
            else:
                # One rest is as good as many, and none of its evidence is asked for.
                watch.add("b", bool(rng.random() < 0.95))
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (found.mean(axis=0) < 1.15 * np.array(labels) + 2 * error).all()
    assert (found.mean(axis=0) > 0.85 * np.array(labels) - 2 * error).all()


def test_equal_slices_that_are_looked_at_all_the_time_are_hardly_ever_told_apart():
    rng, false = np.random.default_rng(4), 0
    for _ in range(40):
        watch = SliceWatch()
        for value, is_right in zip(
            rng.integers(0, 6, 600).tolist(),
            (rng.random(600) < 0.9).tolist(),
            strict=True,
        ):
            watch.add(str(value), is_right)
        false += any(one.state in {"worse", "better"} for one in judged(watch))
    # At most 5 % are promised; 0.05 and two standard errors.
    assert false / 40 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 40)


@pytest.mark.thorough
@pytest.mark.parametrize("accuracy", [0.6, 0.9, 0.98])
def test_in_a_whole_life_a_false_state_is_rarer_than_the_level(accuracy):
    """A slice that is worse makes no other one worse, and the promise is for life.

    The largest evidence of a life decides, so that its last judgement tells what was
    ever shown in it.
    """
    rng, lives, length, false = np.random.default_rng(6), 150, 1_200, 0
    worst = accuracy - 0.15
    for _ in range(lives):
        watch = SliceWatch()
        values = rng.integers(0, 5, length)
        chances = np.where(values == 0, worst, accuracy)
        for value, is_right in zip(
            values.tolist(), (rng.random(length) < chances).tolist(), strict=True
        ):
            watch.add(str(value), is_right)
        found = watch.evidence()
        states = judge_slices(list(found.values()), 0.95)
        false += any(
            one.state == ("better" if value == "0" else "worse")
            for value, one in zip(found, states, strict=True)
        )
    # At most 5 % are promised; with two standard errors, and it is far from them.
    assert false / lives <= 0.05


def judged(watch):
    return judge_slices(list(watch.evidence().values()), 0.95)


def test_slices_that_fall_together_are_not_told_apart():
    rng, watch = np.random.default_rng(5), SliceWatch()
    for number in range(4000):
        right = rng.random() < (0.98 if number < 2000 else 0.7)
        watch.add("abcd"[number % 4], bool(right))
    assert {one.state for one in judged(watch)} == {"no_difference_shown"}


def test_what_came_before_a_slice_appeared_is_no_evidence_about_it():
    watch = SliceWatch()
    for _ in range(5000):
        watch.add("b", True)
    rng = np.random.default_rng(6)
    for number in range(400):
        watch.add("ab"[number % 2], bool(rng.random() < 0.6))
    assert watch.evidence()["a"].worse_peak < math.log(20)


def test_each_of_the_four_states_is_said():
    rng, watch = np.random.default_rng(7), SliceWatch()
    chances = {"bad": 0.6, "good": 0.995, "usual": 0.9, "rare": 0.9}
    for _ in range(6000):
        value = str(rng.choice(list(chances), p=[0.2, 0.2, 0.595, 0.005]))
        watch.add(value, bool(rng.random() < chances[value]))
    states = dict(zip(watch.evidence(), judged(watch), strict=True))
    assert states["bad"].state == "worse"
    assert states["good"].state == "better"
    assert states["rare"].state == "too_few_labels"
    assert states["usual"].state in {"better", "no_difference_shown"}
    assert states["bad"].high < states["good"].low


def test_rejections_follow_holm_on_the_peaks():
    enough = [math.log(2 * 3 / 0.05), math.log(5 / 0.05), math.log(4 / 0.05)]
    slices = [SliceEvidence(1500, 3000, 0, 0, peak + 1e-9, 0) for peak in enough]
    assert {one.state for one in judge_slices(slices, 0.95)} == {"worse"}
    # Without the first, the second would have had to pass its threshold.
    slices[0] = NOTHING
    assert {one.state for one in judge_slices(slices, 0.95)} == {"no_difference_shown"}


def test_likely_follows_e_bh_on_the_evidence_of_this_moment():
    half = math.log(2 * 3 / (0.05 * 2)) + 1e-9
    two = [
        SliceEvidence(1500, 3000, half, -9, 0, 0),
        SliceEvidence(1500, 3000, -9, half, 0, 0),
        NOTHING,
    ]
    found = judge_slices(two, 0.95)
    assert [one.likely for one in found] == ["worse", "better", None]
    assert {one.state for one in found} == {"no_difference_shown"}
    alone = judge_slices([two[0], NOTHING, NOTHING], 0.95)
    assert [one.likely for one in alone] == [None] * 3


def test_of_two_verdicts_of_one_life_the_present_evidence_counts():
    found = judge_slices([SliceEvidence(1500, 3000, 2, 9, 20, 20)], 0.95)
    assert found[0].state == "better"
    found = judge_slices([SliceEvidence(1500, 3000, 9, 2, 20, 20)], 0.95)
    assert found[0].state == "worse"


def test_room_for_more_slices_asks_for_more_evidence_and_wider_intervals():
    strong = [SliceEvidence(1500, 3000, 0, 0, math.log(2 / 0.05) + 1e-9, 0)]
    one = judge_slices(strong, 0.95)[0]
    many = judge_slices(strong, 0.95, room_for=500)[0]
    assert one.state == "worse"
    assert many.state == "no_difference_shown"
    assert many.low < one.low < one.high < many.high


def test_intervals_of_all_slices_have_the_known_widths():
    for slices, widths in [(1, (0.28, 0.14)), (20, (0.36, 0.17)), (500, (0.42, 0.21))]:
        interval = slice_intervals([45, 180], [50, 200], 0.95, slices=slices)
        assert interval.high - interval.low == pytest.approx(widths, abs=6e-3)
    alone = slice_intervals(45, 50, 0.95, slices=1)
    assert alone == anytime(45, 50, 0.95)


def test_a_label_changes_the_state_of_its_own_slice_alone():
    rng, watch = np.random.default_rng(8), SliceWatch()
    for number in range(3000):
        watch.add(str(number % 50), bool(rng.random() < 0.9))
    before = json.loads(json.dumps(watch.dump()))["slices"]
    watch.add("7", False)
    after = watch.dump()["slices"]
    assert {value for value in after if after[value] != before[value]} == {"7"}


def test_a_watch_that_is_stored_after_every_label_goes_on_to_the_last_bit():
    rng = np.random.default_rng(9)
    straight, stored = SliceWatch(), SliceWatch()
    for _ in range(400):
        value, is_right = str(rng.integers(0, 3)), bool(rng.random() < 0.8)
        straight.add(value, is_right)
        stored.add(value, is_right)
        assert straight.dump() == stored.dump()
        stored = SliceWatch(json.loads(json.dumps(stored.dump())))
    assert straight.evidence() == stored.evidence()


def test_no_slice_at_all_is_judged_as_nothing():
    assert judge_slices([], 0.95) == []


@pytest.mark.thorough
def test_many_blocks_at_once_give_the_bits_of_each_by_itself() -> None:
    rng = np.random.default_rng(11)
    at_once, one_by_one = SliceWatch(), SliceWatch()
    for value, right in zip(
        rng.choice(list("abcde"), 6_000).tolist(),
        (rng.random(6_000) < 0.9).tolist(),
        strict=True,
    ):
        at_once.add(value, right)
        one_by_one.add(value, right)
        one_by_one.evidence()

    assert at_once.dump() == one_by_one.dump()


def test_a_slice_that_is_restored_alone_goes_on_as_before() -> None:
    rng = np.random.default_rng(12)
    labels = list(
        zip(
            rng.choice(list("abc"), 900).tolist(),
            (rng.random(900) < 0.8).tolist(),
            strict=True,
        )
    )
    whole, part = SliceWatch(), SliceWatch()
    for value, right in labels[:600]:
        whole.add(value, right)
    kept = json.loads(json.dumps(whole.dump()))
    part = SliceWatch({"all": kept["all"], "slices": {}})
    for value, right in labels[600:]:
        whole.add(value, right)
        if value not in part:
            part.restore(value, kept["slices"][value])
        part.add(value, right)

    assert part.dump() == whole.dump()


@pytest.mark.parametrize("accuracy", [0.3, 0.8, 0.97])
@pytest.mark.parametrize(("m", "r"), [(4, 4), (5, 30), (30, 6)])
def test_a_single_look_at_equal_slices_has_a_mean_evidence_of_at_most_one(
    accuracy: float, m: int, r: int
) -> None:
    terms = []
    for k, rest in product(range(m + 1), range(r + 1)):
        chance = binom.pmf(k, m, accuracy) * binom.pmf(rest, r, accuracy)
        evidence = compare_once([k, rest], [m, r])[0]
        terms.append(
            (chance * math.exp(evidence.worse), chance * math.exp(evidence.better))
        )

    assert max(math.fsum(column) for column in zip(*terms, strict=True)) <= 1 + 1e-12
