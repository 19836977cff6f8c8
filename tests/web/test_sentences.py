"""Sentences that people looked for where they were in doubt."""

import re
from collections.abc import Callable

import pytest

from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, facts

_STACKED = ("/keys", "/people", "/activity", "/account")


def _cells(page: Page) -> list[tuple[list[str], list[str]]]:
    """Each stacked table with its headings, and those that its rows repeat."""
    found = []
    for table in re.findall(
        r'<table class="[^"]*stack-table.*?</table>', page.html, re.S
    ):
        head, body = table.split("<tbody>")
        heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', head)
        rows = re.findall(r"<tr>(.*?)</tr>", body, re.S)
        found += [(heads, re.findall(r"<t[hd][^>]*>", row)) for row in rows]
    return found


def test_it_is_said_what_an_unstated_label_counts_for(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"key": "a", "predicted": "YES"}])
    form = visitor.get(f"/detectors/{detector_id}/import").text
    assert "Without sampling a label is unstated, and counts as the settings of" in form
    listed = visitor.get(f"/detectors/{detector_id}/queries").html
    query = re.findall(r"/queries/(iq_\d+)", listed)[0]
    page = visitor.get(f"/queries/{query}")
    assert "unstated: nobody said how it was chosen, so it counts as the" in page.text
    hint = page.by_id("sampling-hint").text
    assert "Labels without a stated sampling decide nothing" in hint


@pytest.mark.parametrize(
    ("said", "labels"), [("random", 5), ("all", 5), ("targeted", 2), (None, 2)]
)
def test_an_unstated_label_counts_as_the_detector_says(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    said: str | None,
    labels: int,
) -> None:
    detector_id = shelf.add_detector(label_sampling=said)
    rows = [
        {"predicted": "YES", "label": "YES", "sampling": sampling}
        for sampling in ["unstated"] * 3 + ["random"] * 2 + ["targeted"]
    ]
    shelf.add_queries(detector_id, rows)
    for _ in range(2):
        page = visitor.get(f"/detectors/{detector_id}")
        assert facts(page)["Labels"] == str(labels)
        recompute()


def test_a_key_is_said_to_see(visitor: Visitor) -> None:
    legends = [legend.text for legend in visitor.get("/keys").find("legend")]
    assert legends == ["This key sees"]


def test_each_value_of_a_stacked_table_repeats_its_heading(
    visitor: Visitor, published: str
) -> None:
    visitor.send("/keys", {"name": "line-3", "role": "viewer", "sees": "all"})
    for path in (*_STACKED, f"/detectors/{published}/import"):
        found = _cells(visitor.get(path))
        assert found, path
        for heads, cells in found:
            assert len(heads) == len(cells), path
            for head, cell in zip(heads, cells, strict=True):
                # What names the row needs no heading, and what is done with it none.
                is_alone = cell.startswith("<th") or "visually-hidden" in head
                assert is_alone or f'data-label="{head}"' in cell, cell


_OF_DETECTOR = (
    *("", "/mistakes", "/queries", "/thresholds", "/slices", "/changes", "/repeats"),
    *("/changes?by=labels", "/labelling", "/audits", "/labelers", "/label", "/events"),
    *("/?method=exact", "/label/grid", "/badges", "/judges", "/setup", "/import"),
)
_OF_WORKSPACE = ("/", "/inbox", "/label", "/alerts", "/account/mail", "/find?q=a")
_OF_WORKSPACE += ("/keys", "/people", "/activity", "/activity/server", "/account")
_OF_WORKSPACE += ("/detectors/new", "/detectors/archived", "/nowhere")


@pytest.mark.parametrize(
    "path", [*(f"DETECTOR{p}" for p in _OF_DETECTOR), *_OF_WORKSPACE]
)
def test_pages_leave_the_words_of_statisticians_to_what_it_rests_on(
    visitor: Visitor, published: str, path: str
) -> None:
    path = path.replace("DETECTOR", f"/detectors/{published}").replace(
        "/?method", "?method"
    )
    page = visitor.get(path)
    assert page.status == (404 if path == "/nowhere" else 200)
    html = page.html.partition("<main")[2]
    # The names of methods are those of the API.
    for part in ("details", "select", "pre", "dialog"):
        html = re.sub(rf"<{part}\b.*?</{part}>", " ", html, flags=re.DOTALL)
    said = re.sub(r"<[^>]+>", " ", html)
    words = r"whisker|joint|anytime|one look|hold up together|simply|please"
    assert re.findall(rf"\b(?:{words})\b|\w!", said, re.IGNORECASE) == []
