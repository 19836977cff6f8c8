"""Where every query gets its label, the verdict goes by those that have none, too."""

import random
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests.conftest import IS_LONG, START, Clock
from tests.services.conftest import Bench
from tests.services.test_calendar import aim, told
from tracker.services.deciding.planning import price_audit
from tracker.services.estimates.intervals import Claim
from tracker.services.estimates.measures import add_measure, list_precisions
from tracker.services.estimates.missing import bound_each_missing, bound_missing
from tracker.services.estimates.report import Reports
from tracker.services.evidence.measure import Measure
from tracker.storage.database import Database
from tracker.storage.estimates.projections import CALENDAR, load_by_name

LIVES = 40 if IS_LONG else 3


def queries(number: int, wrong: int, name: str = "") -> list[dict[str, Any]]:
    """Queries of two classes in turn, of which the last ones are wrong."""
    rows = []
    for place in range(number):
        label, other = ("YES", "NO") if place % 2 else ("NO", "YES")
        said = label if place < number - wrong else other
        rows.append({"key": f"{name}{place}", "predicted": said, "label": label})
    return rows


def log(bench: Bench, rows: list[dict[str, Any]], **more: Any) -> None:
    bench.log_all(
        {"key": one["key"], "predicted": one["predicted"]} | more for one in rows
    )


def give(bench: Bench, rows: list[dict[str, Any]], **more: Any) -> None:
    bench.log_all({"key": one["key"], "label": one["label"]} | more for one in rows)


def kept(bench: Bench) -> tuple[float, float]:
    """Return what metrics and telemetry compare with the target."""
    with bench.database.read() as session:
        (states,) = load_by_name(session, [bench.detector.id], CALENDAR).values()
    return states[""]["low"], states[""]["high"]


def sentence(bench: Bench) -> str:
    with bench.database.read() as session:
        detector = bench.attached(session)
        (report,) = Reports().list(session, [detector], at=bench.clock())
        return report.sentence


def test_the_right_ones_labelled_first_do_not_meet_a_target(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.8, label_sampling="all")
    rows = queries(400, 120)
    log(bench, rows)
    give(bench, rows[:260])
    recompute()

    estimate = bench.estimate()
    found = estimate.decision
    assert found.verdict == "undecided"
    assert found.because == "140 queries have no label yet"
    assert found.low < 0.8 < found.high
    assert found.labels_to_decide == 140
    assert found.advice.text == "140 queries have no label yet: label these first."
    with bench.database.read() as session:
        # An audit of some of them would decide nothing.
        assert price_audit(session, bench.attached(session), estimate) == estimate
    assert sentence(bench).endswith(
        "Target 80 %: not decided yet, for 140 queries have no label yet."
    )
    assert kept(bench) == (found.low, found.high)
    assert told(bench, "verdict.") == []
    # Were they drawn at random, it would be met.
    aim(bench, label_sampling="random")
    assert bench.estimate().decision.verdict == "met"

    aim(bench, label_sampling="all")
    give(bench, rows[260:])
    recompute()
    found = bench.estimate(method="anytime")
    assert found.decision.verdict == "missed"
    assert found.decision.because is None
    assert found.decision.high == found.balanced.high
    assert told(bench, "verdict.")[-1].data["verdict"] == "missed"
    assert kept(bench) == (found.decision.low, found.decision.high)


def test_queries_of_today_do_not_end_a_verdict(
    bench: Bench, recompute: Callable[[], None], clock: Clock
) -> None:
    aim(bench, target=0.85, label_sampling="all")
    for day in range(5):
        clock.at = START + timedelta(days=day)
        rows = queries(100, 4, f"{day}.")
        log(bench, rows)
        clock.at += timedelta(hours=3)
        give(bench, rows)
    clock.at = START + timedelta(days=5)
    log(bench, queries(300, 0, "today "))
    recompute()

    found = bench.estimate(method="anytime")
    assert found.decision.verdict == "met"
    assert found.decision.span.until == (START + timedelta(days=4)).date()
    assert found.span == found.decision.span
    assert found.labels == found.decision.labels == 500
    assert found.unclear_bounds is None
    assert "; asked until 4 Feb 2026." in found.basis
    # Of all labels of the version they are missing.
    assert bench.estimate().unclear_bounds.unlabelled == 300
    # Nobody labels on: days later the same is said as of what was kept.
    clock.at = START + timedelta(days=7)
    assert bench.estimate(method="anytime").decision == found.decision
    assert kept(bench) == (found.decision.low, found.decision.high)
    # With the next label the others are no longer of the day of the last one.
    give(bench, queries(1, 0, "today "))
    for _ in range(2):
        found = bench.estimate(method="anytime").decision
        assert (found.verdict, found.span.until) == ("undecided", None)
        assert found.because == "299 queries have no label yet"
        recompute()
    assert kept(bench) == (found.low, found.high)


