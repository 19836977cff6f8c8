import numpy as np
import pytest
from scipy.special import betainc, betaincinv

from tracker.stats.laws import beta_quantile


@pytest.mark.parametrize("share", [1e-12, 1e-6, 0.00125, 0.025, 0.05, 0.5, 0.9])
def test_the_distribution_function_at_the_quantile_is_the_share(share):
    rng = np.random.default_rng(6)
    a, b = np.floor(10 ** rng.uniform(0, 6, (2, 2000)))
    reached = betainc(a, b, beta_quantile(a, b, share))
    # What double precision resolves: one unit of the quantile near 1, times the
    # density there, plus what the function itself is off by.
    assert np.abs(reached / share - 1).max() < 1e-6


@pytest.mark.parametrize("share", [1e-6, 0.025, 0.5])
def test_large_and_small_counts_agree_where_they_meet(share):
    a = np.arange(480.0, 520.0)
    for b in (500.0, 999.0, 40_000.0):
        other = np.full_like(a, b)
        expected = betaincinv(a, other, share)
        np.testing.assert_allclose(beta_quantile(a, other, share), expected, rtol=3e-11)
        expected = betaincinv(other, a, share)
        np.testing.assert_allclose(beta_quantile(other, a, share), expected, rtol=3e-11)


def test_the_shape_is_kept():
    assert beta_quantile(np.full((2, 3), 600.0), np.full((2, 3), 2.0), 0.1).shape == (
        2,
        3,
    )
    assert beta_quantile(np.array(2.0), np.array(2.0), 0.5) == pytest.approx(0.5)
