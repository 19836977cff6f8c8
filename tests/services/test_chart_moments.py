"""Which moments of a long history a chart shows."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from tracker.services.estimates.charts import _spread

MOST = 250


@pytest.mark.parametrize(
    "labels",
    [
        [1] * 260,
        [1, 2] * 200,
        [*range(1, 126), *range(125, 0, -1), *range(1, 126)],
        [*range(1, 101), *[100] * 300, *range(101, 1_001)],
        list(range(1, 1_001)),
        [*range(1, 126), 200, *range(126, 260)],
    ],
    ids=["one label", "two", "up and down", "corrections", "labels", "one early"],
)
def test_no_more_moments_than_fit_are_shown_in_order(labels: list[int]) -> None:
    marks = [
        SimpleNamespace(id=place, labels=count) for place, count in enumerate(labels)
    ]

    shown = _spread(marks, MOST)

    assert MOST // 2 <= len(shown) <= MOST + 1
    assert (shown[0], shown[-1]) == (marks[0], marks[-1])
    ids = [mark.id for mark in shown]
    assert all(a <= b for a, b in pairwise(ids))
