"""Estimates from the labels committed so far."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.conftest import START
from tests.services.conftest import Bench
from tracker.errors import InvalidInputError, NotFoundError


def test_the_published_example_comes_out(published: Bench) -> None:
    estimate = published.estimate()

    yes, no = estimate.classes
    assert (yes.correct, yes.labelled, no.correct, no.labelled) == (23, 28, 41, 44)
    assert [round(100 * x, 2) for x in (yes.low, yes.high)] == [63.11, 93.94]
    assert [round(100 * x, 2) for x in (no.low, no.high)] == [81.34, 98.57]
    assert [
        round(100 * x, 2) for x in (estimate.balanced.low, estimate.balanced.high)
    ] == [
        69.96,
        96.91,
    ]
    assert round(estimate.balanced.accuracy or 0, 4) == 0.8766
    assert estimate.confusion == {
        "YES": {"YES": 23, "NO": 5},
        "NO": {"NO": 41, "YES": 3},
    }


@pytest.mark.thorough
def test_the_job_changes_nothing_in_the_estimate(
    published: Bench, recompute: Callable[[], None]
) -> None:
    before = published.estimate()
    recompute()
    after = published.estimate()

    assert (before.classes, before.balanced) == (after.classes, after.balanced)
    assert before.confusion == after.confusion


def test_labels_that_wait_for_the_job_are_added_to_those_folded_in(
    published: Bench, recompute: Callable[[], None]
) -> None:
    recompute()
    query = published.log("YES", "YES")
    published.label(query, "NO")

    estimate = published.estimate()

    assert estimate.labels == 73
    assert estimate.confusion["NO"]["YES"] == 4
    assert estimate.confusion["YES"]["YES"] == 23


def test_without_labels_nothing_is_known(bench: Bench) -> None:
    bench.log("YES")

    estimate = bench.estimate()

    assert estimate.balanced.accuracy is None
    assert (estimate.balanced.low, estimate.balanced.high) == (0.0, 1.0)
    assert [(c.accuracy, c.low, c.high) for c in estimate.classes] == [(None, 0, 1)] * 2


def test_a_class_without_labels_still_bounds_the_balanced_accuracy(
    bench: Bench,
) -> None:
    for _ in range(50):
        bench.log("YES", "YES")

    balanced = bench.estimate().balanced

    assert balanced.accuracy is None
    assert 0.4 < balanced.low < 0.5
    assert balanced.high == 1.0


def test_unclear_labels_are_counted_and_never_scored(bench: Bench) -> None:
    bench.log("YES", "UNCLEAR")
    bench.log("YES", "YES")

    estimate = bench.estimate()

    assert (estimate.labels, estimate.unclear) == (1, 1)


def test_targeted_labels_are_left_out_unless_asked_for(bench: Bench) -> None:
    bench.log("NO", "YES", sampling="targeted")
    bench.log("YES", "YES", sampling="random")

    left_out = bench.estimate()
    included = bench.estimate(include_targeted=True)

    assert (left_out.labels, left_out.targeted_left_out) == (1, 1)
    assert (included.labels, included.targeted_left_out) == (2, 0)


def test_versions_are_never_mixed_unless_asked_for(bench: Bench) -> None:
    bench.log("YES", "YES", version="v1")
    bench.log("NO", "YES", version="v2")

    assert bench.estimate().version == "v2"
    assert bench.estimate().classes[0].correct == 0
    assert bench.estimate(version="v1").classes[0].correct == 1
    pooled = bench.estimate(version="*")
    assert (pooled.version, pooled.labels) == ("*", 2)
    with pytest.raises(NotFoundError, match="v1"):
        bench.estimate(version="v3")


def test_a_window_counts_the_queries_asked_within_it(bench: Bench) -> None:
    for day in range(4):
        bench.log("YES", "YES", asked_at=START + timedelta(days=day))

    inside = bench.estimate(
        since=START + timedelta(days=1), until=START + timedelta(days=3)
    )

    assert inside.labels == 2
    with pytest.raises(InvalidInputError, match="later than since"):
        bench.estimate(since=START, until=START)


def test_an_unknown_method_is_refused_with_those_there_are(bench: Bench) -> None:
    with pytest.raises(InvalidInputError, match="it must be one of exact"):
        bench.estimate(method="wald")


def test_a_correction_moves_the_label_and_keeps_the_old_one(bench: Bench) -> None:
    query = bench.log("YES", "YES")
    bench.label(query, "NO", note="the hinge is broken")
    bench.label(query, "UNCLEAR")

    estimate = bench.estimate()

    assert (estimate.labels, estimate.unclear) == (0, 1)
