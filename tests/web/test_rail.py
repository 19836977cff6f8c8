"""What every page has at hand: Find, the inbox, Label, Alerts and what is pinned."""

import pytest
from flask import Flask

from tests.conftest import by
from tests.databases import noted_statements
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.detectors import archive_detector, get_detector
from tracker.services.people.accounts import change_account, get_account
from tracker.storage.database import Database


def rail(page: Page) -> list[str]:
    html = page.html.partition('<nav class="rail"')[2].partition("</nav>")[0]
    links = [a for a in page.find("a") if f'href="{a.attributes["href"]}"' in html]
    return [a.text for a in links if a.text in html or "<kbd" in html]


def found(page: Page) -> list[str]:
    return [one.text for one in page.find("li")]


@pytest.mark.parametrize(
    ("role", "missing"), [("admin", ""), ("editor", "People"), ("viewer", "Label")]
)
def test_the_rail_leads_to_what_one_may_do(app: Flask, role: str, missing: str) -> None:
    page = Visitor(app, "somebody", role).get("/nowhere")
    assert page.status == 404
    shown = rail(page)
    for name in ("Find /", "Inbox", "Detectors", "Label", "Alerts"):
        assert (name in shown) is (name != missing)
    assert ("People" in shown) is (role == "admin")


def test_a_pinned_detector_is_at_hand_on_every_page(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    door, lid = shelf.add_detector(), shelf.add_detector(name="lid")
    path = f"/detectors/{door}/pin"
    assert visitor.get(f"/detectors/{door}").form(path) is not None
    assert visitor.send(path, {"pinned": "yes"}).status_code == 303
    assert visitor.send(path, {"pinned": "yes"}).status_code == 303
    page = visitor.get("/account")
    assert "Pinned" in page.text
    assert page.find("a", href=f"/detectors/{door}")
    assert "★ Pinned" in visitor.get(f"/detectors/{door}").text
    assert "☆ Pin" in visitor.get(f"/detectors/{lid}").text
    listed = visitor.get("/?state=mine")
    assert "Mine and pinned 1" in listed.text
    assert [
        row.attributes["id"] for row in listed.find("tr") if "id" in row.attributes
    ] == [door]
    # It is of one person, and of no use where they no longer see it.
    other = Visitor(app, "other", "viewer")
    assert "Pinned" not in other.get("/account").text
    other.send(path, {"pinned": "yes"})
    with database.write() as session:
        change_account(session, get_account(session, "other"), by(), detectors=[lid])
    assert "Pinned" not in other.get("/account").text
    visitor.send(path, {"pinned": "no"})
    assert "Pinned" not in visitor.get("/account").text
    visitor.send(path, {"pinned": "yes"})
    with database.write() as session:
        archive_detector(session, get_detector(session, door), by())
    assert "Pinned" not in visitor.get("/account").text


def test_find_shows_detectors_pages_and_queries_by_their_key(
    app: Flask, visitor: Visitor, door: str, shelf: Shelf
) -> None:
    shelf.add_detector(name="lid", question="Is the lid on the doorstep?")
    page = visitor.get("/find?q=DOOR")
    assert found(page)[:2] == ["door Not measured", "lid Not measured"]
    assert found(page)[2:4] == ["Label", "Mistakes"]
    assert page.find("a", href=f"/detectors/{door}/mistakes")
    keyed = visitor.get("/find?q=q1")
    assert found(keyed) == ["q1 door"]
    (link,) = [
        a for a in keyed.find("a") if a.attributes["href"].startswith("/queries/")
    ]
    assert visitor.get(link.attributes["href"]).status == 200
    assert "People" in found(visitor.get("/find"))
    assert "No detector, page or key" in visitor.get("/find?q=%00").text
    vera = Visitor(app, "vera", "viewer").get("/find?q=door")
    assert "Label" not in found(vera)
    assert "Setup" in found(vera)


def test_find_shows_nothing_of_what_one_does_not_see(
    app: Flask, database: Database, door: str, shelf: Shelf
) -> None:
    shelf.add_detector(name="lid", question="Is it on?")
    limited = Visitor(app, "limited", "editor")
    with database.write() as session:
        account = get_account(session, "limited")
        change_account(session, account, by(), detectors=["lid"])
    for text in ("door", "q1"):
        assert found(limited.get(f"/find?q={text}")) == []


def names(page: Page) -> list[str]:
    return [a.text for a in page.find("a") if "name" in a.attributes.get("class", "")]


def test_the_list_is_filtered_by_tag_and_owner_and_remembers_views(
    visitor: Visitor, shelf: Shelf
) -> None:
    shelf.add_detector(name="a", tags=["dock", "night"], owner="maria")
    shelf.add_detector(name="b", tags=["dock"])
    shelf.add_detector(name="c")
    assert [a for a in names(visitor.get("/?tag=dock")) if a in "abc"] == ["a", "b"]
    page = visitor.get("/?tag=dock&owner=maria")
    assert [a for a in names(page) if a in "abc"] == ["a"]
    query = "tag=dock&owner=maria"
    assert visitor.send("/views", {"name": "Mine", "query": query}).status_code == 303
    (view,) = [a for a in visitor.get("/").find("a") if a.text == "Mine"]
    assert view.attributes["href"] == f"/?{query}"
    visitor.send("/views", {"name": "Mine", "query": query, "forget": "yes"})
    assert "Mine" not in visitor.get("/").text


def test_tags_and_owner_are_changed_on_the_page_of_settings(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    fields = {"name": "door", "question": "Shut?", "confidence_level": "95"}
    more = {"tags": "dock, night shift ,", "owner": "maria"}
    sent = visitor.send(f"/detectors/{detector_id}/setup", fields | more)
    assert sent.status_code == 303
    page = visitor.get(f"/detectors/{detector_id}/setup")
    assert page.by_id("tags").attributes["value"] == "dock, night shift"
    assert page.by_id("owner").attributes["value"] == "maria"


def test_the_tab_of_mistakes_has_their_number_and_leads_to_that_version(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    right = {"predicted": "YES", "label": "YES", "version": "v2"}
    shelf.add_queries(published, [right, {**right, "label": "NO"}])
    path = f"/detectors/{published}"
    for place in ("", "/mistakes", "/slices", "/changes", "/labelling", "/setup"):
        for version, number in (("v1", 8), ("v2", 1)):
            page = visitor.get(f"{path}{place}?version={version}")
            (tab,) = [a for a in page.find("a") if a.attributes.get("data-go") == "gm"]
            assert tab.text == f"Mistakes {number}"
            address = f"{path}/mistakes?version={version}"
            assert tab.attributes["href"] == address


def test_the_counts_of_rail_and_tabs_cost_two_statements(
    visitor: Visitor, database: Database, published: str
) -> None:
    path = f"/detectors/{published}/badges"
    visitor.get(path)
    with noted_statements(database) as statements:
        visitor.get(path)
    assert sum("queue_rank" in one for one in statements) == 1
    assert sum("FROM pending_batches" in one for one in statements) == 1
    assert len(statements) <= 11
