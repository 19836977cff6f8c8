"""Every figure of two versions, of several people and of what others are shown.

Counted and computed again from what is stored, as in `test_figures`.
"""

import re
from collections import Counter
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR
from urllib.parse import urlsplit

import numpy as np
import pytest
from flask import Flask
from sqlalchemy import text

from tests.web.census import (
    Count,
    balanced,
    clopper_pearson,
    percent,
    span,
)
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, read
from tests.web.test_figures import cells
from tracker.rounding import outward
from tracker.stats import (
    cohen_kappa,
    cohen_kappa_interval,
    paired_anytime,
)
from tracker.storage.database import Database

# Of each class: both right, only the new one, only the old one, neither.
PAIRS = {"YES": (70, 14, 3, 4), "NO": (61, 9, 5, 2)}


@pytest.fixture
def compared(shelf: Shelf, visitor: Visitor) -> Page:
    """The page that compares two versions on the same inputs."""
    rows = []
    for label, numbers in PAIRS.items():
        wrong = "NO" if label == "YES" else "YES"
        said = [(label, label), (wrong, label), (label, wrong), (wrong, wrong)]
        for kind, (pair, number) in enumerate(zip(said, numbers, strict=True)):
            for place in range(number):
                for version, predicted in zip(("v1", "v2"), pair, strict=True):
                    rows.append(
                        {
                            "input": f"{label}-{kind}-{place}",
                            "version": version,
                            "predicted": predicted,
                            "label": label,
                            "sampling": "random",
                        }
                    )
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, rows)
    return visitor.get(f"/detectors/{detector_id}/changes?old=v1&new=v2")


def stored_pairs(database: Database) -> dict[str, Counter[tuple[bool, bool]]]:
    """How often the old and the new version were right, by class."""
    found: dict[str, Counter[tuple[bool, bool]]] = {}
    statement = text(
        "SELECT old.label, old.predicted, new.predicted FROM queries old"
        " JOIN queries new ON new.input = old.input AND new.version_id > old.version_id"
    )
    with database.read() as session:
        for label, old, new in session.execute(statement):
            found.setdefault(label, Counter())[old == label, new == label] += 1
    return found


def test_the_comparison_of_two_versions(compared: Page, database: Database) -> None:
    stored = stored_pairs(database)
    gained = {name: one[False, True] for name, one in stored.items()}
    lost = {name: one[True, False] for name, one in stored.items()}
    pairs = {name: one.total() for name, one in stored.items()}
    assert {n: (gained[n], lost[n], pairs[n]) for n in stored} == {
        name: (b, c, sum(PAIRS[name])) for name, (_, b, c, _) in PAIRS.items()
    }
    won, against = sum(gained.values()), sum(lost.values())
    b, c, n = ([one[name] for name in ("YES", "NO")] for one in (gained, lost, pairs))
    decision = paired_anytime(b, c, n, 0.95)
    low, high = (end.scaleb(2) for end in outward(decision.low, decision.high, 3))
    assert compared.by_id("compared").text == (
        f"v2 is right between {-low:f} points less and {high:f} points more often "
        "than v1, YES and NO counting the same."
    )
    said = f"Of {won + against} labelled disagreements v2 is right in {won}."
    assert said in compared.text
    rows = [row.text for row in compared.find("tr")]
    assert f"All {sum(n)} {won} {against}" in rows
    for place, name in enumerate(("YES", "NO")):
        assert f"{name} {n[place]} {b[place]} {c[place]}" in rows


@pytest.fixture
def people(app: Flask) -> dict[str, Visitor]:
    return {name: Visitor(app, name, "labeler") for name in ("ann", "ben")}


# What two people say of the same queries, in order of their keys.
SAID = {"ann": "YYYYYYYYNNNN", "ben": "YYYYYYYNNNNY"}


