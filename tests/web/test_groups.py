"""The group of a query on its page, and what a detector says of groups."""

import html
import re

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tests.web.test_queries import _links as links_of
from tests.web.test_settings import FIELDS


def group_of(page: Page) -> str:
    found = re.search(r"<dt>Group</dt><dd>(.*?)</dd>", page.html, re.S)
    assert found is not None
    return html.unescape(re.sub("<[^>]+>", "", found[1])).strip()


def test_a_query_says_its_group_and_by_which_query_that_counts(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [
        {"key": f"k{number}", "predicted": "YES", "label": "YES", "group": "event <1>"}
        for number in range(2)
    ]
    for row in rows:
        shelf.add_queries(detector_id, [row])
    listed = visitor.get(f"/detectors/{detector_id}/queries")
    said = {group_of(visitor.get(link)) for link in links_of(listed)}
    assert said == {
        "event <1>. It counts by this query",
        "event <1>. Another query of it counts, so this label does not",
    }
    page = visitor.get(links_of(listed)[0])
    [link] = [
        a.attributes["href"]
        for a in page.find("a")
        if "where=group" in a.attributes.get("href", "")
    ]
    assert len(set(links_of(visitor.get(link)))) == 2
    page = visitor.get(f"/detectors/{detector_id}")
    assert "of groups that count by another query" in page.text


def test_what_names_the_groups_is_set_and_taken_away(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/setup"
    visitor.send(path, FIELDS | {"group_by": " metadata.session "})
    assert visitor.get(path).form(path)["group_by"] == "metadata.session"
    visitor.send(path, FIELDS | {"group_by": ""})
    assert visitor.get(path).form(path)["group_by"] == ""
    answer = visitor.post(path, FIELDS | {"group_by": "session"})
    assert answer.status == 422
    assert "it must be like metadata.session" in answer.text


def test_a_page_warns_of_mistakes_that_come_in_bursts(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    rows = [
        {
            "key": f"k{number}",
            "predicted": "NO" if number // 5 % 8 == 0 else "YES",
            "label": "YES",
            "sampling": "random",
        }
        for number in range(100)
    ]
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}")
    assert "Mistakes come in bursts (12 neighbouring pairs" in page.text
    [link] = [a for a in page.find("a") if "#group_by" in a.attributes.get("href", "")]
    assert link.attributes["href"] == f"/detectors/{detector_id}/setup#group_by"
