"""Counting again what is stored, and formatting it, apart from what draws pages.

The counts come from the rows of the database by plain SQL.  Intervals are those of
`tracker.stats`, or of SciPy's beta distribution where the formula is that of Clopper
and Pearson; how a figure is written is stated here once more.
"""

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from typing import Any

from scipy.stats import beta
from sqlalchemy import text

from tracker.stats import Interval, balanced_interval, level_since
from tracker.storage.database import Database


@dataclass(frozen=True, slots=True)
class Stored:
    """A query as its row says, with the name of its version."""

    version: str
    predicted: str
    label: str | None
    sampling: str
    confidence: float | None
    is_repeat: bool
    metadata: dict[str, Any]

    @property
    def is_scored(self) -> bool:
        return (
            self.label not in {None, "UNCLEAR"}
            and self.sampling != "targeted"
            and not self.is_repeat
        )

    @property
    def is_right(self) -> bool:
        return self.predicted == self.label


def read_rows(database: Database, version: str | None = None) -> list[Stored]:
    """Return the queries of the only detector, or of one version of it."""
    statement = text(
        "SELECT v.name, q.predicted, q.label, q.sampling, q.confidence, q.is_repeat,"
        " q.metadata FROM queries q JOIN versions v ON v.id = q.version_id"
    )
    with database.read() as session:
        found = [
            Stored(*given, bool(is_repeat), json.loads(details or "{}"))
            for *given, is_repeat, details in session.execute(statement)
        ]
    return [row for row in found if version in {None, row.version}]


@dataclass(frozen=True, slots=True)
class Count:
    """So many correct of so many labelled."""

    correct: int
    labelled: int

    @property
    def accuracy(self) -> float:
        return self.correct / self.labelled

    @property
    def words(self) -> str:
        return f"{self.correct:,} of {self.labelled:,}"


def count(rows: list[Stored]) -> Count:
    scored = [row for row in rows if row.is_scored]
    return Count(sum(row.is_right for row in scored), len(scored))


def by_class(rows: list[Stored], classes: list[str]) -> dict[str, Count]:
    return {name: count([row for row in rows if row.label == name]) for name in classes}


def confusion(rows: list[Stored]) -> Counter[tuple[str | None, str]]:
    return Counter((row.label, row.predicted) for row in rows if row.is_scored)


def clopper_pearson(found: Count, error: float = 0.05) -> tuple[float, float]:
    """Return the exact interval by the quantiles of the beta distribution."""
    k, n = found.correct, found.labelled
    low = 0.0 if k == 0 else float(beta.ppf(error / 2, k, n - k + 1))
    high = 1.0 if k == n else float(beta.isf(error / 2, k + 1, n - k))
    return low, high


def balanced(
    method: str,
    counts: dict[str, Count],
    level: float = 0.95,
    shares: Sequence[float] | None = None,
) -> tuple[float, float]:
    if method == "anytime":
        # A quarter of the error is for intervals since a day, and for a replay.
        level = level_since(level, None, 0)
    found: Interval = balanced_interval(
        method,
        [one.correct for one in counts.values()],
        [one.labelled for one in counts.values()],
        level,
        shares=shares,
    )
    return float(found.low), float(found.high)


def published(counts: dict[str, Count], level: float = 0.95) -> tuple[float, float]:
    """Return the mean of the class bounds, each at the error over the classes."""
    error = (1 - level) / len(counts)
    bounds = [clopper_pearson(one, error) for one in counts.values()]
    low, high = zip(*bounds, strict=True)
    return math.fsum(low) / len(low), math.fsum(high) / len(high)


def mean(counts: dict[str, Count]) -> float:
    return math.fsum(one.accuracy for one in counts.values()) / len(counts)


def percent(share: float, places: int = 1, rounding: str = ROUND_HALF_EVEN) -> str:
    """Return a share in percent: 0 and 100 without decimals."""
    shown = Decimal(share).quantize(Decimal(1).scaleb(-2 - places), rounding)
    if shown in {0, 1}:
        return str(int(100 * shown))
    return f"{100 * shown:.{places}f}"


def span(low: float, high: float, dash: str = "\N{EN DASH}") -> str:
    """Return "77.5 to 94.3" with a dash, rounded outward, for bounds a point apart."""
    assert high - low >= 0.01
    down, up = percent(low, 1, ROUND_FLOOR), percent(high, 1, ROUND_CEILING)
    return f"{down}{dash}{up}"


def full(low: float, high: float) -> tuple[str, str]:
    """Return the bounds in percent to four places, rounded outward."""
    ends = ((low, ROUND_FLOOR), (high, ROUND_CEILING))
    down, up = (
        Decimal(end).quantize(Decimal("0.000001"), rounding) for end, rounding in ends
    )
    return f"{100 * down:.4f}", f"{100 * up:.4f}"


def two_figures(number: int) -> int:
    """Return *number* rounded up to two figures."""
    scale: int = 10 ** max(0, len(str(number)) - 2)
    return math.ceil(number / scale) * scale
