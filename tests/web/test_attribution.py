"""What moved a judged rate: a form that proposes two weeks, and three rows."""

import csv
import io
import random
import secrets
from datetime import UTC, datetime, timedelta

import pytest

from tests.conftest import Clock, by
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.services.labelling.labelers import NewJudgement, add_judgements
from tracker.storage.database import Database

WEEK = timedelta(days=7)
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
ASKED = {
    "since": "2026-01-05",
    "until": "2026-01-12",
    "old_version": "v1",
    "old_judge": "llm-1",
    "now_since": "2026-01-12",
    "now_until": "2026-01-19",
    "new_version": "v2",
    "new_judge": "llm-2",
}


def read_form(page: Page, path: str) -> dict[str, str]:
    """Return what a browser would send, with what is selected in the lists."""
    form, name = page.form(path), ""
    for one in page.elements:
        name = one.attributes.get("name", "") if one.name == "select" else name
        if one.name == "option" and "selected" in one.attributes:
            form[name] = one.attributes["value"]
    return form


def tell(database: Database, detector: str, judge: str, version: str) -> None:
    """Let a judge call all right, and the second one only half of them."""
    found = [
        NewJudgement(
            detector=detector,
            key=f"{version}-{n}",
            judge=judge,
            verdict="NO" if judge == "llm-2" and n < 20 else "YES",
        )
        for n in range(40)
    ]
    with database.write() as session:
        assert add_judgements(session, found, by()) == []


@pytest.fixture(autouse=True)
def _draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same anchors in each run: some draws show a move by chance."""
    draws = random.Random(7)
    monkeypatch.setattr(secrets, "SystemRandom", lambda: draws)


@pytest.fixture
def judged(shelf: Shelf, database: Database, clock: Clock) -> str:
    """A week of each version and its judge; the outputs are the same."""
    detector_id = shelf.add_detector()
    clock.at = MONDAY + 2 * WEEK
    for version, at, judge in (("v1", MONDAY, "llm-1"), ("v2", MONDAY + WEEK, "llm-2")):
        rows = [
            {
                "key": f"{version}-{n}",
                "input": f"i{n}",
                "predicted": "YES",
                "version": version,
                "asked_at": at.isoformat(),
            }
            for n in range(40)
        ]
        shelf.add_queries(detector_id, rows)
        tell(database, detector_id, judge, version)
    return detector_id


def test_the_form_proposes_the_newest_weeks_and_three_rows_say_what_moved(
    visitor: Visitor, database: Database, judged: str
) -> None:
    path = f"/detectors/{judged}/attribution"
    changes = visitor.get(f"/detectors/{judged}/changes")
    assert [one.text for one in changes.find("a", href=path)] == [
        "System, judge or mix?"
    ]
    typed = read_form(visitor.get(path), path)
    assert typed.items() >= (ASKED | {"anchors": "400"}).items()
    sent = visitor.send(path, typed)
    assert (sent.status_code, sent.headers["Location"]) == (303, path)
    asked = visitor.get(path)
    assert asked.by_id("moved-title").text.endswith(
        "No move of the system, the judge or the mix is shown yet: 400 of 400 anchors "
        "have no answer."
    )
    assert "40 anchors ask llm-2 about the output of then" in asked.by_id("needs").text
    file = visitor.client.get(f"{path}/anchors.csv").text
    rows = list(csv.DictReader(io.StringIO(file)))
    assert {row["input"] for row in rows} == {f"i{n}" for n in range(40)}
    assert {row["needs"] for row in rows} == {"judge then"}
    # The new judge on the old outputs, which are the same.
    tell(database, judged, "llm-2", "v1")
    page = visitor.get(path)
    assert page.by_id("moved-title").text.startswith(
        "The judged rate fell from 100.0 to 50.0 %. The judge moved it by "
    )
    said = page.text
    assert "No move of the system or the mix is shown." in said
    for words in ("The judge moved.", "No move of the system is shown."):
        assert words in said
    assert "over all investigations" in said
    assert visitor.get(f"{path}?number=1").status == 200
    assert visitor.get(f"{path}?number=2").status == 404


def test_the_form_says_what_is_wrong_and_goes_by_the_weeks_in_its_address(
    visitor: Visitor, judged: str
) -> None:
    path = f"/detectors/{judged}/attribution"
    found = read_form(visitor.get(f"{path}?since=2026-01-05&until=2026-01-06"), path)
    assert found.items() >= (ASKED | {"until": "2026-01-06"}).items()
    assert visitor.get(f"{path}?since=soon&until=2026-01-06").status == 400
    for wrong, words in (
        ({"until": "2026-01-05"}, "a week must end after it began"),
        ({"until": "soon"}, "it must be a day, such as 2026-01-31"),
        ({"old_judge": "llm-2"}, "in the week then, no query of the version"),
        ({"anchors": "many"}, "number"),
    ):
        page = visitor.post(path, ASKED | {"anchors": "400"} | wrong)
        assert page.status == 422
        assert words in page.text
        assert read_form(page, path)["new_version"] == "v2"


def test_without_a_verdict_the_page_says_what_it_takes(
    visitor: Visitor, shelf: Shelf
) -> None:
    path = f"/detectors/{shelf.add_detector()}/attribution"
    page = visitor.get(path)
    assert "This takes verdicts of a judge" in page.text
    assert page.find("form", action=path) == []
