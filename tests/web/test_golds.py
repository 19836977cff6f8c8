"""Gold queries on the pages: marked by editors, answered blind, and what is said."""

import re

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor

GOLDS = 6


@pytest.fixture
def eve(app: Flask) -> Visitor:
    return Visitor(app, "eve", "editor")


@pytest.fixture
def ann(app: Flask) -> Visitor:
    return Visitor(app, "ann", "labeler")


@pytest.fixture
def door(shelf: Shelf) -> str:
    detector_id = shelf.add_detector(gold_rate=0.5)
    shelf.add_queries(
        detector_id, [{"key": f"q{i}", "predicted": "YES"} for i in range(40)]
    )
    return detector_id


@pytest.fixture
def golds(eve: Visitor, door: str) -> set[str]:
    """Six queries whose answer is known to be NO."""
    page = eve.client.get(f"/detectors/{door}/queries").text
    found = list(dict.fromkeys(re.findall(r"/queries/(iq_\d+)\"", page)))[:GOLDS]
    for query in found:
        sent = eve.send(f"/queries/{query}/gold", {"known": "NO"})
        assert sent.status_code == 303
    return set(found)


def blind(html: str) -> str:
    """Return a page without what differs from query to query."""
    html = re.sub(
        r"data-now=\"[^\"]*|iq_\d+|q\d+|seen=[^&\"]*|\d+ by (you|everyone)", "", html
    )
    return re.sub(r'name="csrf_token" value="[^"]*"', "", html)


@pytest.mark.slow
def test_the_label_page_of_a_gold_query_is_that_of_any_other(
    ann: Visitor, door: str, golds: set[str]
) -> None:
    path = f"/detectors/{door}/label"
    shown: dict[tuple[bool, bool], set[str]] = {}
    last, page = False, ann.get(path)
    for number in range(16):
        query = page.form(path)["query"]
        if number > 0:
            shown.setdefault((query in golds, last), set()).add(blind(page.html))
        sent = ann.send(path, {"query": query, "label": "YES"})
        assert sent.status_code == 303
        last, page = query in golds, ann.get(sent.headers["Location"])
        assert "the detector agreed" in page.text
        assert f"{number + 1} by you, {number + 1} by everyone" in page.text
        back = ann.get(f"/queries/{query}")
        assert "so the detector was right" in back.text
        assert "Gold" not in back.text
        assert "current" in back.text
        # It can be changed, and is shown again as it was.
        again = ann.get(f"{path}?again={query}")
        assert "You said YES" in again.text
    assert {is_gold for is_gold, _ in shown} == {True, False}
    assert {was_gold for _, was_gold in shown} == {True, False}
    assert len(set.union(*shown.values())) == 1
    # What the numbers of the estimate would tell is not on the page.
    assert "Right so far" not in page.text
    assert "left in the random queue" not in page.text


def test_a_grid_with_gold_queries_is_that_of_any_others(
    ann: Visitor, eve: Visitor, door: str, golds: set[str]
) -> None:
    path = f"/detectors/{door}/label/grid"
    page = ann.get(path)
    names = page.form(path)["queries"].split()
    assert len(names) == 24
    assert golds & {*names}
    assert "Gold" not in page.text
    sent = ann.send(path, {"queries": " ".join(names), "rest": "YES"})
    assert sent.status_code == 303
    said = "24 labels saved. The detector agreed on 24 of 24."
    assert said in ann.get(sent.headers["Location"]).text
    known = len(golds & {*names})
    report = eve.get(f"/detectors/{door}/labelers").text
    assert f"{known}/{known}" in report
    assert "ann" in report


def test_an_editor_marks_a_query_and_sees_who_erred(
    ann: Visitor, eve: Visitor, door: str, golds: set[str]
) -> None:
    one = min(golds)
    page = eve.get(f"/queries/{one}")
    assert "The known answer is NO" in page.text
    assert "Nobody has answered it yet" in page.text
    assert "Its labels" not in page.text
    ann.send(f"/queries/{one}", {"label": "YES"})
    assert "1 of 1 person answered otherwise" in eve.get(f"/queries/{one}").text
    report = eve.get(f"/detectors/{door}/labelers").text
    assert "Mistakes found by gold queries" in report
    assert "50 % mixed in" in report.replace("\N{NARROW NO-BREAK SPACE}", " ")
    refused = eve.post(f"/queries/{one}", {"label": "YES"})
    assert refused.status == 422
    assert "this query is gold" in refused.text
    wrong = eve.post(f"/queries/{one}/gold", {"known": "MAYBE"})
    assert wrong.status == 422
    assert "it must be one of YES, NO, UNCLEAR" in wrong.text
    assert eve.send(f"/queries/{one}/gold/end").status_code == 303
    assert "Use as a gold query" in eve.get(f"/queries/{one}").text
    assert ann.send(f"/queries/{one}/gold", {"known": "NO"}).status_code == 403
    assert "no longer gold" in eve.get(f"/detectors/{door}/labelers").text


@pytest.mark.thorough
def test_a_skipped_gold_query_does_not_come_again(
    ann: Visitor, door: str, golds: set[str]
) -> None:
    path = f"/detectors/{door}/label"
    seen = []
    for _ in range(20):
        query = ann.get(path).form(path)["query"]
        seen.append(query)
        assert ann.send(path, {"query": query, "skip": "1"}).status_code == 303
    assert golds & {*seen}
    assert len(set(seen)) == len(seen)


def test_a_rate_is_typed_in_percent(eve: Visitor, door: str) -> None:
    page = f"/detectors/{door}/setup"
    form = eve.get(page).form(page)
    assert form["gold_rate"] == "50"
    refused = eve.post(page, form | {"gold_rate": "51"})
    assert "is not a percentage from 0 to 50, such as 5" in refused.text
    assert eve.send(page, form | {"gold_rate": "0"}).status_code == 303
    assert eve.get(page).form(page)["gold_rate"] == "0"