def test_new_queries_without_a_label_move_what_is_kept(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.85, label_sampling="all")
    rows = queries(400, 8)
    log(bench, rows)
    give(bench, rows)
    recompute()
    assert kept(bench)[0] > 0.85
    log(bench, queries(200, 0, "new "))
    recompute()
    found = bench.estimate().decision
    assert (found.verdict, kept(bench)) == ("undecided", (found.low, found.high))
    # What was told stands, while the labels that there are support it.
    assert [one.data["verdict"] for one in told(bench, "verdict.")] == ["met"]


@pytest.mark.parametrize("sampling", ["targeted", None])
def test_a_label_that_does_not_count_is_missing(
    bench: Bench, sampling: str | None
) -> None:
    aim(bench, target=0.8, label_sampling="all")
    rows = queries(400, 120)
    log(bench, rows)
    give(bench, rows[:280])
    if sampling is None:
        aim(bench, labels_wanted=2)
        give(bench, rows[280:], labeler="ann")
        aim(bench, labels_wanted=1)
    else:
        give(bench, rows[280:], sampling=sampling)
    found = bench.estimate().decision
    assert (found.verdict, found.labels) == ("undecided", 280)
    assert found.because == "120 queries have no label yet"


def test_of_groups_those_without_an_answer_are_missing(bench: Bench) -> None:
    aim(bench, target=0.8, label_sampling="all")
    rows = [one | {"group": f"g{one['key']}"} for one in queries(400, 120)]
    for frame in ("a", "b"):
        bench.log_all(
            {
                "key": one["key"] + frame,
                "predicted": one["predicted"],
                "group": one["group"],
            }
            for one in rows
        )
    give(bench, [{**one, "key": f"{one['key']}a"} for one in rows[:280]])
    found = bench.estimate().decision
    # Each of the others has two queries, of which either may be the one that counts.
    assert (found.verdict, found.because) == (
        "undecided",
        "240 queries have no label yet",
    )
    give(bench, [{**one, "key": f"{one['key']}b"} for one in rows[280:]])
    assert bench.estimate().decision.verdict == "missed"


def test_a_verdict_of_once_is_not_given(bench: Bench, clock: Clock) -> None:
    aim(bench, target=0.8, label_sampling="all")
    bench.log_all(queries(400, 0))
    assert bench.estimate().decision.verdict == "met"
    found = bench.estimate(as_known_at=clock()).decision
    assert found.verdict == "undecided"
    assert "nobody knows how many" in found.because


@pytest.mark.parametrize(
    "measure", ["balanced", "overall", "recall:NO", "precision:NO"]
)
def test_all_that_the_deciding_method_says_is_bounded(
    bench: Bench, measure: str
) -> None:
    """The published methods are of the labels that there are."""
    aim(bench, target=0.8, label_sampling="all", measure=measure)
    rows = queries(400, 120)
    log(bench, rows)
    give(bench, rows[:260])

    found = bench.estimate(method="anytime")
    assert found.decision is not None
    said = add_measure(found, measure).measured
    assert said is not None
    assert (said.low, said.high) == (found.decision.low, found.decision.high)
    published = bench.estimate(method="exact")
    both = found, published
    deciding, once = ([*one.classes, *list_precisions(one)] for one in both)
    assert max(one.low for one in deciding) < 0.7
    assert min(one.low for one in once) > 0.97
    precise = add_measure(found, "precision").precision
    assert precise is not None
    pairs = zip(precise.classes, list_precisions(found), strict=True)
    assert all((one.low, one.high) == (other.low, other.high) for one, other in pairs)


@pytest.mark.parametrize("kind", ["recall", "precision"])
def test_the_bounds_of_many_classes_are_those_of_each_in_less_time(
    kind: str,
) -> None:
    rng = random.Random(kind)
    names = [f"part {number}" for number in range(100)]
    missing = {None: 7, **{name: rng.randint(0, 9) for name in names}}
    counts = [(rng.randint(0, 9_000), rng.randint(0, 900)) for _ in names]
    claims = [Claim((k,), (k + more,), None, 0.95) for k, more in counts]
    measures = [Measure(kind, name) for name in names]
    begun = time.process_time()
    found = bound_each_missing(claims, measures, names, missing)
    at_once = time.process_time()
    each = [
        bound_missing(one._replace(level=0.95 + 1e-9), measure, names, missing)
        for one, measure in zip(claims, measures, strict=True)
    ]
    one_by_one = time.process_time()
    assert np.allclose(found, each, atol=1e-6)
    assert found == [
        bound_missing(one, measure, names, missing)
        for one, measure in zip(claims, measures, strict=True)
    ]
    assert 2 * (at_once - begun) < one_by_one - at_once


