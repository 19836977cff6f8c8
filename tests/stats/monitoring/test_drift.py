import json
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tracker.stats.monitoring.drift import BalancedWatch, ClassWatch

NEVER = 1e300


def mean_evidence(watch):
    """Return the sum over classes of the mean evidence, exactly."""
    state = watch.dump()
    parts = (
        [row[1] for row in state["classes"]]
        if "classes" in state
        else [state["evidence"][0]]
    )
    return sum(sum(map(Fraction, sums)) / len(sums) for sums in parts if sums)


def weighted_courses(chances):
    """Yield every course of right and wrong labels with its exact chance."""
    for course in product([False, True], repeat=len(chances)):
        weight = Fraction(1)
        for is_right, chance in zip(course, chances, strict=True):
            weight *= chance if is_right else 1 - chance
        yield course, weight


@pytest.mark.parametrize("direction", ["fall", "rise"])
@pytest.mark.parametrize("reference", [0.95, 0.5, 0.1])
def test_without_a_change_the_evidence_is_on_average_at_most_the_labels(
    reference, direction
):
    classes = (0, 1, 1, 0, 1, 0, 1, 1)
    p = Fraction(reference)
    total = sum(
        weight * mean_evidence(followed(course, classes, reference, direction))
        for course, weight in weighted_courses([p] * 8)
    )
    assert Fraction(999_999, 10**6) * 8 < total <= 8


def followed(course, classes, reference, direction):
    watch = ClassWatch([reference] * 2, direction=direction, mean_run=NEVER)
    for index, is_right in zip(classes, course, strict=True):
        watch.add(index, is_right)
    return watch


def test_chances_that_wander_above_the_reference_gather_less_evidence():
    chances = [Fraction(c, 100) for c in (90, 95, 99, 90, 92, 100, 90, 97)]
    total = sum(
        weight * mean_evidence(followed(course, [0] * 8, 0.9, "fall"))
        for course, weight in weighted_courses(chances)
    )
    assert total < 7


@pytest.mark.parametrize("direction", ["fall", "rise"])
def test_classes_that_make_up_for_each_other_gather_no_balanced_evidence(direction):
    classes = (0, 1, 1, 1, 0, 1, 0, 1, 1, 0)
    chances = (Fraction(1), Fraction(1, 2))
    total = Fraction(0)
    for course, weight in weighted_courses([chances[index] for index in classes]):
        if not weight:
            continue
        watch = BalancedWatch(0.75, (1, 2), direction=direction, mean_run=NEVER)
        for index, is_right in zip(classes, course, strict=True):
            watch.add(index, is_right)
        total += weight * mean_evidence(watch)
    # The last label belongs to a round that has not ended.
    assert Fraction(999_999, 10**6) * 9 < total <= 9


def test_a_bound_for_a_lifetime_is_kept_summed_over_all_courses():
    alarmed, evidence = Fraction(0), Fraction(0)
    for course, weight in weighted_courses([Fraction(9, 10)] * 9):
        watch = ClassWatch([0.9], ever=0.5)
        alarmed += weight * any(watch.add(0, is_right) for is_right in course)
        watch = ClassWatch([0.9], ever=1 / NEVER)
        for is_right in course:
            watch.add(0, is_right)
        evidence += weight * mean_evidence(watch)
    assert Fraction(1, 1000) < alarmed <= Fraction(1, 2)
    allowed = sum(map(lifetime_weight, range(1, 10)))
    assert allowed * (1 - 1e-6) < evidence <= allowed


def lifetime_weight(number):
    return math.log(10) / ((number + 10) * math.log(number + 10) ** 2)


def test_the_weights_of_a_lifetime_add_up_to_less_than_one():
    first = math.fsum(map(lifetime_weight, range(1, 10**5 + 1)))
    # The rest is less than the integral, since the weights fall.
    assert 0.9 < first + math.log(10) / math.log(10**5 + 10) < 1


def labels_to_alarm(watch, rng, chance, most):
    for number, is_right in enumerate((rng.random(most) < chance).tolist(), 1):
        alarm = watch.add(0, is_right)
        if alarm:
            return number, alarm
    raise AssertionError(f"no alarm within {most} labels")


@pytest.mark.parametrize("direction", ["fall", "rise"])
def test_the_mean_run_to_a_false_alarm_is_as_long_as_promised(direction):
    rng = np.random.default_rng(11)
    runs = [
        labels_to_alarm(
            ClassWatch([0.8], direction=direction, mean_run=100), rng, 0.8, 5000
        )[0]
        for _ in range(400)
    ]
    mean, error = np.mean(runs), np.std(runs) / 20
    assert 100 - 2 * error < mean < 200


def test_the_mean_run_of_balanced_rounds_is_as_long_as_promised():
    rng = np.random.default_rng(12)
    runs = []
    while len(runs) < 200:
        watch = BalancedWatch(0.8, (1, 1), mean_run=100)
        for number in range(1, 10_000):
            index = int(rng.random() < 0.3)
            if watch.add(index, rng.random() < (0.9, 0.7)[index]):
                runs.append(number)
                break
    mean, error = np.mean(runs), np.std(runs) / np.sqrt(len(runs))
    assert 100 - 2 * error < mean < 260


