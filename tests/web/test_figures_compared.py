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
from scipy.stats import binomtest
from sqlalchemy import text

from tests.web.census import (
    Count,
    balanced,
    by_class,
    clopper_pearson,
    count,
    mean,
    percent,
    read_rows,
    span,
)
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, read
from tests.web.test_figures import cells, figures, words_of
from tracker.stats import (
    cohen_kappa,
    cohen_kappa_interval,
    decide,
    joint_paired_difference,
    paired_anytime,
    paired_difference,
    unpaired_difference,
)
from tracker.storage.database import Database

MINUS = "\N{MINUS SIGN}"
# Of each class: both right, only the new one, only the old one, neither.
PAIRS = {"YES": (70, 14, 3, 4), "NO": (61, 9, 5, 2)}


def points(share: float) -> str:
    """Return a change in points with its sign, for what is neither 0 nor tiny."""
    size = f"{abs(100 * share):.1f}"
    return f"{'+' if share > 0 else MINUS}{size}"


def change(low: float, high: float) -> str:
    """Return the bounds of a change, rounded outward."""
    least, most = np.floor(1000 * low) / 1000, np.ceil(1000 * high) / 1000
    return f"{points(least)} to {points(most)}"


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
    return visitor.get(f"/detectors/{detector_id}/compare")


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
    (badge,) = (
        one
        for one in compared.find("span")
        if one.attributes.get("class", "").startswith("verdict ")
    )
    assert badge.text == decision.verdict.capitalize()
    shift = sum((b - c) / n for b, c, n in zip(b, c, n, strict=True)) / 2
    ends = change(decision.low, decision.high)
    assert figures(compared)[0] == f"{points(shift)} {ends} {sum(n)} pairs"
    assert compared.by_id("won-title").text == (
        f"Where the two disagree, v2 is right {won} times and v1 {against} times."
    )
    found = decide(won, against, 0.95)
    low, high = span(found.low, found.high).split("\N{EN DASH}")
    assert f"v2 wins between {low} % and {high} % of disagreements" in compared.text
    assert figures(compared)[4] == (
        f"{percent(won / (won + against))} % {low}\N{EN DASH}{high} % "
        f"{won} of {won + against} disagreements"
    )
    joint = joint_paired_difference(b, c, n, 0.95)
    ends = change(float(joint.low), float(joint.high))
    lines = [["Balanced", sum(n), won, against, points(shift), ends, ""]]
    for place, name in enumerate(("YES", "NO")):
        one = paired_difference(b[place], c[place], n[place], 0.95)
        p_value = binomtest(b[place], b[place] + c[place]).pvalue
        lines.append(
            [
                name,
                n[place],
                b[place],
                c[place],
                points((b[place] - c[place]) / n[place]),
                change(float(one.low), float(one.high)),
                f"{p_value:.3f}".rstrip("0"),
            ]
        )
    table = cells(compared, "Paired comparison")
    assert table == [[str(cell) for cell in line] for line in lines]
    assert figures(compared)[1:4] == [
        f"{line[4]} points, {line[5]} {line[1]} pairs".replace(" points,", "")
        for line in lines
    ]
    better = [f"{100 * end:.1f}" for end in (joint.low, joint.high)]
    assert float(better[0]) > 0
    least, most = lines[0][5].replace("+", "").split(" to ")
    assert f"v2 is between {least} and {most} points better" in compared.text
    both = sum(one[True, True] for one in stored.values())
    neither = sum(one[False, False] for one in stored.values())
    matrix = f"{both} both {won} gained"
    text = words_of(compared.html.partition('matrix-two">')[2].partition("</table")[0])
    assert matrix in text.replace(" : see them", "")
    assert f"{against} lost" in text
    assert text.endswith(f"{neither} neither")


def test_each_version_by_its_own_labels(compared: Page, database: Database) -> None:
    counts = {v: by_class(read_rows(database, v), ["YES", "NO"]) for v in ("v1", "v2")}
    own = {
        version: f"{percent(mean(one))} % [{span(*balanced('joint', one))}] "
        f"{count(read_rows(database, version)).words}"
        for version, one in counts.items()
    }
    # By the method that is shown on the page of each version, too.
    title = compared.html.partition('id="own-title"')[2].partition("</table>")[0]
    assert words_of(title).endswith(f"v2 {own['v2']} v1 {own['v1']}")
    table = cells(compared, "Unpaired comparison")
    new, old = (
        ([one.correct for one in found.values()], [n.labelled for n in found.values()])
        for found in (counts["v2"], counts["v1"])
    )
    apart = unpaired_difference(new, old, 0.95)
    shift = mean(counts["v2"]) - mean(counts["v1"])
    ends = change(float(apart.low), float(apart.high))
    assert table[0] == ["Balanced", own["v1"], own["v2"], points(shift), ends]
    for row, name in zip(table[1:], ("YES", "NO"), strict=True):
        for shown, version in zip(row[1:3], ("v1", "v2"), strict=True):
            one = counts[version][name]
            bounds = span(*clopper_pearson(one))
            assert shown == f"{percent(one.accuracy)} % [{bounds}] {one.words}"
        k = [counts[version][name].accuracy for version in ("v2", "v1")]
        assert row[3] == points(k[0] - k[1])


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
    assert f"Balanced accuracy: {found['message']}, by the 95 %" in shared.text