def test_the_agreement_of_labelers(
    people: dict[str, Visitor], visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(labels_wanted=2)
    keys = [f"q{number}" for number in range(len(SAID["ann"]))]
    shelf.add_queries(detector_id, [{"key": k, "predicted": "YES"} for k in keys])
    listed = visitor.client.get(f"/detectors/{detector_id}/queries").text
    queries = sorted(set(re.findall(r"/queries/(iq_\d+)", listed)))
    for name, words in SAID.items():
        for query, word in zip(queries, words, strict=True):
            label = {"Y": "YES", "N": "NO"}[word]
            sent = people[name].send(f"/queries/{query}", {"label": label})
            assert sent.status_code == 303
    page = visitor.get(f"/detectors/{detector_id}/labelers")
    pairs = list(zip(*SAID.values(), strict=True))
    agreed = Count(sum(a == b for a, b in pairs), len(pairs))
    said = f"{percent(agreed.accuracy)} % [{span(*clopper_pearson(agreed))}]"
    assert f"{said} {agreed.words} of the queries that several" in page.text
    assert f"{agreed.labelled - agreed.correct} queries wait to be" in page.text
    places = ["Y", "N", "U"]
    table = [[pairs.count((a, b)) for b in places] for a in places]
    bounds = cohen_kappa_interval(table, 0.95)

    def kappa(value: float | None, low: float, high: float) -> str:
        assert value is not None
        least, most = np.floor(100 * low) / 100, np.ceil(100 * high) / 100
        said = f"{value:.2f} [{least:.2f}, {most:.2f}]"
        return said.replace("-", "\N{MINUS SIGN}")

    (row,) = cells(page, "Agreement of two people")
    ends = span(*clopper_pearson(agreed))
    assert row == [
        "ann and ben",
        f"{percent(agreed.accuracy)} % {ends} {agreed.words}",
        kappa(cohen_kappa(table), float(bounds.low), float(bounds.high)),
    ]


@pytest.mark.thorough
def test_the_errors_found_by_labels_given_again(
    app: Flask, visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [{"key": f"q{n}", "predicted": "YES", "label": "YES"} for n in range(20)]
    shelf.add_queries(detector_id, rows)
    eve = Visitor(app, "eve", "editor")
    path = f"/detectors/{detector_id}"
    eve.send(f"{path}/rechecks", {"count": "20"})
    for number in range(20):
        query = eve.get(f"{path}/label?queue=recheck").form(f"{path}/label")["query"]
        label = "NO" if number < 3 else "YES"
        fields = {"queue": "recheck", "query": query, "label": label}
        assert eve.send(f"{path}/label", fields).status_code == 303
    (row,) = cells(visitor.get(f"{path}/labelers"), "Mistakes by labels given again")
    errors = Count(3, 20)
    ends = span(*clopper_pearson(errors))
    assert row[0].startswith("alice")
    assert row[1:] == [f"15.0 % {ends} 3 of 20", "0/17", "3/3"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "colour"), [(0, "brightgreen"), (1, "brightgreen"), (450, "red")]
)
def test_the_badge_and_the_shared_page(
    app: Flask,
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    wrong: int,
    colour: str,
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    rows = [
        {"predicted": "NO" if place < wrong else label, "label": label}
        for label in ("YES", "NO")
        for place in range(1_500)
    ]
    shelf.add_queries(detector_id, rows)
    recompute()
    made = visitor.post(f"/detectors/{detector_id}/badges")
    picture, data, frame = re.findall(r"<code>(http[^<]+)</code>", made.html)
    counts = {"YES": Count(1_500 - wrong, 1_500), "NO": Count(1_500, 1_500)}
    # By equal shares, as the labels have them.
    bounds = balanced("anytime", counts, shares=[1, 1])
    is_met, is_missed = bounds[0] > 0.9, bounds[1] < 0.9
    assert colour == ("brightgreen" if is_met else "red" if is_missed else "yellow")
    found = app.test_client().get(urlsplit(data).path).get_json()
    # Intervals narrower than a point have one more digit, as on the pages.
    places = 1 if bounds[1] - bounds[0] >= 0.01 else 2
    low = percent(bounds[0], places, ROUND_FLOOR)
    high = percent(bounds[1], places, ROUND_CEILING)
    # By hand; only a perfect record is 100 %.
    share = {0: "100", 1: "99.97", 450: "85.0"}[wrong]
    assert found["message"] == f"{share}% ({low} to {high}%)"
    assert found["color"] == colour
    svg = app.test_client().get(urlsplit(picture).path).text
    assert f"accuracy: {found['message']}" in svg
    shared = read(app.test_client().get(urlsplit(frame).path))
    assert f"Accuracy: {found['message']}, by the 95 %" in shared.text
    assert "Balanced accuracy, by 3,000 labels of its own queries" in shared.text
