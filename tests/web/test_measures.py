# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""Overall accuracy, precision and F1 on the pages."""

import csv
import io

import pytest

from tests.web.conftest import Visitor
from tests.web.reading import Page
from tracker.charts.words import bounds
from tracker.shapes import Accuracy
from tracker.stats import (
    f1_intervals,
    macro_f1_interval,
    macro_precision_interval,
    overall_interval,
    precision_intervals,
)

CORRECT, LABELLED, PREDICTED = [23, 41], [28, 44], [26, 46]
EITHER = [31, 49]


def said(value: float, low: float, high: float) -> str:
    """Return a value and its interval as pages write them in a table."""
    first, last = bounds(Accuracy(accuracy=value, low=float(low), high=float(high)))
    return f"{100 * value:.1f} % {first}–{last}"


def expected(measure: str) -> list[str]:
    """Return what the newest row of the table has to say, from the counts alone."""
    if measure == "overall":
        low, high = overall_interval(CORRECT, LABELLED, 0.95)
        return [said(64 / 72, low, high) + " 64 of 72"]
    if measure == "precision":
        values = [k / n for k, n in zip(CORRECT, PREDICTED, strict=True)]
        of_classes = precision_intervals(CORRECT, PREDICTED, 0.95)
        whole = macro_precision_interval(CORRECT, PREDICTED, 0.95)
        counts = ["64 of 72", "23 of 26", "41 of 46"]
    else:
        values = [2 * k / (k + n) for k, n in zip(CORRECT, EITHER, strict=True)]
        of_classes = f1_intervals(CORRECT, LABELLED, PREDICTED, 0.95)
        whole = macro_f1_interval(CORRECT, LABELLED, PREDICTED, 0.95)
        counts = ["64 of 80", "23 of 31", "41 of 49"]
    lows, highs = [whole.low, *of_classes.low], [whole.high, *of_classes.high]
    scores = zip([sum(values) / 2, *values], lows, highs, counts, strict=True)
    return [f"{said(value, low, high)} {count}" for value, low, high, count in scores]


@pytest.mark.parametrize("measure", ["overall", "precision", "f1"])
def test_the_table_of_the_history_shows_the_chosen_measure(
    visitor: Visitor, published: str, measure: str
) -> None:
    page = visitor.get(f"/detectors/{published}/changes?measure={measure}&method=exact")
    values = " ".join(expected(measure))
    assert rows(page)[0] == f"2026-01-31 12:00:00 72 {values}"
    assert "labels drawn at random" in page.text
    more = next(a for a in page.find("a") if a.text == "More").attributes["href"]
    assert f"measure={measure}" in more
    assert len(rows(visitor.get(more))) == 50
    path = next(
        a.attributes["href"]
        for a in page.find("a")
        if a.text == "CSV" and "history" in a.attributes["href"]
    )
    last = list(csv.DictReader(io.StringIO(visitor.get(path).html)))[-1]
    assert last["measure"] == measure


def rows(page: Page) -> list[str]:
    """Return the rows of the table of snapshots."""
    return [tr.text for tr in page.find("tr") if tr.text.startswith("2026-01-31 12:")]


def test_a_measure_that_there_is_not_is_refused(
    visitor: Visitor, published: str
) -> None:
    for path in ("changes", "history.csv"):
        answer = visitor.get(f"/detectors/{published}/{path}?measure=kappa")
        assert answer.status == 400
