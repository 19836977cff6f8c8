"""From a cell of the confusion matrix to its queries, and through them by keys."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watch

Open = Callable[..., Watch]


def test_a_cell_opens_its_queries_and_keys_walk_through_them(open_page: Open) -> None:
    watch = open_page("/detectors/two versions/queries?label=3&predicted=3")
    page = watch.page
    listed = page.locator(".query-card a")
    addresses = [one.get_attribute("href") for one in listed.all()]
    assert len(addresses) > 2
    listed.first.click()
    page.wait_for_url(f"**{addresses[0]}")
    for address in addresses[1:3]:
        page.keyboard.press("j")
        page.wait_for_url(f"**{address}")
    page.keyboard.press("k")
    page.wait_for_url(f"**{addresses[1]}")
    assert watch.read() == []


def test_a_query_is_labelled_by_its_key(open_page: Open) -> None:
    watch = open_page("/detectors/digit-is-8/queries?show=unlabelled")
    page = watch.page
    page.locator(".query-card a").first.click()
    page.wait_for_url("**/queries/iq_*")
    page.keyboard.press("2")
    expect(page.locator(".label-history")).to_contain_text("NO current")
    # What is typed into a field is no answer.
    page.get_by_label("Note").press_sequentially("21j")
    expect(page.locator(".label-history")).to_contain_text("NO current")
    assert watch.read() == []


def test_mistakes_are_reviewed_by_keys_alone(open_page: Open) -> None:
    watch = open_page("/detectors/two versions/queries?show=wrong&version=v1")
    page = watch.page
    listed = [
        str(one.get_attribute("href")) for one in page.locator(".query-card a").all()
    ]
    assert len(listed) > 4
    page.goto(page.url.partition("/detectors")[0] + listed[0])
    for place, address in enumerate(listed[:4]):
        page.wait_for_url(f"**{address}")
        if place == 1:
            # A field takes the keys while it has the focus.
            page.keyboard.press("t")
            expect(page.get_by_label("Tag", exact=True)).to_be_focused()
            page.keyboard.type("odd 1jk")
            page.keyboard.press("Enter")
            expect(page.locator("ul.tags")).to_contain_text("odd 1jk")
        if place == 2:
            # Corrected it is no mistake any more, and the way goes on from its place.
            said = page.locator(".facts dd b").first.inner_text()
            page.keyboard.press(said)
            expect(page.locator(".facts")).to_contain_text("the detector was right")
        page.keyboard.press("j")
    page.wait_for_url(f"**{listed[4]}")
    page.keyboard.press("k")
    page.wait_for_url(f"**{listed[3]}")
    page.keyboard.press("k")
    # What was corrected has left the list.
    page.wait_for_url(f"**{listed[1]}")
    page.get_by_role("link", name="odd 1jk").click()
    expect(page.locator(".list-head h2")).to_have_text("1 query")
    assert watch.read() == []


def test_the_grid_is_answered_by_digits(open_page: Open) -> None:
    watch = open_page("/detectors/digit-is-8/label/grid")
    page = watch.page
    tiles = page.locator(".tiles > li")
    expect(tiles.nth(3)).to_be_visible()
    for key in ("1", "2", "u"):
        page.keyboard.press(key)
    chosen = [
        tile.locator("input:checked").get_attribute("value") for tile in tiles.all()[:3]
    ]
    assert chosen == ["YES", "NO", "UNCLEAR"]
    expect(tiles.nth(3).locator("input").first).to_be_focused()
    assert watch.read() == []


def test_a_command_is_copied(open_page: Open) -> None:
    watch = open_page(
        "/detectors/digit-is-8/changes",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = watch.page
    page.get_by_text("The same from a program").click()
    button = page.locator(".code-copy").filter(visible=True)
    button.click()
    expect(button).to_contain_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith('curl -H "Authorization: Bearer $KEY"')
    assert "/api/v1/detectors/" in copied
    assert watch.read() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_are_wide_enough_for_seven_digits(
    open_page: Open, scheme: str
) -> None:
    watch = open_page(
        "/detectors/digit-is-8/changes?by=labels",
        viewport={"width": 1440, "height": 900},
        color_scheme=scheme,
    )
    page = watch.page
    page.evaluate(
        """() => {
          for (const cell of document.querySelectorAll(".history-counts")) {
            cell.textContent = "1,234,567 of 1,345,678";
          }
        }"""
    )
    region = page.get_by_role("region", name="Table of snapshots")
    assert region.evaluate("e => e.scrollWidth <= e.clientWidth")
