"""Time joint intervals of the balanced accuracy, and how much narrower they are.

Every interval is computed alone, as a record is; the best of a few runs counts.  The
width is compared with that of the union bound (method `exact`) for the same counts.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import scipy

from tracker.stats import balanced_joint, balanced_union, joint_is_costly

LEVEL = 0.95
CHECKPOINTS = 250

CASES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((9, 9), (10, 10)),
    ((45, 48), (50, 50)),
    ((18, 90), (20, 100)),
    ((180, 190), (200, 200)),
    ((28, 960), (30, 1_000)),
    ((900, 950), (1_000, 1_000)),
    ((9_000, 9_500), (10_000, 10_000)),
    ((290, 95_000), (300, 100_000)),
    ((90_000, 95_000), (100_000, 100_000)),
    ((50_000, 50_000), (100_000, 100_000)),
    ((18, 18, 18), (20, 20, 20)),
    ((18, 36, 72), (20, 40, 80)),
    ((45, 45, 45), (50, 50, 50)),
    ((90, 180, 360), (100, 200, 400)),
    ((27, 900, 950), (30, 1_000, 1_000)),
    ((1_800, 900, 3_700), (2_000, 1_000, 4_000)),
    ((45,) * 5, (50,) * 5),
    ((45,) * 10, (50,) * 10),
    ((9, 18, 45, 90, 450), (10, 20, 50, 100, 500)),
    (
        (9, 15, 25, 42, 70, 116, 194, 323, 539, 900),
        (10, 17, 28, 46, 77, 129, 215, 359, 599, 1_000),
    ),
    (tuple(range(9, 109)), tuple(range(10, 110))),
    (tuple(range(9, 7_009, 7)), tuple(range(10, 7_010, 7))),
)
LABELS_OF_HISTORIES = 500, 2_500, 20_000


def best_milliseconds(compute: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        compute()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def named(counts: tuple[int, ...]) -> str:
    if len(counts) > 5:
        return f"{len(counts)} classes, {min(counts):,} to {max(counts):,}"
    return ", ".join(f"{count:,}" for count in counts)


def history(labels: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return what is correct and labelled in two classes at evenly spaced moments."""
    rng = np.random.default_rng(20240501)
    is_second = rng.random(labels) < 0.7
    is_correct = rng.random(labels) < np.where(is_second, 0.95, 0.88)
    at = np.linspace(labels / CHECKPOINTS, labels, CHECKPOINTS).astype(int) - 1
    masks = np.column_stack([~is_second, is_second])
    correct = np.cumsum(masks & is_correct[:, np.newaxis], axis=0)[at]
    return correct, np.cumsum(masks, axis=0)[at]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="fewer cases, two runs")
    arguments = parser.parse_args()
    repeats = 2 if arguments.quick else arguments.repeats
    cases = CASES[::3] if arguments.quick else CASES
    print(
        f"Joint intervals at {LEVEL:.0%}, each computed alone; best of {repeats}; "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}\n"
    )
    print(
        f"{'correct':34}{'labelled':34}{'ms':>8}{'costly':>8}{'width':>8}{'/exact':>8}"
    )
    for k, n in cases:
        spent = best_milliseconds(partial(balanced_joint, k, n, LEVEL), repeats)
        joint, exact = (
            float(high - low)
            for low, high in (balanced_joint(k, n, LEVEL), balanced_union(k, n, LEVEL))
        )
        costly = "yes" if joint_is_costly(n) else "no"
        print(
            f"{named(k):34}{named(n):34}{spent:>8.1f}{costly:>8}"
            f"{joint:>8.4f}{joint / exact:>8.3f}"
        )
    print(f"\nA history of {CHECKPOINTS} moments, two classes:\n")
    print(f"{'labels at the end':34}{'seconds':>8}")
    for labels in LABELS_OF_HISTORIES:
        correct, labelled = history(labels)
        spent = best_milliseconds(
            partial(balanced_joint, correct, labelled, LEVEL), min(repeats, 3)
        )
        print(f"{labels:<34,}{spent / 1e3:>8.2f}")


if __name__ == "__main__":
    main()
