"""Several people label the same queries; an editor settles what they dispute."""

from collections.abc import Callable

import pytest
from flask import Flask
from scipy.stats import binomtest
from sqlalchemy import text

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, facts
from tracker.storage.database import Database

People = dict[str, Visitor]


@pytest.fixture
def people(app: Flask) -> People:
    roles = {"ann": "labeler", "ben": "labeler", "cleo": "labeler", "eve": "editor"}
    return {name: Visitor(app, name, role) for name, role in roles.items()}


@pytest.fixture
def door(shelf: Shelf) -> str:
    """A detector that wants two labelers for each of its four queries."""
    detector_id = shelf.add_detector(labels_wanted=2)
    shelf.add_queries(
        detector_id, [{"key": f"q{i}", "predicted": "YES"} for i in range(4)]
    )
    return detector_id


def shown(visitor: Visitor, detector_id: str) -> str | None:
    page = visitor.get(f"/detectors/{detector_id}/label")
    if "Nothing left" in page.text or "Nothing free" in page.text:
        return None
    return page.form(f"/detectors/{detector_id}/label")["query"]


def answer(visitor: Visitor, detector_id: str, label: str) -> str:
    query = shown(visitor, detector_id)
    assert query is not None
    fields = {"query": query, "label": label}
    assert visitor.send(f"/detectors/{detector_id}/label", fields).status_code == 303
    return query


def queries(visitor: Visitor, detector_id: str) -> Page:
    return visitor.get(f"/detectors/{detector_id}/queries?show=disputed")


@pytest.mark.slow
def test_each_query_is_given_to_two_people_and_to_nobody_twice(
    people: People, door: str
) -> None:
    seen = {name: set() for name in ("ann", "ben", "cleo")}
    rounds = 0
    while any(shown(people[name], door) for name in seen):
        for name, own in seen.items():
            if shown(people[name], door):
                query = answer(people[name], door, "YES")
                assert query not in own
                own.add(query)
        rounds += 1
        assert rounds < 10
    given = [query for own in seen.values() for query in own]
    assert sorted(given) == sorted(2 * list(set(given)))
    assert len(set(given)) == 4


@pytest.mark.thorough
def test_who_disagrees_is_seen_and_an_editor_settles(
    people: People, door: str, recompute: Callable[[], None]
) -> None:
    ann, ben, eve = people["ann"], people["ben"], people["eve"]
    for _ in range(4):
        answer(ann, door, "YES")
    assert "agree who labelled" not in queries(ann, door).text
    disputed = answer(ben, door, "NO")
    for _ in range(3):
        answer(ben, door, "YES")
    assert shown(people["cleo"], door) is None

    assert facts(ann.get(f"/detectors/{door}"))["Disputed"] == "1"
    page = queries(ben, door)
    exact = binomtest(3, 4).proportion_ci(0.95, method="exact")
    assert "3 of 4" in page.text
    assert f"{100 * exact.low:.1f}"[:2] in page.text
    assert "1 query waits for an editor to settle" in page.text
    assert [a for a in page.find("a") if disputed in a.attributes["href"]] != []

    path = f"/queries/{disputed}"
    assert "disagree" in ann.get(path).text
    assert "Settle it" not in ann.get(path).text
    assert "Settle it" in eve.get(path).text
    recompute()
    settled = {"label": "YES", "settles": "1", "note": "the hinge is visible"}
    assert eve.send(path, settled).status_code == 303
    assert "An editor has settled this query" in ann.get(path).text
    assert facts(ann.get(f"/detectors/{door}"))["Disputed"] == "0"
    page = queries(ben, door)
    assert "3 of 4" in page.text
    assert "to settle" not in page.text
    assert shown(people["cleo"], door) is None
    assert "Settle it" not in eve.get(path).text


@pytest.mark.thorough
def test_who_has_answered_all_is_told_that_others_have_not(
    people: People, door: str
) -> None:
    ann, ben = people["ann"], people["ben"]
    for _ in range(4):
        answer(ann, door, "YES")
    for _ in range(3):
        answer(ben, door, "YES")
    assert "1 left in the random queue" in ben.get(f"/detectors/{door}/label").text
    for page in ("label", "label/grid"):
        text = ann.get(f"/detectors/{door}/{page}").text
        assert "answered everything you can. The other queries wait for" in text
        assert "1 left in the random queue" in text
        assert "Every query" not in text
    # Those who could answer it may have to wait.
    reserved = people["cleo"].get(f"/detectors/{door}/label").text
    assert "The other queries are reserved right now, for someone else" in reserved
    answer(ben, door, "YES")
    for name in ("ann", "ben", "cleo"):
        text = people[name].get(f"/detectors/{door}/label").text
        assert "Every query of this detector has a label. Thank you." in text
        assert "0 left in the random queue" in text


