"""Time a million Clopper-Pearson intervals against what else computes them.

Counts are random: n from 1 to 10**6, evenly on a logarithmic scale, k binomial with
an accuracy from Beta(18, 2).  Vectorised peers are timed on all rows, best of a few
runs; peers that take one row at a time are timed on as many rows as the table says
and scaled up.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import scipy
import statsmodels  # type: ignore[import-untyped]
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom, binomtest
from statsmodels.stats.proportion import (  # type: ignore[import-untyped]
    proportion_confint,
)

from tracker.stats import clopper_pearson

LEVEL = 0.95
Counts = npt.NDArray[np.int64]


def random_counts(rows: int) -> tuple[Counts, Counts]:
    rng = np.random.default_rng(20240501)
    n = np.floor(10 ** rng.uniform(0, 6, rows)).astype(np.int64)
    return rng.binomial(n, rng.beta(18, 2, rows)), n


def bare_inverse(k: Counts, n: Counts) -> None:
    betaincinv(k, n - k + 1, (1 - LEVEL) / 2)
    betainccinv(k + 1, n - k, (1 - LEVEL) / 2)


def statsmodels_arrays(k: Counts, n: Counts) -> None:
    proportion_confint(k, n, alpha=1 - LEVEL, method="beta")


def statsmodels_rows(k: Counts, n: Counts) -> None:
    for one, of in zip(k.tolist(), n.tolist(), strict=True):
        proportion_confint(one, of, alpha=1 - LEVEL, method="beta")


def binomtest_rows(k: Counts, n: Counts) -> None:
    for one, of in zip(k.tolist(), n.tolist(), strict=True):
        binomtest(one, of).proportion_ci(LEVEL, method="exact")


def bisection_rows(k: Counts, n: Counts) -> None:
    share = (1 - LEVEL) / 2
    for one, of in zip(k.tolist(), n.tolist(), strict=True):
        bisected_upper(one, of, share)
        bisected_upper(of - one, of, share)


def bisected_upper(k: int, n: int, share: float) -> float:
    low, high = k / n, 1.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        if binom.cdf(k, n, middle) >= share:
            low = middle
        else:
            high = middle
    return low


PEERS: tuple[tuple[str, Callable[[Counts, Counts], object], int | None], ...] = (
    (
        "tracker clopper_pearson (validated, outward, checked)",
        lambda k, n: clopper_pearson(k, n, LEVEL),
        None,
    ),
    ("scipy betaincinv + betainccinv, bare", bare_inverse, None),
    ("statsmodels proportion_confint, on arrays", statsmodels_arrays, None),
    ("statsmodels proportion_confint, row by row", statsmodels_rows, 2000),
    ("bisection of binom.cdf to 1e-6, row by row", bisection_rows, 300),
    ("scipy binomtest(...).proportion_ci, row by row", binomtest_rows, 200),
)


def measured(rows: int, repeats: int) -> Iterator[tuple[str, int, float]]:
    k, n = random_counts(rows)
    best = [np.inf] * len(PEERS)
    # Peers take turns, so that a busy moment of the machine falls on all of them.
    for _ in range(repeats):
        for index, (_, compute, limit) in enumerate(PEERS):
            timed = min(limit or rows, rows)
            start = time.perf_counter()
            compute(k[:timed], n[:timed])
            seconds = (time.perf_counter() - start) * rows / timed
            best[index] = min(best[index], seconds)
    for (name, _, limit), seconds in zip(PEERS, best, strict=True):
        yield name, min(limit or rows, rows), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    results = list(measured(arguments.rows, arguments.repeats))
    ours = results[0][2]
    print(
        f"{arguments.rows:,} intervals at {LEVEL:.0%}; best of {arguments.repeats}; "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, "
        f"statsmodels {statsmodels.__version__}"
    )
    print("Fewer rows timed than asked for: the time is scaled up to all rows.\n")
    print(f"{'':54}{'rows timed':>11}{'seconds':>11}{'per second':>12}{'ratio':>9}")
    for name, timed, seconds in results:
        rate = arguments.rows / seconds
        print(
            f"{name:54}{timed:>11,}{seconds:>11.2f}{rate:>12,.0f}{seconds / ours:>9.2f}"
        )


if __name__ == "__main__":
    main()
