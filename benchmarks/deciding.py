"""How many labels the interval that decides needs, and how wide it is.

Lives of labels come at random from classes of fixed shares, with fixed seeds; the
interval is looked at every 4 %, by the shares of its first labels.  *Wald* is
the expectation that no test at every look stays below: log(2/error) over the
divergence of a label from accuracies whose mean is at the target.  *Price* is how many
more labels a whole version takes with its share of the error, on average, and beside it
what it would be if the evidence grew with each label as in that expectation.
"""

import argparse
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tracker.stats import balanced_anytime, balanced_joint, level_since
from tracker.storage.estimates.cells import labels_of_shares

LEVEL = 0.95
MIXES = (
    ("2 classes, 50/50", (0.5, 0.5), 0.95, 0.9),
    ("2 classes, 90/10", (0.9, 0.1), 0.95, 0.9),
    ("2 classes, 97/3", (0.97, 0.03), 0.97, 0.93),
    ("5 uneven classes", (0.6, 0.2, 0.1, 0.06, 0.04), 0.95, 0.9),
    ("10 even classes", (0.1,) * 10, 0.95, 0.9),
    (
        "10 uneven classes",
        (0.3, 0.2, 0.13, 0.1, 0.08, 0.06, 0.05, 0.035, 0.025, 0.02),
        0.95,
        0.9,
    ),
)

Counts = npt.NDArray[np.int64]


def wald(shares: tuple[float, ...], accuracy: float, target: float) -> float:
    """Return log(2/error) over the least divergence from a mean at the target."""
    parts = np.array(shares)

    def divergence(null: npt.NDArray[np.float64]) -> float:
        right = accuracy * np.log(accuracy / null)
        return float(
            parts @ (right + (1 - accuracy) * np.log((1 - accuracy) / (1 - null)))
        )

    found = minimize(
        divergence,
        np.full(len(parts), target),
        bounds=[(1e-3, 1 - 1e-6)] * len(parts),
        constraints={"type": "eq", "fun": lambda null: null.mean() - target},
    )
    return math.log(2 / (1 - LEVEL)) / float(found.fun)


def live(
    rng: np.random.Generator, shares: tuple[float, ...], accuracy: float, most: int
) -> tuple[Counts, Counts, Counts]:
    """Return right and counted labels at each look, and the shares of the first."""
    classes = rng.choice(len(shares), most, p=np.array(shares) / sum(shares))
    is_right = rng.random(most) < accuracy
    first = labels_of_shares(len(shares))
    places = np.unique(np.geomspace(first, most, int(math.log(most / first) / 0.04)))
    looks = places.astype(int)
    counted = np.array([np.bincount(classes[:n], minlength=len(shares)) for n in looks])
    right = np.array(
        [np.bincount(classes[:n][is_right[:n]], minlength=len(shares)) for n in looks]
    )
    return right, counted, counted[0] + 1


def labels_to_met(
    shares: tuple[float, ...], accuracy: float, target: float, level: float, runs: int
) -> npt.NDArray[np.float64]:
    """Return the number of labels at which the target is first met, by life."""
    rng, found = np.random.default_rng(37), []
    most = int(4 * wald(shares, accuracy, target))
    for _ in range(runs):
        right, counted, first = live(rng, shares, accuracy, most)
        low, _ = balanced_anytime(right, counted, level, shares=first)
        met = np.flatnonzero(low > target)
        found.append(counted[met[0]].sum() if met.size else most)
    return np.array(found)


def rows(runs: int) -> Iterator[str]:
    whole = level_since(LEVEL, None, 0)
    # The share of the error that a whole version has, as log evidence beside all of it.
    dearer = math.log(2 / (1 - whole)) - math.log(2 / (1 - LEVEL))
    heads = (
        f"{'Wald':>8}{'labels':>8}{'ratio':>7}{'whole':>8}{'price':>8}{'at Wald':>8}"
    )
    heads += f"{'width / joint':>15}"
    yield f"{'':20}{heads}"
    for name, shares, accuracy, target in MIXES:
        bound = wald(shares, accuracy, target)
        alone, since = (
            labels_to_met(shares, accuracy, target, level, runs)
            for level in (LEVEL, whole)
        )
        counted = np.rint(1000 * np.array(shares)).astype(int)
        right = np.rint(counted * accuracy).astype(int)
        wide = balanced_anytime(right, counted, LEVEL, shares=shares)
        narrow = balanced_joint(right, counted, LEVEL)
        # Of one life both have the same labels, so looks every 4 % average out.
        price = float(since.mean() / alone.mean()) - 1.0
        # If its evidence grew by as much for each label as Wald's bound has it.
        least = dearer / math.log(2 / (1 - LEVEL)) * bound / float(alone.mean())
        ratio = float((wide.high - wide.low) / (narrow.high - narrow.low))
        yield (
            f"{name:20}{bound:>8,.0f}{np.median(alone):>8,.0f}"
            f"{np.median(alone) / bound:>7.2f}{np.median(since) / bound:>8.2f}"
            f"{price:>8.1%}{least:>8.1%}{ratio:>15.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    for row in rows(parser.parse_args().runs):
        print(row, flush=True)


if __name__ == "__main__":
    main()
