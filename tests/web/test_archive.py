"""Archived detectors: where they are found, what they offer, and the way back."""

import re

import pytest
from flask import Flask

from tests.conftest import by
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.people.accounts import change_account, get_account
from tracker.storage.database import Database


@pytest.fixture
def archived(visitor: Visitor, door: str) -> str:
    visitor.send(f"/detectors/{door}/archive", {"sure": "yes"})
    return door


TABS = ["Overview", "Mistakes", "Slices", "Changes", "Labelling", "Setup"]


def tabs(page: Page, name: str = "tabs") -> list[str]:
    inside = page.html.partition(f'<nav class="{name}"')[2].partition("</nav>")[0]
    return re.findall(">([^<]+)</a>", inside)


def test_its_pages_offer_nothing_that_cannot_be_done(
    app: Flask, visitor: Visitor, door: str
) -> None:
    path = f"/detectors/{door}"
    inside = ["Setup", "Data", "Intervals", "Studies", "Sharing"]
    assert tabs(visitor.get(path)) == TABS
    assert tabs(visitor.get(f"{path}/setup"), "sub-tabs") == inside
    visitor.send(f"{path}/archive", {"sure": "yes"})
    # Only editors make badges.
    vera = Visitor(app, "vera", "viewer")
    for person, missing in ((visitor, {"Data"}), (vera, {"Data", "Sharing"})):
        page = person.get(path)
        assert "This detector was archived" in page.text
        assert tabs(page) == TABS
        setup = person.get(f"{path}/setup")
        offered = [one for one in inside if one not in missing]
        assert tabs(setup, "sub-tabs") == offered
        assert "An archived detector cannot be changed" in setup.text
        offered = [a.attributes["href"] for a in page.find("a")]
        assert not {f"{path}/label", f"{path}/import"} & set(offered)
    assert visitor.get(f"{path}/import").find("input", type="file") == []
    page = visitor.get("/queries/iq_16777217")
    assert page.find("select", name="label") == []


def test_it_is_listed_and_brought_back(
    app: Flask, visitor: Visitor, archived: str
) -> None:
    eve, vera = Visitor(app, "eve", "editor"), Visitor(app, "vera", "viewer")
    path = f"/detectors/{archived}"
    for person in (visitor, eve, vera):
        [link] = [a for a in person.get("/").find("a") if "Archived" in a.text]
        assert link.text == "Archived detectors (1)"
        listed = person.get(link.attributes["href"])
        assert [a.text for a in listed.find("a", href=path)] == ["door"]
    assert "Bring it back" not in vera.get(path).text
    assert vera.send(f"{path}/bring-back").status_code == 403
    assert "Bring it back" in eve.get(path).text
    back = eve.send(f"{path}/bring-back")
    assert (back.status_code, back.location) == (303, path)
    page = eve.get(path)
    assert "door is back." in page.text
    assert "was archived" not in page.text
    assert "Label" in [a.text for a in page.find("a", href=f"{path}/label")]
    assert "Archived" not in eve.get("/").text
    assert eve.get("/detectors/archived").text.count("None.") == 1
    # A second time it is there already.
    assert eve.send(f"{path}/bring-back").status_code == 303
    log = visitor.get("/activity?what=detector+brought+back")
    assert [row.text for row in log.find("th", scope="row")] == ["eve"]
    label = f"{path}/label"
    query = eve.get(label).form(label)["query"]
    assert eve.send(label, {"query": query, "label": "YES"}).status_code == 303


def test_it_stays_where_it_is_while_another_has_its_name(
    visitor: Visitor, shelf: Shelf, archived: str
) -> None:
    other = shelf.add_detector()
    path = f"/detectors/{archived}"
    assert visitor.send(f"{path}/bring-back").status_code == 303
    page = visitor.get(path)
    assert "Another detector is now named 'door'; rename" in page.text
    assert "This detector was archived" in page.text
    visitor.send(f"/detectors/{other}/archive", {"sure": "yes"})
    visitor.send(f"{path}/bring-back")
    assert "door is back." in visitor.get(path).text
    assert "Archived detectors (1)" in visitor.get("/").text


@pytest.mark.thorough
def test_many_come_in_pages_and_only_to_whom_they_were_given(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    for number in range(52):
        detector_id = shelf.add_detector(name=f"d{number}")
        visitor.send(f"/detectors/{detector_id}/archive", {"sure": "yes"})
    first = visitor.get("/detectors/archived")
    [following] = [a for a in first.find("a") if a.text == "Next page"]
    rest = visitor.get(following.attributes["href"])
    names = [row.text for page in (first, rest) for row in page.find("th", scope="row")]
    assert names == [f"d{number}" for number in reversed(range(52))]
    vera = Visitor(app, "vera", "viewer")
    with database.write() as session:
        account = get_account(session, "vera")
        change_account(session, account, by(), detectors=["det_3"])
    assert "Archived detectors (1)" in vera.get("/").text
    listed = vera.get("/detectors/archived").find("th", scope="row")
    assert [row.text for row in listed] == ["d2"]
