"""A proved change on the pages, in metrics and on the badge."""

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from tests.services.test_calendar import START, rows_of
from tests.web.conftest import Shelf, Visitor

FALL = START + timedelta(days=40)


@pytest.fixture
def dropped(shelf: Shelf, recompute: Callable[[], None]) -> str:
    """A detector that dropped on a day, its labels the last day first."""
    detector_id = shelf.add_detector(target=0.9)
    rows = rows_of([(40, 0.98, 20), (10, 0.6, 20)])
    shelf.add_queries(detector_id, rows[::-1])
    recompute()
    return detector_id


def words(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def test_a_fall_stands_on_every_page(visitor: Visitor, dropped: str) -> None:
    said = f"balanced accuracy dropped, about {words(FALL)}."
    page = visitor.get(f"/detectors/{dropped}")
    assert f"since {words(FALL)}." in page.by_id("estimate-title").text
    assert f"The {said}" in page.text
    assert "falsely with a chance of at most 2.5 %" in page.text.replace("\u202f", " ")
    assert "Target missed" in page.text
    history = visitor.get(f"/detectors/{dropped}/changes").text
    assert f"The {said}" in history
    assert f"By queries asked since {words(FALL)}." in history
    listed = visitor.get("/?state=dropped")
    (badge,) = listed.find("span", class_="verdict verdict-dropped")
    assert badge.text == "↓ Dropped"
    (when,) = listed.find("span", title=f"balanced accuracy, about {words(FALL)}")
    assert when.text == "See when door dropped"
    assert "Dropped 1" in listed.text
    events = visitor.get(f"/detectors/{dropped}/events").text
    assert f"the {said}" in events


def test_metrics_say_since_when(visitor: Visitor, dropped: str) -> None:
    text = visitor.client.get("/metrics").text
    of = 'detector="door",version="default"'
    assert f'tracker_change{{{of},state="dropped"}} 1.0' in text
    assert f'tracker_change{{{of},state="rose"}} 0.0' in text
    midnight = (FALL - date(1970, 1, 1)).days * 86_400
    assert f"tracker_accuracy_since_seconds{{{of}}} {float(midnight)}" in text
    missed = 'detector="door",verdict="missed",version="default"'
    assert f"tracker_verdict{{{missed}}} 1.0" in text
