"""Who labelled how many queries this week, and the queries behind each number."""

from datetime import timedelta

from tests.conftest import START, by
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.people.accounts import create_account
from tracker.storage.database import Database
from tracker.storage.labels import MOST_LOOKED_AT

# START is a Saturday.
MONDAY = START.replace(hour=0) - timedelta(days=5)


def add(shelf: Shelf, name: str, *, before: int, since: int) -> str:
    """Add labels of alice: so many of the Sunday before, and so many since Monday."""
    detector_id = shelf.add_detector(name=name)
    sunday = MONDAY - timedelta(microseconds=1)
    moments = [sunday] * before + [MONDAY] * since
    row = {"predicted": "YES", "label": "YES", "sampling": "random"}
    rows = [row | {"labelled_at": at.isoformat()} for at in moments]
    shelf.add_queries(detector_id, rows)
    return detector_id


def links_of(page: Page) -> dict[str, str]:
    """The address behind each number of labels."""
    return {
        link.text: link.attributes["href"]
        for link in page.find("a")
        if "label" in link.text and "href" in link.attributes
    }


def test_each_number_leads_to_as_many_queries(
    visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    with database.write() as session:
        create_account(session, "alice", "labeler", by(at=START))
        create_account(session, "bob", "labeler", by(at=START))
    door = add(shelf, "door", before=3, since=4)
    add(shelf, "gate", before=1, since=2)
    links = links_of(visitor.get("/people"))
    assert "6 labels by alice" in links
    assert not any("bob" in words for words in links)
    links = links_of(visitor.get(links["6 labels by alice"].partition("#")[0]))
    for count in (4, 2):
        page = visitor.get(links[f"{count} labels this week"])
        assert f"{count} queries" in page.text
    links = links_of(visitor.get(f"/detectors/{door}/labelling"))
    assert "4 queries" in visitor.get(links["4 labels this week"]).text


def test_a_label_that_another_person_replaced_is_theirs(
    visitor: Visitor, shelf: Shelf
) -> None:
    door = shelf.add_detector()
    shelf.add_queries(door, [{"key": "k", "predicted": "YES", "label": "YES"}])
    path = f"/detectors/{door}/labelling"
    assert "1 label this week" in links_of(visitor.get(path))
    visitor.send("/queries/iq_16777217", {"label": "NO"})
    page = visitor.get(path)
    (address,) = [one for one in links_of(page).values() if "labeler=" in one]
    assert "labeler=web" in address


def test_a_day_that_is_none_is_refused_at_its_field(
    visitor: Visitor, door: str
) -> None:
    path = f"/detectors/{door}/queries?labelled_from="
    assert visitor.get(f"{path}tomorrow").status == 400
    assert visitor.get(f"{path}0001-01-01").status == 200


def test_of_more_than_are_looked_at_it_is_so_many_at_least(
    visitor: Visitor, shelf: Shelf
) -> None:
    gate = add(shelf, "gate", before=0, since=1)
    door = add(shelf, "door", before=0, since=MOST_LOOKED_AT + 1)
    page = visitor.get(f"/detectors/{door}/labelling")
    assert f"at least {MOST_LOOKED_AT:,} labels this week" in page.text
    # However many another detector was given.
    assert "1 label this week" in links_of(visitor.get(f"/detectors/{gate}/labelling"))
