"""What the mistakes since a drop have in common, on the Overview."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.services.test_calendar import START, rows_of
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page

FALL = START + timedelta(days=40)


def facts(page: Page) -> dict[str, str]:
    """Return the facts of the card by their names."""
    part = page.html.partition('id="different"')[2].partition("</section>")[0]
    return {
        " ".join(name.split()): " ".join(re.sub(r"<[^>]+>", "", said).split())
        for name, said in re.findall(
            r'<li><span class="soft">(.*?)</span><span>(.*?)</span></li>', part, re.S
        )
    }


@pytest.fixture
def fallen(shelf: Shelf, recompute: Callable[[], None]) -> Callable[..., str]:
    """Make a detector of which, since a day, one camera is mostly wrong."""

    def build(**said: object) -> str:
        detector_id = shelf.add_detector(target=0.9, **said)
        rows = rows_of([(40, 0.98, 20), (10, 0.6, 20)])
        for number, row in enumerate(rows):
            is_wrong = row["predicted"] != row["label"]
            is_late = row["asked_at"] >= FALL.isoformat()
            is_north = is_wrong if is_late else number % 4 == 0
            row["metadata"] = {"camera": "north" if is_north else "south"}
        shelf.add_queries(detector_id, rows)
        recompute()
        return detector_id

    return build


def test_the_slice_that_makes_the_mistakes_since_a_drop_is_named(
    visitor: Visitor, fallen: Callable[..., str]
) -> None:
    detector_id = fallen(slices=["camera"])
    page = visitor.get(f"/detectors/{detector_id}")
    found = facts(page)
    assert list(found) == ["Class", "Camera", "Version", "Told"]
    assert f"What is different since {FALL.day} {FALL:%b}" in page.text
    # Every mistake since that day is of north, as the button above counts them.
    (all_of,) = re.findall(r"See the (\d+) mistakes since", page.text)
    assert found["Camera"].startswith(
        f"north: {all_of} of the {all_of} mistakes, from "
    )
    assert "Wrong in 100 %, before in " in found["Camera"]
    assert found["Class"].startswith("None is shown to have more than its share: ")
    assert found["Version"] == "default before and after."


def test_where_nothing_stands_out_the_page_asks_for_slices(
    visitor: Visitor, fallen: Callable[..., str]
) -> None:
    found = facts(visitor.get(f"/detectors/{fallen()}"))
    assert found["Slices"] == "None is declared. Name a key of the metadata"


def test_a_detector_that_never_dropped_shows_what_happened(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    shelf.add_queries(detector_id, rows_of([(10, 0.98, 20)]))
    recompute()
    page = visitor.get(f"/detectors/{detector_id}")
    assert facts(page) == {}
    assert "What happened" in page.text
