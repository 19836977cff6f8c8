"""Labelling at speed: by keyboard alone, with the next image shown at once."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import (
    Held,
    open_held,
    query_of,
    wait_for_next_image,
    wait_for_other,
)

Open = Callable[..., Watch]
_MARK = "document.documentElement.dataset.mark = 'not reloaded'"
_MARKED = "document.documentElement.dataset.mark === 'not reloaded'"
_PAINTED = """new Promise(done => requestAnimationFrame(() =>
  requestAnimationFrame(() => requestAnimationFrame(done))))"""
_SHOWN = "document.querySelector('.label-image img').src"


def _bounds(page: Page) -> list[float]:
    text = page.locator("#progress .reading-interval").first.inner_text()
    return [float(part) for part in text.removesuffix("%").strip().split("\N{EN DASH}")]


def test_a_hundred_digits_are_labelled_by_keyboard_alone(
    open_page: Open, site: Site
) -> None:
    watch = open_page("/detectors/det_5/label")
    page = watch.page
    page.evaluate(_MARK)
    widths = [1.0]
    before = int(page.locator("#label-count").inner_text())
    for number in range(1, 101):
        query = query_of(page)
        page.keyboard.press(site.digits[query])
        expect(page.locator("#label-count")).to_have_text(str(before + number))
        wait_for_other(page, query)
        if number % 25 == 0:
            low, high = _bounds(page)
            widths.append((high - low) / 100)
    assert page.evaluate(_MARKED)
    # Wrong predictions may widen it for a while.
    assert widths[-1] < widths[1] < widths[0]
    assert widths[-1] < 0.6
    expect(page.locator("#labels-today")).to_contain_text("100 by you")
    assert watch.read() == []


def test_the_next_image_is_shown_before_the_server_answers(
    open_page: Open, site: Site
) -> None:
    watch = open_held(open_page, "/detectors/det_5/label")
    page = watch.page
    held = Held(page, "**/label")
    first = query_of(page)
    following = page.locator(".label-form").get_attribute("data-next-query")
    assert following
    assert first in page.evaluate(_SHOWN)
    wait_for_next_image(page)
    page.keyboard.press(site.digits[first])
    expect(page.locator(".label-image img")).to_have_attribute(
        "src", f"{site.url}/queries/{following}/image"
    )
    # What is pressed now is about the image that is seen now.
    page.evaluate(_PAINTED)
    page.keyboard.press("u")
    page.wait_for_timeout(100)
    assert query_of(page) == first
    held.let_go()
    page.unroute("**/label")
    assert len(held.routes) == 1
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
    link = page.get_by_role("link", name="Last one")
    assert following in (link.get_attribute("href") or "")
    assert watch.read() == []


def test_the_image_comes_back_where_the_answer_is_lost(
    open_page: Open, site: Site
) -> None:
    page = open_held(open_page, "/detectors/det_5/label").page
    first = query_of(page)
    wait_for_next_image(page)
    page.route("**/label", lambda route: route.abort())
    page.keyboard.press(site.digits[first])
    image = page.locator(".label-image img")
    expect(image).to_have_attribute("src", f"{site.url}/queries/{first}/image")
    page.unroute("**/label")
    page.keyboard.press(site.digits[first])
    wait_for_other(page, first)


@pytest.mark.parametrize("detector", ["det_1", "det_2"])
def test_on_a_phone_image_and_answers_are_seen_without_scrolling(
    open_page: Open, detector: str
) -> None:
    size = {"width": 390, "height": 844}
    page = open_page(f"/detectors/{detector}/label", viewport=size).page
    for seen in page.locator(".label-image img, .answers:not(.answers-other)").all():
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size["height"]
    assert page.locator(".label-image img").evaluate("i => i.clientHeight") > 200


def test_a_note_is_opened_by_key_and_left_by_escape(open_page: Open) -> None:
    page = open_page("/detectors/det_5/label").page
    first = query_of(page)
    page.keyboard.press("n")
    expect(page.locator("#note")).to_be_focused()
    page.keyboard.type("unusual")
    assert page.locator("#note").input_value() == "unusual"
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    wait_for_other(page, first)
    page.get_by_role("link", name="Last one").click()
    expect(page.locator(".label-note")).to_have_text("unusual")
