"""Every figure of the page of the history, from the labels in the order they came.

The labels are read by plain SQL, and counted up to each moment.  `joint` and `anytime`
are those of `tracker.stats`; all other intervals follow from Clopper and Pearson.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from tests.conftest import START, Clock, FillOnce
from tests.web.census import (
    Count,
    balanced,
    clopper_pearson,
    mean,
    percent,
    span,
)
from tests.web.conftest import Shelf, Visitor
from tests.web.test_figures import cells
from tracker.storage.database import Database

TARGET = 0.8
CLASSES = ("YES", "NO")
# So many labels, and the accuracy of each class in them: both fall a little, then one.
PHASES = [(300, 0.97, 0.95), (120, 0.66, 0.7), (270, 0.9, 0.9), (160, 0.9, 0.3)]


@dataclass(frozen=True)
class Told:
    """A label as its row says: the class, what was predicted, and when it was kept."""

    label: str
    predicted: str
    at: str

    @property
    def is_right(self) -> bool:
        return self.label == self.predicted


def rows_of(phase: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    number, *accuracies = PHASES[phase]
    rows = []
    for place in range(number):
        which = int(rng.random() < 0.4)
        is_right = rng.random() < accuracies[which]
        said = CLASSES[which if is_right else 1 - which]
        key = f"p{phase}-{place}"
        rows.append({"key": key, "predicted": said, "label": CLASSES[which]})
    return rows


@pytest.fixture
def path(
    shelf: Shelf, recompute: Callable[[], None], clock: Clock, fill_once: FillOnce
) -> str:
    """The page of a detector that has fallen twice; the job ran an hour apart."""

    def build() -> str:
        rng = np.random.default_rng(0)
        detector_id = shelf.add_detector(target=TARGET)
        for phase in range(len(PHASES)):
            shelf.add_queries(detector_id, rows_of(phase, rng))
            recompute()
            clock.at += timedelta(hours=1)
        return f"/detectors/{detector_id}"

    return fill_once(build)


def read_labels(database: Database, *, is_today: bool = False) -> list[Told]:
    """Return the labels in the order in which the first of each query came."""
    statement = text(
        "SELECT first.label, q.label, q.predicted, first.created_at FROM labels first"
        " JOIN queries q ON q.id = first.query_id WHERE first.replaces_id IS NULL"
        " ORDER BY first.id"
    )
    with database.read() as session:
        rows = session.execute(statement).all()
    return [
        Told(now if is_today else was, said, str(at)) for was, now, said, at in rows
    ]


def correct(shelf: Shelf, path: str, database: Database) -> int:
    """Give most wrong labels of the first fall the class that was predicted."""
    statement = text(
        "SELECT q.key, q.predicted FROM queries q WHERE q.key LIKE 'p1-%'"
        " AND q.label <> q.predicted ORDER BY q.id"
    )
    with database.read() as session:
        rows = session.execute(statement).all()
    chosen = [{"key": key, "label": said} for key, said in rows[5:]]
    shelf.add_queries(path.rsplit("/", 1)[-1], chosen)
    return len(chosen)


def count_of(labels: Sequence[Told]) -> dict[str, Count]:
    parts = {name: [one for one in labels if one.label == name] for name in CLASSES}
    return {
        name: Count(sum(one.is_right for one in part), len(part))
        for name, part in parts.items()
    }


def deciding(labels: Sequence[Told], counts: dict[str, Count]) -> tuple[float, float]:
    """The interval that decides, by the classes of the labels that came first."""
    first = count_of(labels[: PHASES[0][0]])
    assert PHASES[0][0] >= 100
    # Each has one more.
    return balanced("anytime", counts, shares=[n.labelled + 1 for n in first.values()])


def all_of(counts: dict[str, Count]) -> Count:
    found = counts.values()
    return Count(sum(c.correct for c in found), sum(c.labelled for c in found))


def of_window(counts: dict[str, Count]) -> tuple[float, float]:
    """The mean of the class intervals, each at half the error and of one label more.

    Where chances differ within the window, the bounds reach one label beyond what
    was counted at least.
    """
    ends = []
    for one in counts.values():
        k, n = one.correct, one.labelled
        low, high = clopper_pearson(one, 0.05 / 2)
        ends.append((min(low, max(k - 1, 0) / n), max(high, min(k + 1, n) / n)))
    low, high = np.mean(ends, axis=0)
    return float(low), float(high)


@pytest.mark.thorough
@pytest.mark.parametrize("window", [200, 500])
def test_the_last_labels_beside_all(
    visitor: Visitor, path: str, database: Database, window: int
) -> None:
    labels = read_labels(database)
    whole, last = count_of(labels), count_of(labels[-window:])
    page = visitor.get(f"{path}/changes?window={window}")
    (row,) = cells(page, "All labels and the last ones")
    ends, all_ends = of_window(last), deciding(labels, whole)
    assert row[1:5] == [
        str(len(labels)),
        "0",
        f"{percent(mean(whole))} % [{span(*all_ends)}] {all_of(whole).words}",
        f"{percent(mean(last))} % [{span(*ends)}] {all_of(last).words}",
    ]
    # The last ones lie below the others, but only days prove a change.
    assert (ends[1] < all_ends[0]) == (window == 200)
    said = f"No change is proved in {len(labels):,} labels: {span(*all_ends)} % right."
    assert page.by_id("answer-title").text == said


def snapshots_of(database: Database) -> list[tuple[int, str]]:
    """Return after how many labels each snapshot was taken, and when."""
    statement = text("SELECT labels, computed_at FROM snapshots ORDER BY sequence")
    with database.read() as session:
        return [(number, str(at)[:19]) for number, at in session.execute(statement)]


@pytest.mark.slow
def test_since_when_each_verdict_held(
    visitor: Visitor, path: str, database: Database
) -> None:
    labels = read_labels(database)
    verdicts = {}
    for number, at in snapshots_of(database):
        counts = count_of(labels[:number])
        low, high = deciding(labels, counts)
        verdict = "met" if low > TARGET else "missed" if high < TARGET else "undecided"
        verdicts[number, at] = verdict
    changes = [next(group) for _, group in groupby(verdicts.items(), lambda x: x[1])]
    assert len(changes) > 2
    *before, ((number, at), verdict) = changes
    page = visitor.get(f"{path}/changes?by=labels")
    (strip,) = page.find("div", class_="strip")
    said = "Not decided yet" if verdict == "undecided" else f"Target {verdict}"
    assert strip.text.startswith(f"{said} Since label {number}, {at} UTC.")
    said = span(*deciding(labels, count_of(labels)))
    measured = f"The mean of the classes by all labels is {said} %"
    assert f"{measured}, the target 80 %." in strip.text
    words = {"undecided": "not decided yet"}
    listed = [f"{words.get(w, w)} since label {n}" for (n, _), w in reversed(before)]
    assert f"Before: {', '.join(listed[:5])}" in strip.text
    assert (f"and {len(listed) - 5} earlier." in strip.text) == (len(listed) > 5)


def of_share(found: Count, ends: tuple[float, float]) -> str:
    return f"{percent(found.accuracy)} % {span(*ends)} {found.words}"


def as_f1(share: float) -> float:
    return 2 * share / (1 + share)


def lines_of(labels: Sequence[Told]) -> dict[str, list[str]]:
    """Return what each table of a snapshot shows of so many labels, by its measure."""
    counts, said = count_of(labels), [one.predicted for one in labels]
    of = {name: (counts[name].correct, said.count(name)) for name in CLASSES}
    precision = {name: Count(*numbers) for name, numbers in of.items()}
    # Of the queries with the class as label or prediction, those with it as both.
    both = {
        name: Count(k, m + counts[name].labelled - k) for name, (k, m) in of.items()
    }
    lines = {
        "recall": [of_share(one, clopper_pearson(one)) for one in counts.values()],
        "precision": [
            of_share(one, clopper_pearson(one)) for one in precision.values()
        ],
        "overall": [],
        "f1": [],
    }
    for one in both.values():
        low, high = map(as_f1, clopper_pearson(one))
        shown = percent(as_f1(one.accuracy))
        lines["f1"].append(f"{shown} % {span(low, high)} {one.words}")
    whole = all_of(counts)
    lines["overall"] = [of_share(whole, clopper_pearson(whole))]
    for name, parts, change in (
        ("precision", precision, float),
        ("f1", both, as_f1),
    ):
        ends = [map(change, clopper_pearson(one, 0.025)) for one in parts.values()]
        low, high = np.mean([[*one] for one in ends], axis=0)
        value = math.fsum(change(one.accuracy) for one in parts.values()) / 2
        both_ends = f"{percent(value)} % {span(low, high)}"
        words = all_of(parts).words
        lines[name].insert(0, f"{both_ends} {words}")
    ends = balanced("exact", counts)
    lines["recall"].insert(0, f"{percent(mean(counts))} % {span(*ends)} {whole.words}")
    return lines


@pytest.mark.thorough
@pytest.mark.parametrize("measure", ["recall", "precision", "overall", "f1"])
def test_the_table_of_snapshots(
    visitor: Visitor, path: str, database: Database, measure: str
) -> None:
    labels, snapshots = read_labels(database), snapshots_of(database)
    query = f"?method=exact&measure={measure}"
    page = visitor.get(f"{path}/changes{query}")
    table = cells(page, "Table of snapshots")
    assert len(table) > 4
    for (at, number, *shown), (labelled, when) in zip(
        table, reversed(snapshots), strict=False
    ):
        assert (at, int(number)) == (when, labelled)
        assert shown == lines_of(labels[:labelled])[measure]


@pytest.mark.slow
def test_what_was_known_at_an_earlier_moment(
    visitor: Visitor,
    shelf: Shelf,
    path: str,
    database: Database,
    recompute: Callable[[], None],
) -> None:
    first = read_labels(database)
    corrected = correct(shelf, path, database)
    recompute()
    snapshots = snapshots_of(database)
    # The last snapshot of the first run of the job.
    place, (number, at) = next(
        (place, one)
        for place, one in enumerate(snapshots, start=1)
        if one[0] == PHASES[0][0]
    )
    page = visitor.get(f"{path}/changes?window=200&then={place}")
    assert f"what was known on {at} UTC" in page.text
    today = read_labels(database, is_today=True)
    for row, labels, changed in zip(
        cells(page, "All labels and the last ones"),
        (first[:number], today),
        (0, corrected),
        strict=True,
    ):
        whole, last = count_of(labels), count_of(labels[-200:])
        assert row[1:5] == [
            str(len(labels)),
            str(changed),
            f"{percent(mean(whole))} % [{span(*deciding(first, whole))}] "
            f"{all_of(whole).words}",
            f"{percent(mean(last))} % [{span(*of_window(last))}] {all_of(last).words}",
        ]


# Of each day so long ago, after how many hours the label of each query came.
DELAYS = {
    6: [1, 2, 3, 30, 31, None],
    4: [2, 2, 5, 28, None, None, None],
    1: [4, 5, None, None, None],
    0: [2, None, None],
}


def lasting(seconds: float) -> str:
    """In the largest unit of which there are two."""
    for name, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds / length >= 2:
            return f"{round(seconds / length)} {name}"
    return f"{round(seconds)} seconds"


def test_how_late_labels_come(visitor: Visitor, shelf: Shelf) -> None:
    rows = []
    for day, delays in DELAYS.items():
        asked_at = START - timedelta(days=day, hours=4)
        for hours in delays:
            row = {"predicted": "YES", "asked_at": asked_at.isoformat()}
            if hours is not None:
                at = asked_at + timedelta(hours=hours)
                row |= {"label": "YES", "labelled_at": at.isoformat()}
            rows.append(row)
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}/changes")
    (late,) = [one for one in page.find("a") if one.text == "How late labels come"]
    page = visitor.get(late.attributes["href"])
    known = [hours for delays in DELAYS.values() for hours in delays if hours]
    usual = float(np.quantile(known, 0.9, method="weibull"))
    assert f"Nine of ten labels came within {lasting(3_600 * usual)}." in page.text
    expected = []
    for day, delays in reversed(DELAYS.items()):
        came = [hours for hours in delays if hours]
        # The day ends at midnight, and it is noon.
        is_young = 24 * (day - 1) + 12 < usual
        expected.append(
            [
                f"{START - timedelta(days=day):%Y-%m-%d}",
                str(len(delays)),
                str(len(came)),
                f"{percent(len(came) / len(delays))} %",
                lasting(3_600 * float(np.median(came))),
                "labels still to come" if is_young else "",
            ]
        )
    assert cells(page, "Queries of each day and their labels") == expected
