"""What looking after every label costs: promises kept, width paid and time taken.

The chance of ever missing the truth is summed over all courses that labelling can
take, without simulation; the expected width over all outcomes.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import scipy
from scipy.stats import binom

from tracker.stats import (
    IntervalFunction,
    anytime,
    balanced_anytime,
    balanced_union,
    chances_of_ever_missing,
    clopper_pearson,
)

LEVEL = 0.95
ACCURACIES = (0.5, 0.9, 0.99)
SIZES = (20, 100, 1000, 10_000)
COUNTS = (
    ((50, 50), (0.9, 0.9)),
    ((500, 500), (0.9, 0.9)),
    ((500, 500), (0.98, 0.8)),
    ((30, 1000), (0.9, 0.9)),
    ((100,) * 5, (0.9,) * 5),
    ((20, 50, 100, 200, 1000), (0.9,) * 5),
    ((1000,) * 10, (0.9,) * 10),
)


def expected_width(interval: IntervalFunction, n: int, accuracy: float) -> float:
    k = np.arange(n + 1)
    low, high = interval(k, n, LEVEL)
    return float(binom.pmf(k, n, accuracy) @ (high - low))


def looks(most: int) -> Iterator[str]:
    yield f"{'accuracy':>9}{'labels':>8}{'width ratio':>13}{'anytime':>10}{'exact':>8}"
    for accuracy in ACCURACIES:
        for n in SIZES:
            if n > most:
                continue
            ratio = expected_width(anytime, n, accuracy)
            ratio /= expected_width(clopper_pearson, n, accuracy)
            ours, exact = (
                chances_of_ever_missing(interval, n, accuracy, LEVEL)[-1]
                for interval in (anytime, clopper_pearson)
            )
            yield f"{accuracy:>9}{n:>8,}{ratio:>13.3f}{ours:>10.4f}{exact:>8.4f}"


def balanced_widths() -> Iterator[str]:
    yield f"{'labels of each class':>32}{'to class bounds':>17}{'to fixed n':>12}"
    for n, accuracies in COUNTS:
        k = np.rint(np.multiply(n, accuracies)).astype(int)
        low, high = balanced_anytime(k, n, LEVEL)
        bounds = anytime(k, n, 1 - (1 - LEVEL) / len(n))
        fixed = balanced_union(k, n, LEVEL)
        averaged = float(np.mean(bounds.high - bounds.low))
        ours, exact = float(high - low), float(fixed.high - fixed.low)
        name = ", ".join(map(str, n)) if len(set(n)) > 1 else f"{len(n)} x {n[0]}"
        yield f"{name:>32}{ours / averaged:>17.3f}{ours / exact:>12.3f}"


def history(checkpoints: int, classes: int) -> tuple[npt.NDArray[np.int64], ...]:
    rng = np.random.default_rng(5)
    added = rng.multinomial(30 * classes, np.full(classes, 1 / classes), checkpoints)
    right = rng.binomial(added, np.linspace(0.8, 0.99, classes))
    return np.cumsum(right, axis=0), np.cumsum(added, axis=0)


def timings() -> Iterator[str]:
    yield f"{'':44}{'seconds':>9}"
    k, n = history(1000, 10)
    for name, compute in (
        ("1,000 checkpoints of ten classes, balanced", balanced_anytime),
        ("10,000 class intervals, anytime", anytime),
        ("10,000 class intervals, exact", clopper_pearson),
    ):
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            compute(k, n, LEVEL)
            best = min(best, time.perf_counter() - start)
        yield f"{name:44}{best:>9.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most-labels", type=int, default=10_000)
    arguments = parser.parse_args()
    print(f"At {LEVEL:.0%}; NumPy {np.__version__}, SciPy {scipy.__version__}\n")
    print("One class: width over exact; chance of ever missing the truth up to then")
    for line in looks(arguments.most_labels):
        print(line, flush=True)
    print("\nBalanced accuracy: width over averaged class bounds, and over exact")
    for line in balanced_widths():
        print(line)
    print("\nTime, best of three")
    for line in timings():
        print(line)


if __name__ == "__main__":
    main()
