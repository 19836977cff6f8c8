"""The tails that the explanation draws."""

from math import comb

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath import mp

from tracker.stats.exact import binomial_tail, clopper_pearson


def summed(k: int, n: int, accuracy: float, side: str) -> float:
    """Add up a tail; SciPy's own differs in the ninth digit where it is tiny."""
    counts = range(k + 1) if side == "fewer" else range(k, n + 1)
    with mp.workdps(30):
        p, ways, terms = mp.mpf(accuracy), comb(n, counts[0]), []
        for j in counts:
            terms.append(ways * p**j * (1 - p) ** (n - j))
            ways = ways * (n - j) // (j + 1)
        return float(mp.fsum(terms))


@pytest.mark.parametrize(
    ("accuracy", "chance"), [(0.80, 0.54), (0.83, 0.248), (0.8634, 0.05)]
)
def test_the_published_pictures(accuracy, chance):
    tail = binomial_tail(80, 100, accuracy, "fewer")
    assert tail.probability == pytest.approx(chance, abs=5e-4)
    assert tail.chance[tail.is_marked].sum() == pytest.approx(chance, abs=7e-4)
    assert tail.last[tail.is_marked].max() == 80


@pytest.mark.thorough
@settings(deadline=None)
@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.floats(0, 1),
    st.sampled_from(["fewer", "more"]),
)
@example((13, 2161), 0.28125, "fewer")
def test_columns_lie_side_by_side_and_hold_nearly_everything(counts, accuracy, side):
    k, n = counts
    tail = binomial_tail(k, n, accuracy, side, most=60)
    assert (tail.first[1:] == tail.last[:-1] + 1).all()
    assert (tail.first <= tail.last).all()
    assert tail.first[0] >= 0
    assert tail.last[-1] <= n
    assert len(tail.first) <= 63
    assert (tail.chance >= -1e-12).all()
    assert tail.chance.sum() >= 1 - 3e-4
    marked = tail.last <= k if side == "fewer" else tail.first >= k
    assert (tail.is_marked == marked).all()
    assert tail.is_marked.any()
    exact = summed(k, n, accuracy, side)
    assert tail.probability == pytest.approx(exact, rel=1e-9, abs=1e-300)


def test_at_a_bound_of_the_interval_the_tail_is_half_the_error():
    interval = clopper_pearson(23, 28, 0.95)
    above = binomial_tail(23, 28, float(interval.high), "fewer")
    below = binomial_tail(23, 28, float(interval.low), "more")
    assert above.probability == pytest.approx(0.025, rel=1e-8)
    assert below.probability == pytest.approx(0.025, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "n", "accuracy"),
    [(0, 0, 0.5), (2, 1, 0.5), (1, 2, 1.5), (1, 2, float("nan"))],
)
def test_what_makes_no_sense_is_refused(k, n, accuracy):
    with pytest.raises(ValueError, match=r"not|must"):
        binomial_tail(k, n, accuracy, "fewer")
