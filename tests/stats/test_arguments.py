"""Sums are added in one order, whatever the shape of the array."""

import numpy as np
import pytest

from tracker.stats.arguments import total_of


@pytest.mark.parametrize("sums", [1, 7, 255, 256, 3_000])
@pytest.mark.parametrize("terms", [1, 2, 10, 32, 33, 400])
def test_a_sum_has_the_bits_that_it_has_alone(sums: int, terms: int) -> None:
    draw = np.random.default_rng(sums * terms)
    array = draw.normal(size=(sums, terms)) * 10.0 ** draw.integers(-9, 9, terms)
    totals = total_of(array)
    assert totals.tolist() == [float(total_of(row)) for row in array]
    # From the first to the last, as in a loop.
    last = 0.0
    for term in array[-1].tolist():
        last += term
    assert totals[-1] == last
    # A view of something larger is added in the same order.
    assert total_of(np.stack([array, array])[1]).tolist() == totals.tolist()
