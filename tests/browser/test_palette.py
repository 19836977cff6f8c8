"""Find over every page: opened, walked through and closed by keys alone."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watch
from tests.browser.test_pages import violations

Open = Callable[..., Watch]


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_find_is_in_order_and_needs_no_mouse(
    open_page: Open, width: int, theme: str
) -> None:
    watch = open_page(
        "/detectors/det_2",
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        reduced_motion="reduce",
    )
    page = watch.page
    page.keyboard.press("Control+k")
    field = page.get_by_role("textbox", name="Find a detector, a page or a query")
    expect(field).to_be_focused()
    palette = page.get_by_role("dialog", name="Find")
    expect(palette.get_by_role("link", name="Activity")).to_be_visible()
    assert violations(page) == ""
    page.keyboard.type("digit")
    first = palette.get_by_role("link").first
    expect(first).to_contain_text("digit")
    expect(palette.get_by_role("status")).to_contain_text("found")
    page.keyboard.press("ArrowDown")
    expect(first).to_be_focused()
    assert violations(page) == ""
    # What is typed goes on in the field.
    page.keyboard.type("?")
    expect(field).to_have_value("digit?")
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()
    assert watch.read() == []


def test_who_is_faster_than_the_scripts_is_answered(open_page: Open) -> None:
    page = open_page("/").page
    # htmx begins to listen by a timer without a time.
    page.context.add_init_script(
        "const soon = window.setTimeout;"
        "window.setTimeout = (run, ms = 1000) => soon(run, ms);"
    )
    page.reload()
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Find")
    expect(palette.get_by_role("link", name="Activity")).to_be_visible()


def test_enter_opens_what_is_found_first(open_page: Open) -> None:
    page = open_page("/").page
    page.keyboard.press("/")
    page.keyboard.type("activ")
    palette = page.get_by_role("dialog", name="Find")
    expect(palette.get_by_role("link")).to_have_count(1)
    expect(palette.get_by_role("link")).to_have_text("Activity")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/activity$"))


def test_a_slash_that_is_typed_opens_nothing(open_page: Open) -> None:
    page = open_page("/").page
    page.get_by_role("searchbox", name="Find a name or question").press("/")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("link", name="Find", exact=True).click()
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()


def test_single_keys_lead_to_tabs_until_they_are_switched_off(open_page: Open) -> None:
    page = open_page("/detectors/det_2").page
    page.keyboard.press("g")
    page.keyboard.press("m")
    expect(page).to_have_url(re.compile("/det_2/mistakes"))
    page.keyboard.press("l")
    expect(page).to_have_url(re.compile("/det_2/label"))
    page.goto(page.url.partition("/detectors")[0] + "/account")
    page.get_by_label("Single keys lead to pages").uncheck()
    page.go_back()
    page.goto(page.url.partition("/detectors")[0] + "/detectors/det_2")
    page.keyboard.press("/")
    expect(page.get_by_role("dialog", name="Find")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Find")).to_be_visible()
