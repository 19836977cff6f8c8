"""What an editor has settled stays, no matter who says otherwise and where."""

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import read
from tracker.storage.database import Database
from tracker.storage.labels import list_labels
from tracker.storage.queries.queries import Query, find_query

QUERY = 16777217
PATH = f"/queries/iq_{QUERY}"


@pytest.fixture
def people(app: Flask) -> dict[str, Visitor]:
    roles = {"ann": "labeler", "ben": "labeler", "cleo": "labeler", "eve": "editor"}
    roles |= {"ada": "admin"}
    return {name: Visitor(app, name, role) for name, role in roles.items()}


@pytest.fixture
def disputed(people: dict[str, Visitor], shelf: Shelf) -> str:
    """A detector whose only query two people dispute, and a third is to label."""
    detector_id = shelf.add_detector(labels_wanted=3)
    shelf.add_queries(detector_id, [{"key": "q", "predicted": "YES"}])
    for name, label in (("ann", "YES"), ("ben", "NO")):
        sent = people[name].send(PATH, {"label": label, "sampling": "random"})
        assert sent.status_code == 303
    return detector_id


@pytest.fixture
def get(database: Database) -> Callable[[], Query]:
    """The query as it is stored."""

    def find() -> Query:
        with database.read() as session:
            query = find_query(session, QUERY)
            assert query is not None
            return query

    return find


def settle(people: dict[str, Visitor], **fields: Any) -> None:
    sent = people["eve"].send(PATH, {"label": "YES", "settles": "1", **fields})
    assert sent.status_code == 303


def test_its_page_offers_it_to_editors_alone(
    people: dict[str, Visitor], disputed: str, get: Callable[[], Query]
) -> None:
    settle(people)
    for name in ("ann", "cleo"):
        page = people[name].get(PATH)
        assert "An editor has settled this query" in page.text
        assert page.find("button", name="label") == []
        refused = people[name].post(PATH, {"label": "NO"})
        assert refused.status == 422
        assert "Not saved. Its labelers disagreed." in refused.text
        assert get().label == "YES"
    for name in ("eve", "ada"):
        page = people[name].get(PATH)
        assert "an editor settled it" in page.text
        assert page.find("button", name="label") != []
        assert people[name].send(PATH, {"label": "NO"}).status_code == 303
        assert (get().label, get().agreement) == ("NO", "settled")
        assert people[name].send(PATH, {"label": "YES"}).status_code == 303


def test_an_answer_to_what_was_settled_meanwhile_is_not_saved(
    people: dict[str, Visitor], disputed: str, get: Callable[[], Query]
) -> None:
    cleo, path = people["cleo"], f"/detectors/{disputed}/label"
    assert cleo.get(path).form(path)["query"] == f"iq_{QUERY}"
    settle(people)
    fields = {"query": f"iq_{QUERY}", "label": "NO"}
    sent = cleo.send(path, fields)
    assert (sent.status_code, sent.location) == (303, PATH)
    page = cleo.get(PATH)
    assert "Your answer was not saved, for an editor has settled" in page.text
    part = cleo.client.post(
        path,
        data={"csrf_token": cleo.token, **fields},
        headers={"HX-Request": "true"},
    )
    assert (part.status_code, part.headers["HX-Redirect"]) == (409, PATH)
    grid = f"/detectors/{disputed}/label/grid"
    tile = {"queries": f"iq_{QUERY}", f"iq_{QUERY}": "NO"}
    assert cleo.send(grid, tile).status_code == 303
    assert "0 labels saved" in cleo.get(grid).text
    assert get().label == "YES"


def test_the_last_answer_is_not_changed_once_it_is_settled(
    people: dict[str, Visitor], disputed: str, get: Callable[[], Query]
) -> None:
    path = f"/detectors/{disputed}/label"
    last = f"{path}?last=iq_{QUERY}"
    assert people["ben"].get(last).find("a", id="undo") != []
    settle(people)
    assert people["ben"].get(last).find("a", id="undo") == []
    assert people["eve"].get(last).find("a", id="undo") != []
    again = people["ben"].get(f"{path}?again=iq_{QUERY}")
    assert "Changing your last answer" not in again.text
    fields = {"query": f"iq_{QUERY}", "again": f"iq_{QUERY}", "label": "NO"}
    assert people["ben"].send(path, fields).location == PATH
    assert get().label == "YES"
    assert people["eve"].send(path, fields).status_code == 303
    assert (get().label, get().agreement) == ("NO", "settled")


def test_nobody_is_asked_and_it_counts_though_somebody_picked_it_out(
    people: dict[str, Visitor],
    disputed: str,
    database: Database,
    get: Callable[[], Query],
) -> None:
    # Who picks it out adds no word, and cannot take it out of the random sample.
    people["cleo"].send(PATH, {"label": "UNCLEAR", "sampling": "targeted"})
    assert (get().sampling, get().agreement) == ("random", "disputed")
    assert get().standing == "open"
    settle(people)
    assert (get().sampling, get().standing) == ("random", "random")
    assert get().queue_rank is None
    with database.read() as session:
        assert list_labels(session, get())[0].sampling == "random"
    for name in ("cleo", "ada"):
        page = read(people[name].client.get(f"/detectors/{disputed}/label"))
        assert page.find("input", name="query") == []


def test_a_file_of_an_editor_may_correct_it(
    people: dict[str, Visitor], disputed: str, shelf: Shelf, get: Callable[[], Query]
) -> None:
    settle(people)
    shelf.add_queries(disputed, [{"key": "q", "label": "NO"}])
    assert (get().label, get().agreement) == ("NO", "settled")
    refused = people["ann"].send(f"/detectors/{disputed}/import")
    assert refused.status_code == 403
