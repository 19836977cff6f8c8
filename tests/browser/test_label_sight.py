"""What is in sight while somebody labels: image, answers, and words about scripts."""

import io
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import query_of, wait_for_other, wait_for_query

Open = Callable[..., Watch]
MANY = "/detectors/det_5/label"
_SCROLL = """to => { scrollTo({ top: to, behavior: "instant" }); return scrollY; }"""
_IS_SEEN = "image => image.complete && image.naturalWidth > 0"
# Of the picture itself, without the room around it in its box.
_DRAWN = """image => {
  const style = getComputedStyle(image);
  const inner = side => parseFloat(style[`padding${side}`]);
  const width = image.clientWidth - inner("Left") - inner("Right");
  const height = image.clientHeight - inner("Top") - inner("Bottom");
  const { naturalWidth, naturalHeight } = image;
  const scale = Math.min(width / naturalWidth, height / naturalHeight);
  return style.objectFit === "fill"
    ? [width, height] : [scale * naturalWidth, scale * naturalHeight];
}"""


def _view(width: int, height: int) -> dict[str, Any]:
    return {"viewport": {"width": width, "height": height}}


@pytest.mark.parametrize("size", [(1280, 500), (390, 560)])
def test_the_page_stays_where_it_was_scrolled_to(
    open_page: Open, site: Site, size: tuple[int, int]
) -> None:
    page = open_page(MANY, **_view(*size)).page
    at = page.evaluate(_SCROLL, 90)
    assert at > 0

    def stays(query: str) -> str:
        following = wait_for_other(page, query)
        assert page.evaluate("scrollY") == at
        return following

    query = query_of(page)
    for _ in range(3):
        answered = query
        page.keyboard.press(site.digits[query])
        query = stays(query)
    page.keyboard.press("z")
    wait_for_query(page, answered)
    assert page.evaluate("scrollY") == at
    page.keyboard.press("s")
    query = stays(answered)
    page.keyboard.press("s")
    query = stays(query)
    page.locator("#answer-unclear").click()
    wait_for_other(page, query)


@pytest.mark.parametrize("size", [(1280, 800), (1440, 900), (390, 844)])
def test_ten_answers_unclear_and_skip_are_in_view(
    open_page: Open, size: tuple[int, int]
) -> None:
    page = open_page(MANY, **_view(*size)).page
    for answer in ("answer-1", "answer-10", "answer-unclear", "answer-skip"):
        expect(page.locator(f"#{answer}")).to_be_in_viewport(ratio=1)
    expect(page.locator(".label-image img")).to_be_in_viewport(ratio=1)
    assert page.locator(".label-image img").evaluate("i => i.clientHeight") >= 200


def test_one_query_fills_the_window_and_the_menu_leads_to_other_queues(
    open_page: Open,
) -> None:
    # In one browser, for which the same query stays reserved.
    page = open_page("/detectors/det_1/label").page
    menu = page.locator(".queue-menu > summary")
    grid = page.get_by_role("link", name="Many at once")
    root = "document.documentElement"
    for width, height in ((1440, 900), (1024, 768), (720, 900), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        size = page.evaluate(f"[{root}.scrollWidth, {root}.scrollHeight]")
        assert size == [width, height]
        for answer in ("answer-1", "answer-2", "answer-unclear", "answer-skip"):
            expect(page.locator(f"#{answer}")).to_be_in_viewport(ratio=1)
        image = page.locator(".label-stage").bounding_box()
        assert image is not None
        assert image["height"] > height / 2
        menu.click()
        expect(grid).to_be_in_viewport(ratio=1)
        assert page.evaluate(f"{root}.scrollWidth") == width
        menu.click()
    menu.click()
    grid.click()
    expect(page).to_have_url(re.compile("/label/grid"))


def _serve(page: Page, size: tuple[int, int]) -> None:
    """Answer every image with one of *size*."""
    buffer = io.BytesIO()
    Image.new("RGB", size, "teal").save(buffer, "PNG")
    for pattern in ("**/image", "**/thumbnail"):
        page.route(
            pattern,
            lambda route: route.fulfill(
                content_type="image/png", body=buffer.getvalue()
            ),
        )


def test_no_image_is_too_slender_to_be_seen(open_page: Open, site: Site) -> None:
    # In one browser, for which the same queries stay reserved.
    page = open_page("/account").page
    paths = (MANY, "/detectors/det_5/label/grid", f"/queries/{next(iter(site.digits))}")
    sizes = ((4000, 2), (2, 4000), (320, 1), (1, 320), (300, 200))
    for size, path in product(sizes, paths):
        page.unroute_all()
        _serve(page, size)
        page.goto(site.url + path)
        image = page.locator(".label-image img, .tiles img").first
        expect(image).to_be_visible()
        image.evaluate("image => image.decode()")
        assert image.evaluate(_IS_SEEN)
        width, height = image.evaluate(_DRAWN)
        assert min(width, height) > 30, (size, path)
        # What can be seen as it is keeps its shape.
        if size == (300, 200):
            assert width / height == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (MANY, "Keyboard shortcuts and loading images ahead need JavaScript"),
        (
            "/detectors/det_1/changes?by=labels",
            "The chart needs JavaScript; the table below has its numbers.",
        ),
    ],
)
def test_what_needs_scripts_says_so_without_them(
    open_page: Open, path: str, said: str
) -> None:
    page = open_page(path, java_script_enabled=False).page
    words = page.locator("noscript")
    expect(words).to_be_visible()
    assert said in words.evaluate("words => words.innerText")
    expect(page.locator(".chart-host:visible")).to_have_count(0)
    page = open_page(path).page
    expect(page.locator("noscript")).to_be_hidden()


def test_answers_are_given_without_scripts(open_page: Open) -> None:
    page = open_page(MANY, java_script_enabled=False).page
    page.locator("#answer-unclear").click()
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
