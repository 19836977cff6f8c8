"""The button of an undecided verdict, and the queries to which it leads."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import WHOLE
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Element, Page
from tests.web.test_label_queues import answer
from tracker.stats import balanced_interval, balanced_labels_to_decide
from tracker.storage.database import Database
from tracker.storage.queries.queries import find_query

TARGET = 0.9
# Of each class: 40 labels, of which the detector had 39 right.
KNOWN = {"YES": (39, 40), "NO": (39, 40)}


def rows_of(
    counts: dict[str, tuple[int, int]], *, labelled: bool, version: str
) -> list[dict[str, Any]]:
    """So many queries of each class; an unlabelled one has its truth in its key."""
    rows = []
    for truth, (right, all_) in counts.items():
        other = "NO" if truth == "YES" else "YES"
        for number in range(all_):
            row: dict[str, Any] = {
                "key": f"{truth}-{number}-{version}-{labelled}",
                "predicted": truth if number < right else other,
                "version": version,
                "sampling": "random",
            }
            rows.append(row | ({"label": truth} if labelled else {}))
    return rows


def needed(counts: dict[str, tuple[int, int]] = KNOWN) -> tuple[int, ...]:
    right, all_ = zip(*counts.values(), strict=True)
    found = balanced_labels_to_decide(right, all_, TARGET, WHOLE)
    assert found is not None
    return found


def two_figures(number: int) -> int:
    """Round up to two figures, as the pages do: by hand for what is used here."""
    return number if number < 100 else -(-number // 10) * 10


def act_of(page: Page) -> tuple[Element, list[Element]]:
    """Return what there is to do on Overview, and the filled buttons of the page."""
    (act,) = page.find("div", class_="act")
    return act, page.find("a", class_="btn btn-primary btn-big")


@pytest.fixture
def label_all(
    visitor: Visitor, database: Database
) -> Callable[[str, Page], list[tuple[str, int]]]:
    """Answers with the truth until nothing is left; returns the keys and versions."""

    def label(detector_id: str, page: Page) -> list[tuple[str, int]]:
        seen = []
        while "Nothing left to label" not in page.text:
            form = page.form(f"/detectors/{detector_id}/label")
            with database.read() as session:
                query = find_query(session, int(form["query"].removeprefix("iq_")))
                assert query is not None
                assert query.key is not None
                seen.append((query.key, query.version_id))
            truth = seen[-1][0].split("-")[0]
            page = answer(visitor, detector_id, page, label=truth)
        return seen

    return label


@pytest.mark.slow
def test_the_button_leads_to_as_many_as_it_says_and_they_decide(
    visitor: Visitor,
    shelf: Shelf,
    label_all: Callable[[str, Page], list[tuple[str, int]]],
) -> None:
    more = needed()
    number = two_figures(sum(more))
    assert 50 <= number <= 250
    detector_id = shelf.add_detector(target=TARGET)
    shelf.add_queries(detector_id, rows_of(KNOWN, labelled=True, version="v1"))
    half = number // 2
    waiting = {"YES": (half - 1, half), "NO": (number - half - 1, number - half)}
    shelf.add_queries(detector_id, rows_of(waiting, labelled=False, version="v1"))
    page = visitor.get(f"/detectors/{detector_id}")
    act, (button,) = act_of(page)
    assert button.text == f"Label {number} more"
    said = f"takes about {number} queries drawn at random"
    assert said in act.text
    first = visitor.get(button.attributes["href"])
    # The panel beside the first of them asks for the same.
    panel = first.by_id("progress").text
    assert said in panel
    assert f"{number} left in the random queue" in panel
    assert "order" not in button.attributes["href"]
    seen = label_all(detector_id, first)
    assert len({key for key, _ in seen}) == len(seen) == number
    assert all(key.endswith("False") for key, _ in seen)
    # With these labels the promise is kept.
    totals = {
        name: [sum(pair) for pair in zip(KNOWN[name], waiting[name], strict=True)]
        for name in KNOWN
    }
    right, all_ = zip(*totals.values(), strict=True)
    assert balanced_interval("anytime", right, all_, WHOLE).low > TARGET
    decided = visitor.get(f"/detectors/{detector_id}")
    assert decided.by_id("answer-title").text.endswith("Target 90 %: met.")
    assert act_of(decided)[1] == []


@pytest.mark.thorough
def test_while_fewer_wait_it_says_how_many_and_leads_to_those(
    visitor: Visitor,
    shelf: Shelf,
    label_all: Callable[[str, Page], list[tuple[str, int]]],
) -> None:
    number = two_figures(sum(needed()))
    detector_id = shelf.add_detector(target=TARGET)
    shelf.add_queries(detector_id, rows_of(KNOWN, labelled=True, version="v1"))
    path = f"/detectors/{detector_id}"
    few = {"YES": (2, 2), "NO": (1, 1)}
    shelf.add_queries(detector_id, rows_of(few, labelled=False, version="v1"))
    act, (button,) = act_of(visitor.get(path))
    assert button.text == "Label"
    assert f"about {number} queries drawn at random" in act.text
    assert "3 queries wait for a label now." in act.text
    first = visitor.get(button.attributes["href"])
    assert "3 left in the random queue" in first.by_id("progress").text
    assert len(label_all(detector_id, first)) == 3
    # Nothing waits any more, which both pages say; more can still come.
    page = visitor.get(path)
    act, buttons = act_of(page)
    assert page.by_id("answer-title").text.endswith("not decided yet.")
    assert "No query waits for a label now, so log more first." in act.text
    assert buttons == []
    label = visitor.get(f"{path}/label")
    assert "Nothing left to label" in label.text
    assert "No query waits for a label now" in label.by_id("progress").text


def test_one_fewer_than_the_number_on_the_button_is_not_enough(
    visitor: Visitor, shelf: Shelf
) -> None:
    # 100 or more are rounded up: what waits lies between the number and its rounding.
    known = {"YES": (40, 42), "NO": (39, 40)}
    more = sum(needed(known))
    number = two_figures(more)
    assert more < number
    detector_id = shelf.add_detector(target=TARGET)
    shelf.add_queries(detector_id, rows_of(known, labelled=True, version="v1"))
    waiting = {"YES": (number - 1, number - 1)}
    shelf.add_queries(detector_id, rows_of(waiting, labelled=False, version="v1"))
    act, (button,) = act_of(visitor.get(f"/detectors/{detector_id}"))
    assert button.text == "Label"
    assert f"{number - 1} queries wait for a label now." in act.text


@pytest.mark.thorough
def test_a_version_that_was_chosen_is_the_one_that_is_labelled(
    visitor: Visitor,
    shelf: Shelf,
    label_all: Callable[[str, Page], list[tuple[str, int]]],
) -> None:
    detector_id = shelf.add_detector(target=TARGET)
    few = {"YES": (2, 2), "NO": (1, 1)}
    for version in ("v1", "v2"):
        for is_labelled, counts in ((True, KNOWN), (False, few)):
            rows = rows_of(counts, labelled=is_labelled, version=version)
            shelf.add_queries(detector_id, rows)
    path = f"/detectors/{detector_id}"
    for version, other in (("v1", "v2"), ("v2", "v1")):
        act, (button,) = act_of(visitor.get(f"{path}?version={version}"))
        assert "3 queries wait for a label now." in act.text
        first = visitor.get(button.attributes["href"])
        assert f"Right so far, {version}" in first.by_id("progress").text
        keys = [key for key, _ in label_all(detector_id, first)]
        assert len(keys) == 3
        assert not [key for key in keys if f"-{other}-" in key]


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param({"sampling": "targeted"}, id="declared as targeted"),
        pytest.param({"input": "same"}, id="a repeated input"),
        pytest.param({"queue_rate": 0.5}, id="one in two is to be labelled"),
        pytest.param({}, id="at random"),
    ],
)
def test_what_waits_is_what_the_queue_holds(
    visitor: Visitor, shelf: Shelf, kind: dict[str, Any]
) -> None:
    # A random queue of the queries is to be labelled, and the others wait nowhere.
    kind = dict(kind)
    rate = kind.pop("queue_rate", 1.0)
    detector_id = shelf.add_detector(target=TARGET, queue_rate=rate)
    shelf.add_queries(detector_id, rows_of(KNOWN, labelled=True, version="v1"))
    few = {"YES": (22, 22), "NO": (21, 21)}
    rows = [row | kind for row in rows_of(few, labelled=False, version="v1")]
    shelf.add_queries(detector_id, rows)
    act, buttons = act_of(visitor.get(f"/detectors/{detector_id}"))
    first = visitor.get(f"/detectors/{detector_id}/label")
    shown = first.by_id("progress").text.split(" left in the random queue")[0]
    waiting = int(shown.split()[-1])
    said = {0: "No query waits", 1: "1 query waits"}.get(
        waiting, f"{waiting} queries wait"
    )
    assert f"{said} for a label now" in act.text
    assert len(buttons) == bool(waiting)
