"""The figures of an audit: counted and computed again, or beside what the API answers.

Counts come from the rows by plain SQL, and forecasts follow from the widths by the
documented rule.  How `active` computes its intervals is tested with the statistics:
here it is that page, report and API say the same ones, rounded outward.  What random
labels would have given is simulated by the product's own function, with other seeds.
"""

import hashlib
import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from flask import Flask

from tests.conftest import Clock, FillOnce
from tests.web.auditing import (
    CLASSES,
    LABELS,
    QUERIES,
    SEED,
    Farm,
    ask,
    counts_of,
    drawable,
    draws_of,
    known_by,
    read_sql,
    rounds_of,
)
from tests.web.census import read_rows, span, two_figures
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tests.web.test_audits import begin, label
from tests.web.test_figures import cells, words_of
from tracker.services.labelling.auditing.audit_draws import load_record
from tracker.services.labelling.auditing.audit_estimates import Comparison
from tracker.services.labelling.auditing.audits import get_audit
from tracker.stats import Goal, Ledger, Step, imagine, label_shares
from tracker.storage.database import Database

HALF_WIDTH = 0.05
INTERVALS = "Intervals of the set"
SEEDS = range(100, 112)


@pytest.fixture
def farm(shelf: Shelf, database: Database, clock: Clock) -> Farm:
    return Farm(shelf, database, clock)


@pytest.fixture
def address(farm: Farm, fill_once: FillOnce) -> str:
    found: str = fill_once(farm.build)
    return found


@pytest.mark.slow
def test_an_audit_says_what_is_stored_and_what_the_api_says(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database, keys: dict[str, str]
) -> None:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [
        {"key": f"k{n}", "predicted": ("ewe", "ram")[n % 3 == 0], "confidence": 0.7}
        for n in range(30)
    ]
    shelf.add_queries(detector_id, rows)
    address = begin(visitor, detector_id, points="3")
    label(visitor, detector_id, 18)
    stored = [row for row in read_rows(database) if row.label]
    right = sum(row.is_right for row in stored)
    assert len(stored) == 18
    page = visitor.get(address)
    assert "30 queries, 18 of them labelled" in page.text
    answer = app.test_client().get(
        f"/api/v1{address}/estimate",
        headers={"Authorization": f"Bearer {keys['viewer']}"},
    )
    found = answer.get_json()
    assert found["method"] == "active"
    low, high = found["balanced"]["low"], found["balanced"]["high"]
    said = f"On these 30 queries it is right {span(low, high)} % of the time,"
    assert said in page.by_id("audit-title").text
    ewe = next(one for one in found["classes"] if one["class"] == "ewe")
    assert (ewe["correct"], ewe["labelled"]) == (right, 18)
    bounds = span(ewe["low"], ewe["high"])
    assert ["ewe", f"{bounds} %", f"{right} of 18"] in cells(page, INTERVALS)
    # Chosen labels stay out of the accuracy of the detector.
    assert "Not measured yet" in visitor.get(f"/detectors/{detector_id}").text


@pytest.mark.thorough
def test_the_plan_says_what_the_audit_then_foresees(
    app: Flask, visitor: Visitor, shelf: Shelf, keys: dict[str, str]
) -> None:
    detector_id = shelf.add_detector(classes=CLASSES)
    rows = [
        {"predicted": CLASSES[n % 6 == 0], "confidence": (0.6, 0.99)[n % 5 > 0]}
        for n in range(200)
    ]
    shelf.add_queries(detector_id, rows)
    asked = {"aim": "ram", "points": "12", "plan": "1"}
    plan = visitor.post(f"/detectors/{detector_id}/audits", asked).by_id("plan").text
    audit = ask(app, keys, begin(visitor, detector_id, aim="ram", points="12"))
    labels, at_random = audit["labels_expected"], audit["labels_at_random"]
    assert min(labels, at_random) > 1
    assert plan.startswith(
        f"200 queries. About {two_figures(labels)} labels should do;"
    )
    assert f"at random it would take about {two_figures(at_random)}." in plan
    is_little = 10 * labels > 9 * at_random
    assert ("An audit would save nothing." in plan) == is_little


def needed(draws: int, half_width: float, total: int, goal: float = HALF_WIDTH) -> int:
    """The square of the half-width goes with 1 / labels - 1 / total."""
    if half_width <= goal or draws >= total:
        return draws
    share = min(1, (goal / half_width) ** 2)
    inverse = 1 / total + share * (1 / draws - 1 / total)
    return min(total, max(draws + 1, math.ceil(1 / inverse)))


