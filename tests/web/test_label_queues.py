"""The two queues of the label page: drawn by chance, or picked."""

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, facts


@pytest.fixture
def sheep(shelf: Shelf) -> str:
    """A detector with unlabelled queries of which it is sure, or not."""
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [
        {"key": f"{said}-{confidence}", "predicted": said, "version": version}
        | ({} if confidence is None else {"confidence": confidence})
        | {"metadata": {"name": f"{said} {confidence}"}}
        for said, confidence, version in (
            ("ewe", 0.9, "v1"),
            ("ram", 0.6, "v1"),
            ("ewe", None, "v1"),
            ("ewe", 0.7, "v2"),
            ("ram", 0.8, "v2"),
        )
    ]
    shelf.add_queries(detector_id, rows)
    return detector_id


def answer(visitor: Visitor, detector_id: str, page: Page, **fields: str) -> Page:
    path = f"/detectors/{detector_id}/label"
    form = page.form(path)
    hidden = {name: value for name, value in form.items() if name != "csrf_token"}
    sent = visitor.send(path, hidden | fields)
    assert sent.status_code == 303, sent.text
    return visitor.get(sent.location)


def walk(visitor: Visitor, detector_id: str, page: Page) -> list[str]:
    """The names of what comes, labelled one after the other."""
    names = []
    while "Nothing left to label" not in page.text:
        names.append(page.by_id("labelling").text.split("name ")[1].split(" Add")[0])
        names[-1] = " ".join(names[-1].split()[:2])
        page = answer(visitor, detector_id, page, label="ewe")
    return names


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", ["ram 0.6", "ewe 0.7", "ram 0.8", "ewe 0.9", "ewe None"]),
        ("&order=newest", ["ram 0.8", "ewe 0.7", "ewe None", "ram 0.6", "ewe 0.9"]),
        ("&where=predicted:ewe", ["ewe 0.7", "ewe 0.9", "ewe None"]),
        ("&version=v2", ["ewe 0.7", "ram 0.8"]),
        ("&where=confidence:0.65..0.8", ["ewe 0.7", "ram 0.8"]),
        ("&where=predicted:ewe and confidence:..0.8", ["ewe 0.7"]),
        ("&where=predicted:ram&version=v1&order=confidence", ["ram 0.6"]),
    ],
)
def test_the_targeted_queue_goes_by_the_choice(
    visitor: Visitor, sheep: str, asked: str, expected: list[str]
) -> None:
    page = visitor.get(f"/detectors/{sheep}/label?queue=targeted{asked}")
    assert "left out of the accuracy" in page.text
    assert walk(visitor, sheep, page) == expected
    labels = visitor.get(f"/detectors/{sheep}/labels.jsonl").html
    assert labels.count('"sampling":"targeted"') == len(expected)
    assert '"sampling":"random"' not in labels


def test_a_picked_query_is_shown_blind(visitor: Visitor, sheep: str) -> None:
    page = visitor.get(f"/detectors/{sheep}/label?queue=targeted")
    # The logging program called it so, and it is shown as it is.
    said = page.by_id("labelling").text.replace("name ram 0.6 Key ram-0.6", "")
    assert "0.6" not in said
    # Beside the query stands which class is known least, whatever is shown.
    words = said.partition("labelled queries of 2 versions")[0].split()
    assert words.count("ewe") == words.count("ram") > 0


@pytest.mark.thorough
def test_picked_labels_are_left_out_and_asked_again_by_chance(
    visitor: Visitor, sheep: str
) -> None:
    path = f"/detectors/{sheep}/label"
    page = visitor.get(f"{path}?queue=targeted")
    assert len(walk(visitor, sheep, page)) == 5
    said = facts(visitor.get(f"/detectors/{sheep}?version=*"))
    assert said["Targeted, left out"] == "5"
    page = visitor.get(f"{path}?version=*")
    assert "count for the accuracy" in page.text
    assert "5 left in the random queue" in page.by_id("progress").text
    assert len(walk(visitor, sheep, page)) == 5
    said = facts(visitor.get(f"/detectors/{sheep}?version=*"))
    assert said["Targeted, left out"] == "0"
    labels = visitor.get(f"/detectors/{sheep}/labels.jsonl").html
    assert labels.count('"sampling":"random"') == 5


def test_what_one_queue_gave_does_not_come_from_the_other(
    visitor: Visitor, sheep: str
) -> None:
    path = f"/detectors/{sheep}/label"
    targeted = [
        visitor.get(f"{path}?queue=targeted{more}").form(path)["query"]
        for more in ("", *["&where=predicted:ewe"] * 2, "")
    ]
    assert targeted[0] == targeted[3] != targeted[1] == targeted[2]
    # Two are reserved from here, the one that is shown and the one after it.
    page = visitor.get(f"{path}?version=*")
    by_chance = set()
    for _ in range(3):
        by_chance.add(page.form(path)["query"])
        page = answer(visitor, sheep, page, label="ewe")
    assert targeted[0] not in by_chance
    assert "The other queries are reserved" in page.text
    labels = visitor.get(f"/detectors/{sheep}/labels.jsonl").html
    assert labels.count('"sampling":"random"') == 3


def test_skip_and_undo_stay_in_the_queue(visitor: Visitor, sheep: str) -> None:
    path = f"/detectors/{sheep}/label"
    page = visitor.get(f"{path}?queue=targeted&where=predicted:ewe")
    first = page.form(path)["query"]
    page = answer(visitor, sheep, page, skip="1")
    assert page.form(path)["where"] == "predicted:ewe"
    second = page.form(path)["query"]
    assert second != first
    page = answer(visitor, sheep, page, label="ram")
    page = visitor.get(page.by_id("undo").attributes["href"])
    assert page.form(path)["query"] == second
    page = answer(visitor, sheep, page, label="ewe")
    assert page.form(path)["where"] == "predicted:ewe"
    labels = visitor.get(f"/detectors/{sheep}/labels.jsonl").html
    assert labels.count('"sampling":"targeted"') == 2


@pytest.mark.parametrize(
    "asked",
    [
        "queue=best",
        "queue=targeted&order=worst",
        "queue=targeted&where=confidence:low..high",
    ],
)
def test_a_queue_that_there_is_not_is_refused(
    visitor: Visitor, sheep: str, asked: str
) -> None:
    assert visitor.get(f"/detectors/{sheep}/label?{asked}").status == 400


def test_a_wrong_condition_is_told_in_the_filter_and_shows_no_query(
    visitor: Visitor, sheep: str
) -> None:
    typed = "confidence:0.5..0.25"
    page = visitor.get(f"/detectors/{sheep}/label?queue=targeted&where={typed}")
    assert page.status == 400
    assert 'id="where-error"' in page.html
    assert "0.5..0.25" in page.by_id("where-error").text
    assert f'value="{typed}"' in page.html
    assert "No query is shown" in page.text
    assert 'name="query"' not in page.html