def test_only_editors_settle_and_only_disputes(people: People, door: str) -> None:
    query = answer(people["ann"], door, "YES")
    refused = people["eve"].send(f"/queries/{query}", {"label": "NO", "settles": "1"})
    assert refused.status_code == 422
    assert "nobody disputes this query" in refused.text
    # A labeler who says so gives an opinion like any other.
    people["ben"].send(f"/queries/{query}", {"label": "NO", "settles": "1"})
    assert "1 query waits" in queries(people["ann"], door).text


def test_the_last_word_of_each_counts(people: People, door: str) -> None:
    query = answer(people["ann"], door, "YES")
    people["ben"].send(f"/queries/{query}", {"label": "NO"})
    assert "1 query waits" in queries(people["ann"], door).text
    people["ben"].send(f"/queries/{query}", {"label": "YES"})
    page = queries(people["ann"], door)
    assert "1 of 1" in page.text
    assert "to settle" not in page.text


@pytest.mark.thorough
def test_a_picked_query_still_gets_its_two_random_labels(
    people: People, door: str
) -> None:
    query = shown(people["ann"], door)
    people["cleo"].send(f"/queries/{query}", {"label": "NO", "sampling": "targeted"})
    given = [answer(people["ann"], door, "YES") for _ in range(4)]
    given += [answer(people["ben"], door, "YES") for _ in range(4)]
    assert given.count(query) == 2
    assert "4 of 4" in queries(people["ann"], door).text


@pytest.mark.thorough
def test_one_labeler_is_enough_unless_more_are_wanted(
    app: Flask, people: People, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(name="one")
    shelf.add_queries(detector_id, [{"predicted": "YES"}])
    query = answer(people["ann"], detector_id, "YES")
    assert shown(people["ben"], detector_id) is None
    people["ben"].send(f"/queries/{query}", {"label": "NO"})
    page = queries(people["ann"], detector_id)
    assert "agree who labelled" not in page.text
    wanted = {"name": "one", "question": "Is it?", "confidence_level": "95"}
    for typed, status in (("0", 422), ("", 422), ("10", 422), ("two", 422), ("3", 303)):
        fields = wanted | {"labels_wanted": typed, "queue_rate": "100"}
        sent = people["eve"].send(f"/detectors/{detector_id}/setup", fields)
        assert sent.status_code == status, typed


def test_the_overview_of_a_version_has_its_own_disputes(
    people: People, door: str, shelf: Shelf
) -> None:
    for said in ("NO", "NO", "NO", "YES"):
        answer(people["ann"], door, "YES")
        answer(people["ben"], door, said)
    shelf.add_queries(door, [{"predicted": "YES", "version": "v2"}])
    pages = [f"/detectors/{door}?version={one}" for one in ("default", "v2")]
    found = [facts(people["eve"].get(page))["Disputed"] for page in pages]
    assert found == ["3", "0"]


@pytest.mark.thorough
def test_settling_one_query_settles_all_of_its_input(
    people: People, shelf: Shelf, database: Database
) -> None:
    door = shelf.add_detector()
    rows = [
        {"key": version, "input": "a", "version": version, "predicted": "YES"}
        for version in ("v1", "v2")
    ]
    shelf.add_queries(door, [row | {"label": "YES"} for row in rows])
    with database.write() as session:
        session.execute(
            text("UPDATE queries SET label = 'NO' WHERE key = 'v2'"),
        )
        session.execute(text("UPDATE queries SET agreement = 'disputed'"))
        first = session.execute(text("SELECT id FROM queries WHERE key = 'v1'"))
        query = f"iq_{first.scalar_one()}"
    queues = people["ann"].get(f"/detectors/{door}/labelling").text
    assert "people disagree2settles" in queues
    compared = people["ann"].get(f"/detectors/{door}/changes?new=v2").text
    assert (
        "An input whose queries have disputed labels counts by that of v1" in compared
    )

    fields = {"label": "NO", "settles": "1"}
    assert people["eve"].send(f"/queries/{query}", fields).status_code == 303
    with database.read() as session:
        stood = session.execute(text("SELECT label, agreement FROM queries")).all()
    assert {tuple(row) for row in stood} == {("NO", "settled")}
    said = people["ann"].get(f"/queries/{query}").text
    assert "The same input was labelled" not in said