@pytest.mark.slow
@pytest.mark.longer
@pytest.mark.parametrize(
    ("accuracy", "target", "first", "false"),
    [(0.86, 0.9, "right", "met"), (0.94, 0.9, "wrong", "missed")],
)
@pytest.mark.parametrize(
    "measure", ["balanced", "overall", "recall:YES", "precision:NO"]
)
def test_no_order_of_labels_makes_a_false_verdict(
    database: Database,
    clock: Clock,
    recompute: Callable[[], None],
    measure: str,
    accuracy: float,
    target: float,
    first: str,
    false: str,
) -> None:
    """Lives in which the right ones, or the wrong ones, get their labels first.

    At each look the verdict and the events are right; by the labels alone most lives
    would have a false one.
    """
    by_labels = by_bounds = 0
    for seed in range(LIVES):
        chance = random.Random(seed)
        bench = Bench(database, clock, ["YES", "NO"], name=f"{first} {seed}")
        aim(bench, target=target, label_sampling="all", measure=measure)
        rows = queries(400, 0)
        for one in rows:
            if chance.random() > accuracy:
                one["predicted"] = "NO" if one["label"] == "YES" else "YES"
        log(bench, rows)
        rows.sort(
            key=lambda one: (
                (one["predicted"] == one["label"]) is (first == "wrong"),
                chance.random(),
            )
        )
        said = set()
        for start, end in pairwise((0, 60, 260, 400)):
            give(bench, rows[start:end])
            recompute()
            said.add(bench.estimate().decision.verdict)
            aim(bench, label_sampling="random")
            said.add("by labels " + bench.estimate().decision.verdict)
            aim(bench, label_sampling="all")
        low, high = kept(bench)
        assert low <= target or accuracy > target
        assert high >= target or accuracy < target
        by_labels += f"by labels {false}" in said
        by_bounds += false in said
    assert by_bounds == 0
    assert not [one for one in told(bench, "verdict.") if one.data["verdict"] == false]
    assert by_labels > LIVES / 2


def put(bench: Bench, version: str, rows: list[dict[str, Any]], wrong: range) -> None:
    bench.log_all(
        {
            "version": version,
            "input": one["key"],
            "predicted": one["label"]
            if place not in wrong
            else ("NO" if one["label"] == "YES" else "YES"),
        }
        for place, one in enumerate(rows)
    )


@pytest.mark.parametrize("measure", ["balanced", "overall"])
def test_a_version_is_not_better_by_the_labels_that_came_first(
    bench: Bench, measure: str
) -> None:
    """The old version is wrong where labels come first, and the new one elsewhere."""
    aim(bench, label_sampling="all", measure=measure)
    rows = queries(400, 0)
    put(bench, "v1", rows, range(60))
    put(bench, "v2", rows, range(300, 400))
    bench.say("v2")

    def label(some: list[dict[str, Any]]) -> None:
        bench.log_all({"input": one["key"], "label": one["label"]} for one in some)

    label(rows[:200])
    found = bench.compare(old="v1", new="v2")
    assert found.verdict == "undecided"
    assert found.sentence.endswith(", whatever the label of 200 inputs will be.")
    aim(bench, label_sampling="random")
    assert bench.compare(old="v1", new="v2").verdict == "better"
    aim(bench, label_sampling="all")
    label(rows[200:])
    found = bench.compare(old="v1", new="v2")
    assert found.verdict != "better"
    assert "whatever" not in found.sentence


def test_a_replay_is_bounded_by_what_the_other_version_has_no_label_of(
    bench: Bench,
) -> None:
    aim(bench, target=0.8, label_sampling="all")
    rows = queries(400, 0)
    put(bench, "v1", rows, range(0))
    with_label = [{"input": one["key"], "label": one["label"]} for one in rows]
    bench.log_all(with_label[:280])
    put(bench, "v2", rows[:280], range(0))
    bench.say("v2")
    found = bench.estimate(version="v2").decision
    assert found.verdict == "undecided"
    assert found.because == "120 queries have no label yet"
    bench.log_all(with_label[280:])
    put(bench, "v2", rows[280:], range(0))
    assert bench.estimate(version="v2").decision.verdict == "met"