@pytest.fixture(scope="module")
def settled():
    """Two hundred watches after a thousand labels at the reference."""
    rng, states = np.random.default_rng(5), []
    while len(states) < 150:
        watch = ClassWatch([0.95])
        if not any(watch.add(0, x) for x in (rng.random(1000) < 0.95).tolist()):
            states.append(watch.dump())
    return states


# Labels of the class from the change to the alarm, from an independent program.
@pytest.mark.thorough
@pytest.mark.parametrize(("after", "labels"), [(0.93, 843), (0.90, 209), (0.85, 78)])
def test_a_drop_is_found_after_the_known_number_of_labels(settled, after, labels):
    rng = np.random.default_rng(6)
    found = [
        labels_to_alarm(ClassWatch([0.95], state=state), rng, after, 20_000)
        for state in settled
    ]
    delays = np.array([delay for delay, _ in found])
    error = delays.std() / np.sqrt(delays.size)
    assert abs(delays.mean() - labels) < 0.1 * labels + 2 * error
    assert delays.mean() < 1.2 * labels
    if after < 0.93:
        off = np.median([abs(alarm.since - 1001) for _, alarm in found])
        assert off < labels / 2


def test_balanced_rounds_find_a_drop_of_both_classes_sooner_than_the_sum():
    rng, delays = np.random.default_rng(8), {"rounds": [], "sum": []}
    for _ in range(80):
        watches = {
            "rounds": BalancedWatch(0.95, (1, 1)),
            "sum": ClassWatch([0.95, 0.95]),
        }
        for name, watch in watches.items():
            for number in range(1, 20_000):
                right = rng.random() < (0.95 if number <= 300 else 0.9)
                if watch.add(int(rng.random() < 0.5), right) and number > 300:
                    delays[name].append(number - 300)
                    break
    assert np.mean(delays["rounds"]) == pytest.approx(236, rel=0.2)
    assert np.mean(delays["sum"]) == pytest.approx(288, rel=0.2)


def test_the_alarm_names_the_class_that_fell_and_the_mark_it_was_given():
    rng = np.random.default_rng(9)
    watch = ClassWatch([0.9, 0.9, 0.9])
    for number in range(3000):
        index = number % 3
        chance = 0.3 if index == 2 and number >= 600 else 0.93
        alarm = watch.add(index, rng.random() < chance, mark=10_000 + number)
        if alarm:
            break
    assert alarm.scope == 2
    assert alarm.label == number + 1
    assert abs(alarm.since - 10_600) < 20


def test_a_rise_is_found_and_a_fall_is_not_taken_for_one():
    rng = np.random.default_rng(10)
    delay, alarm = labels_to_alarm(ClassWatch([0.8], direction="rise"), rng, 0.95, 2000)
    assert delay < 300
    assert alarm.since < 100
    falling = ClassWatch([0.8], direction="rise")
    assert not any(falling.add(0, x) for x in (rng.random(2000) < 0.6).tolist())


@pytest.mark.parametrize(
    "build",
    [
        lambda state: ClassWatch([0.8, 0.7], mean_run=20, state=state),
        lambda state: ClassWatch([0.8, 0.7], ever=0.5, state=state),
        lambda state: BalancedWatch(0.75, (1, 2), mean_run=20, state=state),
        lambda state: BalancedWatch(0.75, (2, 1), ever=0.5, state=state),
    ],
)
def test_a_watch_that_is_stored_after_every_label_goes_on_to_the_last_bit(build):
    rng = np.random.default_rng(13)
    stream = zip(
        rng.integers(0, 2, 600).tolist(), (rng.random(600) < 0.6).tolist(), strict=True
    )
    straight, stored, alarms = build(None), build(None), 0
    for index, is_right in stream:
        alarm = straight.add(index, is_right)
        assert stored.add(index, is_right) == alarm
        alarms += alarm is not None
        assert straight.dump() == stored.dump()
        stored = build(json.loads(json.dumps(stored.dump())))
    assert alarms


def test_what_cannot_be_watched_is_refused():
    with pytest.raises(ValueError, match="not both"):
        ClassWatch([0.9], mean_run=100, ever=0.05)
    with pytest.raises(ValueError, match="mean_run must be at least 1"):
        ClassWatch([0.9], mean_run=0.5)
    with pytest.raises(ValueError, match="ever must be a number between 0 and 1"):
        ClassWatch([0.9], ever=1.0)
    with pytest.raises(ValueError, match="reference must be a number between"):
        ClassWatch([0.9, 1.0])
    with pytest.raises(ValueError, match="direction must be fall or rise"):
        ClassWatch([0.9], direction="down")
    with pytest.raises(ValueError, match="round_of needs two classes"):
        BalancedWatch(0.9, (1, 0))
