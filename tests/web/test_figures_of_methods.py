"""How often each method holds the truth, as the pages say: simulated and summed again.

The truths and the counts come from the rows by plain SQL.  The intervals of most
methods are computed here by other code: those of classes by statsmodels or by a
search over SciPy's binomial distribution, combined by their formula, and those of
the bootstrap and of the posterior by drawing from it.  `joint` and `anytime` alone
are taken from `tracker.stats`, where their own tests are.  Samples are drawn by a
seed of this file, and sums go over all outcomes.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, norm
from statsmodels.stats.proportion import proportion_confint

from tests.conftest import WHOLE
from tests.web.census import Count, by_class, percent, read_rows, span
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tests.web.test_figures import cells
from tracker import stats
from tracker.storage.database import Database

pytestmark = pytest.mark.slow

Numbers = npt.NDArray[np.float64]
Bounds = tuple[Numbers, Numbers]

LEVEL = 0.95
ERROR = 1 - LEVEL
FOUR = {"a": Count(9, 10), "b": Count(11, 12), "c": Count(13, 20), "d": Count(14, 15)}
TEN = {name: Count(19, 20) for name in "abcdefghi"} | {"j": Count(20, 20)}
TWO = {"a": Count(8, 10), "b": Count(13, 13)}
# Of methods whose intervals take no time, the documentation says how many samples.
QUICK = {"wilson", "wilson-cc", "agresti-coull", "jeffreys", "normal"}
MOST_APPROXIMATE, MOST_GUARANTEED = 400, 500
SAMPLES = 20_000
FEW_SAMPLES = 500


def wilson_with_correction(k: Numbers, n: int) -> Bounds:
    """R. G. Newcombe, Statistics in Medicine 17 (1998), 857-872, method 4."""
    z = norm.isf(ERROR / 2)

    def low(k: Numbers) -> Numbers:
        root = np.sqrt(z**2 - 2 - 1 / n + 4 * k / n * (n - k + 1))
        return np.where(k == 0, 0, (2 * k + z**2 - 1 - z * root) / (2 * (n + z**2)))

    return low(k), 1 - low(n - k)


def mid_p(k: Numbers, n: int) -> Bounds:
    """Where half the chance of what was seen, and all beyond it, is half the error."""

    def low(k: Numbers) -> Numbers:
        least, most = np.zeros_like(k), np.ones_like(k)
        for _ in range(50):
            p = (least + most) / 2
            is_more = binom.sf(k, n, p) + binom.pmf(k, n, p) / 2 > ERROR / 2
            least, most = np.where(is_more, least, p), np.where(is_more, p, most)
        return np.where(k == 0, 0, least)

    return low(k), 1 - low(n - k)


def by_statsmodels(method: str, error: float = ERROR) -> Callable[..., Bounds]:
    def table(k: Numbers, n: int) -> Bounds:
        low, high = proportion_confint(k, n, error, method)
        return np.asarray(low), np.asarray(high)

    return table


OF_CLASSES: dict[str, Callable[..., Bounds]] = {
    "wilson": by_statsmodels("wilson"),
    "wilson-cc": wilson_with_correction,
    "agresti-coull": by_statsmodels("agresti_coull"),
    "jeffreys": by_statsmodels("jeffreys"),
    "mid-p": mid_p,
}


def bounds_of(method: str, k: npt.NDArray[np.int64], n: tuple[int, ...]) -> Bounds:
    """Return the balanced interval of each row of correct labels."""
    if method not in {*OF_CLASSES, "exact", "normal"}:
        found = stats.balanced_interval(method, k, n, LEVEL)
        return found.low, found.high
    shares, size = k / np.array(n), len(n)
    if method == "normal":
        variance = (shares * (1 - shares) / np.array(n)).sum(axis=1)
        half = norm.isf(ERROR / 2) * np.sqrt(variance) / size
        return tuple(np.clip(shares.mean(axis=1) + s * half, 0, 1) for s in (-1, 1))
    table = OF_CLASSES.get(method) or by_statsmodels("beta", ERROR / size)
    tables = [table(np.arange(of + 1.0), of) for of in n]
    low, high = (
        np.column_stack([one[side][k[:, place]] for place, one in enumerate(tables)])
        for side in (0, 1)
    )
    if method == "exact":
        return low.mean(axis=1), high.mean(axis=1)
    below, above = np.maximum(shares - low, 0), np.maximum(high - shares, 0)
    middle = shares.mean(axis=1)
    return (
        np.clip(middle - np.sqrt((below**2).sum(axis=1)) / size, 0, 1),
        np.clip(middle + np.sqrt((above**2).sum(axis=1)) / size, 0, 1),
    )


def redrawn(
    method: str, k: npt.NDArray[np.int64], n: tuple[int, ...], times: int = 2_000
) -> Bounds:
    """Return the percentiles of what is drawn again and again from each row."""
    ends, rng = [], np.random.default_rng(7)
    for row in k:
        if method == "bootstrap":
            drawn = rng.binomial(n, row / n, (times, len(n))) / n
        else:
            drawn = rng.beta(row + 1, n - row + 1, (times, len(n)))
        tails = [ERROR / 2, 1 - ERROR / 2]
        ends.append(np.quantile(drawn.mean(axis=1), tails, method="inverted_cdf"))
    low, high = np.transpose(ends)
    return low, high


@cache
def simulated(
    method: str, n: tuple[int, ...], truth: tuple[float, ...]
) -> tuple[float, float]:
    """Return how often the interval holds the truth, and the standard error of that."""
    rng = np.random.default_rng(7)
    is_slow = method in {"bootstrap", "posterior"}
    is_taken = method in {"joint", "anytime"}
    samples = FEW_SAMPLES if is_slow or is_taken else SAMPLES
    drawn = rng.binomial(n, truth, (samples, len(n)))
    if is_slow:
        low, high = redrawn(method, drawn, n)
    else:
        outcomes, place = np.unique(drawn, axis=0, return_inverse=True)
        low, high = (end[place] for end in bounds_of(method, outcomes, n))
    # The bootstrap may end at the truth itself, but for rounding.
    mean, least = math.fsum(truth) / len(truth), 1e-9
    holds = float(((low <= mean + least) & (mean - least <= high)).mean())
    return holds, math.sqrt((holds * (1 - holds) + 0.5 / samples) / samples)


def supposed(found: Count) -> float:
    """A class that was always or never right has one label more, half of it right."""
    k, n = found.correct, found.labelled
    return k / n if 0 < k < n else (k + 0.5) / (n + 1)


def fill(shelf: Shelf, given: dict[str, Count]) -> str:
    names = list(given)
    rows = [
        {"predicted": name if place < one.correct else names[at - 1], "label": name}
        for at, (name, one) in enumerate(given.items())
        for place in range(one.labelled)
    ]
    detector_id = shelf.add_detector(classes=names)
    shelf.add_queries(detector_id, rows)
    return f"/detectors/{detector_id}/methods"


def table_of(page: Page) -> dict[str, list[str]]:
    """The row of each method, in order; the names of the groups are no rows."""
    rows = [row for row in cells(page, "Methods") if len(row) > 1]
    return {row[0].split()[0]: row[1:] for row in rows}


def could_be(shares: tuple[float, float], most: int, *, is_all: bool) -> list[bool]:
    """Whether it is below 95 % and below 85 %, beyond doubt, in each way it could be.

    A share of so many samples is shown rounded down, and its standard error rounded
    up.  With *is_all* there were as many samples as there can be.
    """
    found = set()
    for samples in [most] if is_all else range(20, most + 1):
        least = math.ceil(shares[0] / 100 * samples - 1e-9)
        for held in range(least, min(least + 2, samples + 1)):
            holds = held / samples
            missed = (samples - held + 0.5) / (samples + 1)
            error = math.sqrt(missed * (1 - missed) / samples)
            said = math.floor(1000 * holds + 1e-9) / 10, math.ceil(1000 * error) / 10
            if said == shares:
                sure = holds + 2 * error
                found.add((sure < LEVEL, sure < LEVEL - 0.1))
    assert found, f"no number of samples gives {shares}"
    return [*found.pop()] if len(found) == 1 else []


@pytest.mark.parametrize("given", [FOUR, TEN], ids=["four", "ten"])
def test_the_simulated_coverages(
    visitor: Visitor, shelf: Shelf, database: Database, given: dict[str, Count]
) -> None:
    path = fill(shelf, given)
    counts = by_class(read_rows(database), list(given))
    assert counts == given
    labelled = tuple(one.labelled for one in counts.values())
    truth = tuple(supposed(one) for one in counts.values())
    page = visitor.get(path)
    is_supposed = any(one.correct in {0, one.labelled} for one in counts.values())
    assert ("have one label more, half of it right" in page.text) == is_supposed
    shown = table_of(page)
    assert set(shown) == set(stats.METHODS)
    compared, low, far = set(), [], []
    for name, (*_, said, _) in shown.items():
        is_guaranteed = said.startswith("at least 95 %")
        assert is_guaranteed == (name in {"exact", "joint", "anytime"})
        found = re.search(r"([\d.]+) %(?: far below 95 %)? ± ([\d.]+)$", said)
        if found is None:
            # Too slow to simulate well: what is proved stands alone.
            assert name in {"joint", "bootstrap"}
            unknown = "unknown too slow to simulate"
            assert said == ("at least 95 % proved" if name == "joint" else unknown)
            continue
        holds, give_or_take = (float(one) for one in found.groups())
        mine, error = simulated(name, labelled, truth)
        joint = math.hypot(error, give_or_take / 100)
        assert holds / 100 == pytest.approx(mine, abs=4 * joint + 0.001), name
        compared.add(name)
        if is_guaranteed:
            # What is proved is shown where the samples say less.
            assert holds >= 95
            assert give_or_take <= 1
            if name == "exact":
                assert could_be((holds, give_or_take), MOST_GUARANTEED, is_all=True)
            is_low = is_far = False
        else:
            figures = holds, give_or_take
            sure = could_be(figures, MOST_APPROXIMATE, is_all=name in QUICK)
            is_low, is_far = sure or ("\N{DOWNWARDS ARROW}" in said, "far" in said)
            # Where it is plain by the samples of this test, it is no matter of luck.
            if abs(mine - LEVEL) > 6 * joint:
                assert is_low == (mine < LEVEL), name
            if abs(mine - LEVEL + 0.1) > 6 * joint:
                assert is_far == (mine < LEVEL - 0.1), name
        assert said.startswith("\N{DOWNWARDS ARROW} too low: ") == is_low, name
        assert ("far below 95 %" in said) == is_far, name
        low += [name] if is_low else []
        far += [name] if is_far else []
    assert len(compared) >= len(stats.METHODS) - 2
    assert low
    # Those far below come last.
    assert list(shown)[len(shown) - len(far) :] == far
    assert far or given is FOUR


@pytest.mark.parametrize("given", [FOUR, TEN], ids=["four", "ten"])
def test_the_intervals_of_many_classes(
    visitor: Visitor, shelf: Shelf, database: Database, given: dict[str, Count]
) -> None:
    path = fill(shelf, given)
    counts = by_class(read_rows(database), list(given))
    k = np.array([[one.correct for one in counts.values()]])
    n = tuple(one.labelled for one in counts.values())
    found = {name: bounds_of(name, k, n) for name in stats.METHODS}
    # A quarter of its error is for intervals since a day, and for a replay.
    found["anytime"] = tuple(stats.balanced_interval("anytime", k, n, WHOLE))
    ends = {name: (float(one[0][0]), float(one[1][0])) for name, one in found.items()}
    widths = {name: high - low for name, (low, high) in ends.items()}
    for name, (_, interval, width, *_) in table_of(visitor.get(path)).items():
        assert interval == f"{span(*ends[name])} %", name
        change = round(100 * (widths[name] / widths["exact"] - 1))
        if name != "exact":
            word = "wider" if change > 0 else "narrower"
            assert width == f"{abs(change)} % {word}", name
    for name in ("bootstrap", "posterior"):
        low, high = redrawn(name, k, n, times=100_000)
        assert ends[name] == pytest.approx((low[0], high[0]), abs=0.001)


def chance(value: float) -> str:
    if value >= 0.001:
        return f"{100 * value:.3g} %"
    return f"1 in {1 / value:,.0f}" if value > 1e-9 else "next to nothing"


def test_the_coverages_that_are_summed(
    visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    path = fill(shelf, TWO)
    counts = by_class(read_rows(database), list(TWO))
    n = tuple(one.labelled for one in counts.values())
    truth = tuple(supposed(one) for one in counts.values())
    page = visitor.get(f"{path}/coverage")
    # 13.5 of 14 is 96.43 %.
    supposed_now = "Suppose the accuracies of the two classes are 80.0 % and 96.4 %,"
    assert supposed_now in page.text
    assert "and 10 and 13 queries are labelled again" in page.text
    k = np.array(list(product(*(range(of + 1) for of in n))))
    masses = binom.pmf(k, n, truth).prod(axis=1)
    mean = sum(truth) / 2
    table = cells(page, "Coverage of each method")
    assert {row[0].split()[0] for row in table} == set(stats.METHODS)
    summed = {}
    for name, *said in table:
        method = name.split()[0]
        low, high = bounds_of(method, k, n)
        above, below = masses[low > mean].sum(), masses[high < mean].sum()
        summed[method] = float(1 - above - below)
        assert said == [
            f"{'' if summed[method] >= LEVEL else '↓ too low: '}"
            f"{math.floor(1000 * summed[method]) / 10:g} %",
            chance(above),
            chance(below),
            f"{100 * masses @ (high - low):.2f}",
        ], method
        is_guaranteed = method in {"exact", "joint", "anytime"}
        assert name.endswith("guaranteed") == is_guaranteed
        assert summed[method] >= LEVEL or not is_guaranteed
    low = [b.text for b in page.find("b", class_="too-low")]
    ones = [one for one in summed.values() if one < LEVEL]
    assert len(ones) == len(low) > 0
    assert low == [row[1] for row in table if summed[row[0].split()[0]] < LEVEL]
    # The page of the methods says the same where it sums.
    for name, (*_, said, _) in table_of(visitor.get(path)).items():
        if "±" not in said and "proved" not in said:
            assert f"{percent(math.floor(1000 * summed[name]) / 1000)} %" in said
