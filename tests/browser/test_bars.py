"""Bars and tables as they are seen: whatever the width, nothing is hidden."""

from collections.abc import Callable

import pytest

from tests.browser.conftest import Site, Watch
from tests.conftest import by
from tests.imports import import_rows
from tracker.clock import utc_now
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.base import dump_id

Open = Callable[..., Watch]
_PHONE = {"width": 390, "height": 844}
_LONG = [f"{'Klassenname_ohne_Leerzeichen_' * 3}{number}" for number in range(3)]

# As if the two bounds were one: the narrowest that there can be.
_CLOSE = """() => {
  for (const plot of document.querySelectorAll(".plot:has(.plot-mark)")) {
    const place = plot.querySelector(".plot-mark").getAttribute("x");
    for (const end of plot.querySelectorAll(".plot-end")) end.setAttribute("x", place);
    plot.querySelector(".plot-bar").setAttribute("width", "0%");
  }
}"""
_MEASURE = """() =>
  [...document.querySelectorAll(".plot:has(.plot-mark)")].map((plot) => {
    const box = (one) => {
      const { left, right } = one.getBoundingClientRect();
      const half = parseFloat(getComputedStyle(one).strokeWidth) / 2;
      return [left - half, right + half];
    };
    const ends = [...plot.querySelectorAll(".plot-end line")].map(box);
    const [left, right] = box(plot.querySelector(".plot-mark line"));
    const axis = plot.getBoundingClientRect();
    return {
      ends: ends[1][1] - ends[0][0],
      tick: right - left,
      beyond: Math.max(axis.left - left, right - axis.right),
      texts: plot.querySelectorAll("text:not(.plot-tick)").length,
    };
  })"""
_CUT = """() =>
  [...document.querySelectorAll(".table-scroll")]
    .filter((part) => part.scrollWidth > part.clientWidth)
    .map((part) => part.getAttribute("aria-label"))"""


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 900}, _PHONE])
@pytest.mark.parametrize(
    "path",
    [
        "/detectors/det_2?method=exact",
        "/detectors/det_2/methods",
        "/detectors/det_4/changes?old=v1&new=v2",
    ],
)
def test_the_narrowest_interval_is_seen_beside_its_tick(
    open_page: Open, path: str, viewport: dict[str, int]
) -> None:
    page = open_page(path, viewport=viewport, reduced_motion="reduce").page
    page.evaluate(_CLOSE)
    bars = page.evaluate(_MEASURE)
    assert bars
    for bar in bars:
        assert bar["ends"] >= 3
        assert bar["ends"] > bar["tick"] + 1
        assert bar["beyond"] <= 2
        assert bar["texts"] == 0


def test_both_ends_of_an_interval_in_the_list_are_seen(open_page: Open) -> None:
    page = open_page("/", viewport={"width": 1280, "height": 900}).page
    widths = page.evaluate(
        """() => [...document.querySelectorAll("tbody svg:has(.band)")].map((one) =>
          [...one.querySelectorAll(".end")].map((line) =>
            parseFloat(getComputedStyle(line).strokeWidth)))"""
    )
    assert widths
    for ends in widths:
        assert ends
        assert min(ends) >= 1


def test_the_tables_of_a_comparison_are_whole_on_a_phone(open_page: Open) -> None:
    page = open_page(
        "/detectors/det_4/changes?old=v1&new=v2&late=yes", viewport=_PHONE
    ).page
    assert page.locator(".fold-table").count() == 2
    assert page.evaluate(_CUT) == []
    for column in ("change", "interval"):
        cells = page.locator(f".fold-table td[data-column='{column}']")
        for box in (cell.bounding_box() for cell in cells.all()):
            assert box is not None
            assert box["x"] + box["width"] <= _PHONE["width"]


def test_names_without_a_break_leave_room_for_the_numbers(
    open_page: Open, site: Site
) -> None:
    detector_id = _add_long_names(site)
    page = open_page(f"/detectors/{detector_id}").page
    for viewport in ({"width": 1280, "height": 900}, _PHONE):
        page.set_viewport_size(viewport)  # type: ignore[arg-type]
        for name in page.locator(".rows .name").all():
            box = name.bounding_box()
            assert box is not None
            # Two lines at most, and the whole name where the pointer rests.
            assert box["height"] < 60
            assert name.get_attribute("title") in _LONG
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{site.url}/detectors/{detector_id}/labelling")
    (edge,) = page.locator("#plan .table-scroll").all()
    assert edge.evaluate("part => part.scrollWidth <= part.clientWidth")


def _add_long_names(site: Site) -> str:
    rows = [{"predicted": name, "label": name} for name in _LONG * 4]
    with site.database.write() as session:
        new = NewDetector(name="long names", question="Which?", classes=_LONG)
        detector = create_detector(session, new, by(at=utc_now()))
        import_rows(
            session,
            detector,
            rows,
            by("demo", utc_now()),
            digest="long names",
        )
        return dump_id("det", detector.id)
