"""Intervals straight from two columns agree with those of the counts."""

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix

from tracker.stats import (
    METHODS,
    accuracy_interval,
    balanced_accuracy_interval,
    balanced_interval,
    clopper_pearson,
)

TRUE = ["YES"] * 28 + ["NO"] * 44
PREDICTED = ["YES"] * 23 + ["NO"] * 5 + ["NO"] * 41 + ["YES"] * 3


def test_the_accuracy_of_two_columns_is_that_of_their_counts() -> None:
    assert accuracy_interval(TRUE, PREDICTED) == clopper_pearson(64, 72, 0.95)


def test_the_published_example_comes_from_its_labels() -> None:
    low, high = balanced_accuracy_interval(TRUE, PREDICTED, method="exact")
    assert (round(low, 4), round(high, 4)) == (0.6996, 0.9691)


@pytest.mark.parametrize("method", METHODS)
def test_columns_give_what_counts_give_by_every_method(method: str) -> None:
    low, high = balanced_accuracy_interval(TRUE, PREDICTED, method=method)
    counts = balanced_interval(method, [41, 23], [44, 28], 0.95)
    assert (low, high) == (float(counts.low), float(counts.high))


def test_the_classes_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 4, 300)
    predicted = np.where(rng.random(300) < 0.8, truth, rng.integers(0, 4, 300))
    table = confusion_matrix(truth, predicted)
    low, high = balanced_accuracy_interval(truth, predicted, method="exact")
    counts = balanced_interval("exact", table.diagonal(), table.sum(1), 0.95)
    assert (low, high) == (float(counts.low), float(counts.high))
    assert low < balanced_accuracy_score(truth, predicted) < high


def test_a_class_that_is_named_and_never_labelled_is_unknown() -> None:
    named = balanced_accuracy_interval(
        TRUE, PREDICTED, labels=["NO", "YES", "MAYBE"], method="exact"
    )
    counts = balanced_interval("exact", [41, 0, 23], [44, 0, 28], 0.95)
    assert named == (float(counts.low), float(counts.high))


@pytest.mark.parametrize(
    ("truth", "predicted", "labels", "said"),
    [
        ([], [], None, "at least one row"),
        (["a"], ["a", "b"], None, "same length"),
        ([["a"]], [["a"]], None, "same length"),
        (["a"], ["b"], None, "fewer than two classes"),
        (["a", "b"], ["a", "b"], ["a", "c"], "lacks classes of y_true: b"),
    ],
)
def test_columns_that_are_no_sample_are_refused(
    truth: list[str], predicted: list[str], labels: list[str] | None, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        balanced_accuracy_interval(truth, predicted, labels=labels)


def test_a_method_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        balanced_accuracy_interval(TRUE, PREDICTED, method="nonsense")