def foreseen(draws: int, half_width: float, first: int, total: int) -> int:
    """Of few labels the interval says little: what was foreseen at first counts."""
    if draws < min(100, first // 2 + 1) and half_width > HALF_WIDTH:
        return min(total, max(first, draws + 1))
    return needed(draws, half_width, total)


def interval(one: dict[str, Any]) -> str:
    return span(one["low"], one["high"])


def aimed_of(found: dict[str, Any]) -> dict[str, Any]:
    (ram,) = [one for one in found["classes"] if one["class"] == "ram"]
    return dict(ram)


def say(found: dict[str, Any]) -> str:
    """The sentence of the accuracy of one class, without its end."""
    ends = interval(aimed_of(found))
    said = f"On these {QUERIES} queries, when the truth is ram, it is right"
    return f"{said} {ends} % of the time"


def half_of(one: dict[str, Any]) -> float:
    return float(one["high"] - one["low"]) / 2


def fact(page: Page, name: str) -> str:
    """What stands beside a name in a list of facts."""
    (said,) = re.findall(rf"<dt>{name}</dt>(.*?)</div>", page.html, re.S)
    return words_of(said)


@pytest.mark.slow
def test_what_an_audit_says_now_and_on_the_way(
    app: Flask, visitor: Visitor, address: str, database: Database, keys: dict[str, str]
) -> None:
    told, rounds = draws_of(visitor, address), rounds_of(database)
    drawn = {int(row["query"][3:]) for row in told}
    used = next(n for n, row in enumerate(told) if not row["label"])
    waiting = sum(not row["label"] for row in told)
    assert waiting == 2
    # Of the last six draws the second and the fourth.
    assert used == len(told) - 5 > LABELS
    known = known_by(database, rounds[-1][1]) - drawn
    counts, unclear = counts_of(told, known, database)
    labels = sum(labelled for _, labelled in counts.values())
    page, history = visitor.get(address), ask(app, keys, f"{address}/history")["items"]
    found, audit = ask(app, keys, f"{address}/estimate"), ask(app, keys, address)
    known_otherwise = QUERIES - drawable(database, told)
    said = f"{labels + unclear} of them labelled, {known_otherwise} outside this audit"
    assert f"{QUERIES} queries, {said}" in page.text
    assert fact(page, "Evidence") == (
        f"{used} of {len(told)} draws; {waiting} wait for their label; "
        f"{len(told) - waiting - used} labels count once the draws before them are "
        "labelled, which are offered to others half an hour after somebody got them"
    )
    assert [one["class"] for one in found["classes"]] == CLASSES
    for one in (*found["classes"], found["balanced"], found["overall"]):
        assert 0 <= one["low"] <= one["accuracy"] <= one["high"] <= 1
    for one in found["classes"]:
        right, of = counts[one["class"]]
        assert (one["correct"], one["labelled"]) == (right, of)
        shown = [one["class"], f"{interval(one)} %", f"{right} of {of}"]
        assert shown in cells(page, INTERVALS)
    assert say(found) in page.by_id("audit-title").text
    # The way it closed in.
    total, first = drawable(database, told), audit["labels_expected"]
    starts = [frozen["start"] for frozen, _ in rounds]
    table = cells(page, "Interval by number of labels")[::-1]
    expected = []
    for number, (draws, point) in enumerate(zip([*starts, used], history, strict=True)):
        _, at = rounds[max(0, number - 1)]
        before = known_by(database, at) - drawn
        parts, _ = counts_of(told[:draws], before, database)
        of = sum(labelled for _, labelled in parts.values())
        if number == len(starts):
            of = labels
        ends = interval(aimed_of(point)).split("\N{EN DASH}")
        most = foreseen(draws, half_of(aimed_of(point)), first, total)
        row = [str(draws), str(of), f"{ends[0]} %", f"{ends[1]} %", str(most)]
        expected.append(row)
        assert (point["draws"], point["labels"]) == (draws, of)
        assert point["labels_expected"] == most
    # Here, 100 has a decimal like the others.
    assert [[cell.replace("100.0", "100") for cell in row[:5]] for row in table] == (
        expected
    )
    # What is still to come.
    most = int(expected[-1][-1])
    left = (
        f"About {two_figures(most - used)} more labels to reach \N{PLUS-MINUS SIGN} 5"
    )
    assert left in page.text
    assert found["labels_left"] == most - used
    assert f"after about {two_figures(most)}" in page.text
    begun, half, now = (expected[n][-1] for n in (0, len(expected) // 2, -1))
    assert fact(page, "Forecast") == (
        f"{two_figures(int(begun))} at the beginning, {two_figures(int(half))} after "
        f"{expected[len(expected) // 2][0]}, {two_figures(int(now))} now; at random "
        f"{two_figures(audit['labels_at_random'])}, seen from the beginning"
    )


@pytest.mark.thorough
def test_who_labelled_an_audit(
    visitor: Visitor, address: str, database: Database
) -> None:
    labelers = Counter(
        name
        for (name,) in read_sql(
            database,
            "SELECT l.labeler FROM labels l JOIN audit_draws d"
            " ON d.query_id = l.query_id",
        )
    )
    assert len(labelers) == 2
    said = ", ".join(f"{name} {number}" for name, number in labelers.most_common())
    assert fact(visitor.get(address), "Who") == said
    report = words_of(visitor.client.get(f"{address}/report").text)
    for name, number in labelers.items():
        assert f"{name} {number} labels" in report


def widths_of(page: Page) -> tuple[float, float]:
    """The width now and that at random, in points."""
    found = re.search(r"Width now ([\d.]+) points, at random ([\d.]+)\.", page.text)
    assert found is not None
    return float(found[1]), float(found[2])


@pytest.mark.thorough
def test_what_random_labels_would_have_given(
    app: Flask, visitor: Visitor, address: str, database: Database, keys: dict[str, str]
) -> None:
    page, found = visitor.get(address), ask(app, keys, f"{address}/estimate")
    used, half = found["labels_used"], half_of(aimed_of(found))
    now, at_random = widths_of(page)
    assert now == math.ceil(2_000 * half) / 10
    # It is rounded up to a tenth of a point, and so between these.
    ends = [(at_random - 0.1) / 200, at_random / 200]
    worth = [two_figures(round(used * (one / half) ** 2)) for one in ends]
    said = re.search(r"would have taken about (\d+) labels instead of (\d+)", page.text)
    assert said is not None
    assert int(said[2]) == used
    assert worth[0] <= int(said[1]) <= worth[1]
    total = drawable(database, draws_of(visitor, address))
    left = [two_figures(needed(used, one, total) - used) for one in ends]
    said = re.search(r"At random it would take about (\d+) more", page.text)
    assert said is not None
    assert left[0] <= int(said[1]) <= left[1]
    marks = [two_figures(needed(used, one, total)) for one in ends]
    said = re.search(r"at random after about (\d+)", page.text)
    assert said is not None
    assert marks[0] <= int(said[1]) <= marks[1]
    # How many times as wide it is: by other simulations of the same.
    with database.read() as session:
        ledger = load_record(session, get_audit(session, "aud_1")).ledger
    goal = Goal(1, 0.12, None)
    shares = label_shares(ledger, ledger.known[-1], goal)
    halves = np.array(
        [
            [half_at(used, ledger, shares, seed, is_even=is_even) for seed in SEEDS]
            for is_even in (True, False)
        ]
    )
    even, chosen = halves.mean(axis=1)
    spread = (halves.std(axis=1) / halves.mean(axis=1) / len(SEEDS) ** 0.5).tolist()
    assert at_random / now == pytest.approx(even / chosen, rel=4 * math.hypot(*spread))
    assert at_random > 1.1 * now


def half_at(
    draws: int, ledger: Ledger, shares: Any, seed: int, *, is_even: bool
) -> float:
    """Return the half-width after so many draws of an audit that never was."""
    course = imagine(
        *(ledger.strata, shares, ledger.known[-1], Goal(1, 0.12, None), 0.95),
        is_even=is_even,
        draws=draws + 20,
        seed=seed,
    )
    labels, halves = zip(*((one.labels, one.half_width) for one in course), strict=True)
    return float(np.interp(draws, labels, halves))


@pytest.mark.thorough
def test_the_report_says_what_page_and_rows_say(
    app: Flask, visitor: Visitor, address: str, database: Database, keys: dict[str, str]
) -> None:
    told, rounds = draws_of(visitor, address), rounds_of(database)
    known = known_by(database, rounds[-1][1])
    known -= {int(row["query"][3:]) for row in told}
    counts, unclear = counts_of(told, known, database)
    found = ask(app, keys, f"{address}/estimate")
    labels = sum(labelled for _, labelled in counts.values())

    def read() -> str:
        return words_of(visitor.client.get(f"{address}/report").text)

    is_seen = "To know this much at random would have taken about"
    saved = visitor.get(address).text.partition(is_seen)[2].split()[0]
    for is_closed in (False, True):
        if is_closed:
            assert visitor.send(f"{address}/close").status_code == 303
        said = read()
        ends = interval(found["balanced"])
        assert f"{say(found)}." in said
        assert f"Balanced: the mean of the classes {ends} % {labels} ewe" in said
        for one in found["classes"]:
            right, of = counts[one["class"]]
            assert f"{one['class']} {interval(one)} % {right} {of}" in said
        right = sum(one for one, _ in counts.values())
        overall = f"Over all queries {interval(found['overall'])} % {right} {labels}"
        assert overall in said
        assert f"{unclear} labels are unclear and not scored" in said
        used = next(n for n, row in enumerate(told) if not row["label"])
        waiting = sum(not row["label"] for row in told)
        assert f"{len(told)} queries were drawn with known chances, partly" in said
        assert f"{used} of them count; {waiting} had no label" in said
        assert f"{is_seen} {saved} labels instead of" in said
    assert hashlib.sha256(f"audit {SEED}".encode()).hexdigest() in said
    closed = f"accuracy of ram {interval(aimed_of(found))} % from {labels} labels"
    assert closed in fact(visitor.get(address), "Closed")
    # The list says what the audit aimed at.
    closed = f"closed: {interval(aimed_of(found))} % from {labels} labels"
    assert closed in visitor.get("/detectors/det_1/audits").text
    (row,) = cells(visitor.get("/detectors/det_1/changes"), "Closed audits")
    assert row[2:5] == [str(QUERIES), str(labels), f"{interval(found['balanced'])} %"]


@pytest.mark.slow
def test_an_audit_that_cannot_choose_gives_what_random_labels_give(
    visitor: Visitor, farm: Farm, fill_once: FillOnce
) -> None:
    page = visitor.get(fill_once(farm.build_idle))
    now, at_random = widths_of(page)
    # Draws from classes that are alike are random draws.
    assert at_random == pytest.approx(now, rel=0.04)
    idle = page.by_id("saved").text
    assert "So far choosing tells no more than chance would" in idle
    cost = re.search(r"has cost about (\d+) label", idle)
    assert "It has cost nothing" in idle or (cost and int(cost[1]) < 0.1 * LABELS)


@pytest.mark.slow
def test_how_far_it_is_to_a_target(
    app: Flask, visitor: Visitor, farm: Farm, fill_once: FillOnce, keys: dict[str, str]
) -> None:
    address, database = fill_once(farm.build_targeted), farm.database
    page = visitor.get(address)
    found = ask(app, keys, f"{address}/estimate")
    ram = aimed_of(found)
    assert say(found) in page.by_id("audit-title").text
    assert ram["low"] < 0.8 < ram["high"]
    used, half_width = found["labels_used"], half_of(ram)
    assert found["half_width"] == pytest.approx(half_width)
    # As narrow as its middle is far from the target, the interval leaves it out.
    goal = abs((ram["low"] + ram["high"]) / 2 - 0.8)
    assert goal > 0.005
    total = drawable(database, draws_of(visitor, address))
    left = needed(used, half_width, total, goal) - used
    assert found["labels_left"] == left
    assert f"About {two_figures(left)} more labels to tell it from 80 %." in page.text
    _, at_random = widths_of(page)
    ends = [
        two_figures(needed(used, half / 200, total, goal) - used)
        for half in (at_random - 0.05, at_random + 0.05)
    ]
    more = re.search(r"At random it would take about (\d+) more", page.text)
    assert more is not None
    assert ends[0] <= int(more[1]) <= ends[1]


def test_only_what_lies_between_two_simulations_is_told() -> None:
    start = Step(0, 0.0, 1.0)
    chosen, even = Step(200, 0.6, 0.8), Step(200, 0.55, 0.85)
    found = Comparison([start, chosen], [start, even])
    # Half as wide again is worth 2.25 times as many labels.
    assert found.labels_saved(200) == 250
    assert found.half_width_at_random(200, 0.06) == pytest.approx(0.09)
    (first, last) = found.at_random([start, Step(200, 0.65, 0.75)])
    assert first == start
    assert last == pytest.approx((200, 0.625, 0.775))
    # Where all is labelled, the last digits say nothing of the choice.
    ends = [Step(200, 0.7, 0.70001), Step(200, 0.7, 0.70003)]
    found = Comparison([start, ends[0]], [start, ends[1]])
    assert found.labels_saved(200) == 0
