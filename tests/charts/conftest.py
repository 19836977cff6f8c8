"""Histories as the recompute would write them, from simulated labels."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from scipy.stats import beta

from tracker.charts.axes import Series
from tracker.shapes import Moment

MakeHistory = Callable[..., list[Series]]
Validate = Callable[[dict[str, Any]], None]

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def clopper_pearson(k: int, n: int, tail: float) -> tuple[float, float]:
    if n == 0:
        return 0.0, 1.0
    low = 0.0 if k == 0 else float(beta.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta.ppf(1 - tail, k + 1, n - k))
    return low, high


def snapshot(labels: int, k: Sequence[int], n: Sequence[int]) -> list[Moment]:
    """Return the points of all series after *labels*, the balanced one first."""
    at = START + timedelta(seconds=40 * labels)
    bounds = [clopper_pearson(i, j, 0.025 / len(n)) for i, j in zip(k, n, strict=True)]
    low, high = np.mean(bounds, axis=0)
    shares = [i / j if j else None for i, j in zip(k, n, strict=True)]
    known = [share for share in shares if share is not None]
    mean = float(np.mean(known)) if len(known) == len(shares) else None
    points = [moment(labels, at, sum(k), sum(n), mean, (float(low), float(high)))]
    for i, j, share in zip(k, n, shares, strict=True):
        points.append(moment(labels, at, i, j, share, clopper_pearson(i, j, 0.025)))
    return points


def moment(
    labels: int,
    at: datetime,
    correct: int,
    labelled: int,
    accuracy: float | None,
    bounds: tuple[float, float],
) -> Moment:
    return Moment(
        labels=labels,
        computed_at=at,
        correct=correct,
        labelled=labelled,
        accuracy=accuracy,
        low=bounds[0],
        high=bounds[1],
    )


@pytest.fixture(scope="session")
def make_history() -> MakeHistory:
    def make(
        accuracies: Sequence[float], *, labels: int, names: Sequence[str]
    ) -> list[Series]:
        random = np.random.default_rng(20260302)
        k, n = [0] * len(names), [0] * len(names)
        rows: list[list[Moment]] = []
        checkpoint = 1
        for label in range(1, labels + 1):
            this = int(random.integers(len(names)))
            n[this] += 1
            k[this] += int(random.random() < accuracies[this])
            if label == checkpoint:
                rows.append(snapshot(label, k, n))
                checkpoint = label + 1 if label < 100 else ceil(1.01 * label)
        if labels and rows[-1][0].labels != labels:
            rows.append(snapshot(labels, k, n))
        scopes = ["balanced", *names]
        return [
            Series(scope, [row[place] for row in rows])
            for place, scope in enumerate(scopes)
        ]

    return make


@pytest.fixture(scope="session")
def two_classes(make_history: MakeHistory) -> list[Series]:
    return make_history([0.82, 0.93], labels=2000, names=["YES", "NO"])


@pytest.fixture(scope="session")
def ten_classes(make_history: MakeHistory) -> list[Series]:
    names = [str(digit) for digit in range(10)]
    return make_history(np.linspace(0.99, 0.78, 10), labels=1000, names=names)


@pytest.fixture(scope="session")
def published() -> list[Series]:
    """The published example: YES 23 of 28, NO 41 of 44."""
    points = snapshot(72, [23, 41], [28, 44])
    return [
        Series(scope, [point])
        for scope, point in zip(["balanced", "YES", "NO"], points, strict=True)
    ]


@pytest.fixture(scope="session")
def validate() -> Validate:
    """Check a specification against the schema of Vega-Lite."""
    # Not where tests are collected: it takes a second.
    import altair
    import jsonschema_rs

    def quoted(node: dict[str, Any]) -> dict[str, Any]:
        # Names such as "ValueDef<number>" must be quoted in an address.
        return node | {"$ref": quote(node["$ref"], "#/")} if "$ref" in node else node

    text = json.dumps(altair.load_schema())
    schema = jsonschema_rs.Draft7Validator(json.loads(text, object_hook=quoted))

    def check(spec: dict[str, Any]) -> None:
        # Altair's own validator takes a second for what this one reads in no time.
        schema.validate(spec)

    return check
