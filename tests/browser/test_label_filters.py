"""Filters and choices: when they are sent, what has the focus, what is wrong."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Watch
from tests.browser.turns import query_of

Open = Callable[..., Watch]
MANY = "/detectors/det_5/label"
TARGETED = "/detectors/det_2/label?queue=targeted"
_MARK = "document.documentElement.dataset.mark = 'not reloaded'"
_MARKED = "document.documentElement.dataset.mark === 'not reloaded'"


def test_a_condition_that_is_typed_waits_for_enter(open_page: Open) -> None:
    page = open_page(TARGETED).page
    page.evaluate(_MARK)
    query = query_of(page)
    page.get_by_label("Only where").click()
    page.keyboard.type("confidence:0.25..0.995")
    page.keyboard.press("Tab")
    assert page.evaluate(_MARKED)
    assert query_of(page) == query
    expect(page.get_by_role("button", name="Show")).to_be_visible()
    page.get_by_label("Only where").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**where=confidence%3A0.25..0.995*")
    # What is typed next is no label either.
    expect(page.get_by_label("Only where")).to_be_focused()
    # Who used the mouse goes on with the keys of the page.
    page.get_by_role("button", name="Show").click()
    expect(page.locator("body")).to_be_focused()
    expect(page.locator(".last-answer")).not_to_contain_text("you said")


@pytest.mark.parametrize(
    ("path", "control", "value"),
    [
        (TARGETED, "order", "newest"),
        ("/detectors/det_1/changes?by=labels", "x", "time"),
        ("/detectors/det_1/changes?by=labels", "order", "oldest"),
        ("/detectors/det_1/queries", "show", "wrong"),
    ],
)
def test_what_was_chosen_has_the_focus_again(
    open_page: Open, path: str, control: str, value: str
) -> None:
    page = open_page(path).page
    page.evaluate(_MARK)
    select = page.locator(f"#{control}")
    select.focus()
    select.select_option(value)
    page.wait_for_url(f"**{control}={value}*")
    expect(select).to_be_focused()
    expect(select).to_have_value(value)
    # Only there, and once.
    page.reload()
    expect(page.locator("body")).to_be_focused()


def test_a_wrong_condition_is_told_beside_it(open_page: Open) -> None:
    page = open_page(TARGETED).page
    where = page.get_by_label("Only where")
    where.fill("confidence:0.5..0.1")
    with page.expect_navigation() as asked:
        page.keyboard.press("Enter")
    assert asked.value is not None
    assert asked.value.status == 400
    expect(where).to_have_accessible_description(re.compile("0.5..0.1"))
    expect(where).to_have_attribute("aria-invalid", "true")
    expect(where).to_have_value("confidence:0.5..0.1")
    expect(page.get_by_role("alert")).to_have_text(
        "See the message below the condition."
    )
    where.fill("confidence:0.1..0.9")
    page.keyboard.press("Enter")
    page.wait_for_url("**where=confidence%3A0.1..0.9*")
    expect(page.locator("#label-count")).to_be_visible()
    expect(page.locator("#where-error")).to_have_count(0)
