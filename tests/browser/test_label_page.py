"""The label page as somebody meets it for the first time."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete

from tests.browser.conftest import Site, Watch
from tests.browser.turns import (
    Held,
    open_held,
    query_of,
    wait_for_next_image,
    wait_for_other,
    wait_for_query,
)
from tests.conftest import by
from tests.imports import import_rows
from tracker.clock import utc_now
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.people.accounts import create_account, set_password
from tracker.storage.people import SignIn

Open = Callable[..., Watch]
SIZES = [(1280, 900), (390, 844)]
TWENTY = [f"class {number:02}" for number in range(20)]
LONG = ["no_space_in_this_name_" * 4 + f"_{number}" for number in range(3)]
PASSWORD = "violin anchor tuesday"
_PLACES = """[...document.querySelectorAll(".label-image, .answers")].map(seen =>
  Object.values(seen.getBoundingClientRect().toJSON()))"""
_PAINTED = """new Promise(done => requestAnimationFrame(() =>
  requestAnimationFrame(() => requestAnimationFrame(done))))"""
_PRESS = """keys => keys.forEach(key => document.body.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true })))"""
# The text of what is chosen, in its font, beside the paddings of the select.
_CUT = """() => [...document.querySelectorAll(".filter-bar select")].filter(select => {
  const style = getComputedStyle(select);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = style.font;
  const text = pen.measureText(select.selectedOptions[0].text).width;
  return text + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight)
    > select.clientWidth;
}).map(select => select.id)"""


def add_detector(
    site: Site, name: str, classes: list[str], rows: list[dict[str, Any]]
) -> None:
    with site.database.write() as session:
        new = NewDetector(name=name, question="Which one?", classes=classes)
        import_rows(
            session,
            create_detector(session, new, by(at=utc_now())),
            rows,
            by("demo", utc_now()),
            digest=name,
        )


@pytest.fixture(scope="module")
def filled(site: Site) -> Site:
    """A site with detectors of many classes, of long ones, and without images."""
    rows = [{"key": f"q{n}", "predicted": TWENTY[n % 20]} for n in range(60)]
    add_detector(site, "twenty", TWENTY, rows)
    names = [f"{'key' * 60}{n}" for n in range(300)]
    labelled = [
        {"key": key, "predicted": LONG[n % 3]}
        | ({"label": LONG[n % 3]} if n < 30 else {})
        for n, key in enumerate(names)
    ]
    add_detector(site, "long", LONG, labelled)
    rows = [{"key": f"cat-{n}", "predicted": "NO"} for n in range(30)]
    add_detector(site, "no images", ["YES", "NO"], rows)
    return site


def _count(page: Page) -> int:
    return int(page.locator("#label-count").inner_text())


def _today(page: Page) -> int:
    said = re.search(r"(\d+) by you", page.locator("#labels-today").inner_text())
    assert said is not None
    return int(said[1])


@pytest.mark.parametrize("size", SIZES)
def test_the_last_answer_and_its_change_are_in_sight_and_move_nothing(
    open_page: Open, site: Site, size: tuple[int, int]
) -> None:
    width, height = size
    view = {"width": width, "height": height}
    page = open_page("/detectors/det_5/label", viewport=view).page
    places = page.evaluate(_PLACES)
    first = query_of(page)
    page.keyboard.press(site.digits[first])
    expect(page.locator(".last-answer")).to_contain_text("you said")
    expect(page.locator("#undo")).to_be_in_viewport(ratio=1)
    assert page.evaluate(_PLACES) == places
    page.locator("#undo").click()
    wait_for_query(page, first)
    hint = page.locator(".last-answer")
    expect(hint).to_contain_text(
        f"Changing your last answer. You said {site.digits[first]}. Answer again, or "
        "skip to keep it."
    )
    expect(hint).to_be_in_viewport(ratio=1)
    assert page.evaluate(_PLACES) == places
    box, image = hint.bounding_box(), page.locator(".label-image").bounding_box()
    assert box is not None
    assert image is not None
    assert box["y"] + box["height"] <= image["y"]
    # All ten answers are seen, too.
    expect(page.locator("#answer-10")).to_be_in_viewport(ratio=1)


def test_whoever_was_signed_out_is_told_and_comes_back(
    open_page: Open, site: Site
) -> None:
    with site.database.write() as session:
        lena = create_account(
            session, "lena", "labeler", by(at=utc_now()), has_all_detectors=True
        )
        set_password(session, lena, PASSWORD, by())
    page = open_page("/detectors/det_1/label").page
    with site.database.write() as session:
        session.execute(delete(SignIn))
    page.keyboard.press("1")
    expect(page.get_by_role("alert")).to_have_text(
        "You were signed out; your last answer was not saved. Sign in to go on."
    )
    page.get_by_label("Name").fill("lena")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page).to_have_url(f"{site.url}/detectors/det_1/label")
    expect(page.locator(".label-image img")).to_be_visible()


@pytest.mark.usefixtures("filled")
def test_keys_are_keys_until_the_classes_are_searched(open_page: Open) -> None:
    page = open_page("/detectors/twenty/label").page
    search = page.get_by_label("Class")
    first = query_of(page)
    page.keyboard.press("u")
    wait_for_other(page, first)
    expect(page.locator(".answer-search kbd")).to_have_text("/")
    second = query_of(page)
    page.keyboard.press("/")
    expect(search).to_be_focused()
    page.keyboard.type("07")
    page.keyboard.press("Enter")
    wait_for_other(page, second)
    expect(page.locator(".last-answer")).to_contain_text("you said class 07")
    # The letters are keys again.
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("z")
    wait_for_query(page, second)


@pytest.mark.usefixtures("filled")
def test_what_fits_several_classes_is_asked_for_again(open_page: Open) -> None:
    page = open_page("/detectors/twenty/label").page
    page.keyboard.press("/")
    page.keyboard.type("class 1")
    page.keyboard.press("Enter")
    expect(page.locator("#label-error")).to_have_text(
        "'class 1' is not right: 10 classes have that in their name: class 10, "
        "class 11, class 12, …"
    )
    expect(page.get_by_label("Class")).to_be_focused()
    expect(page.get_by_label("Class")).to_have_value("class 1")
    page.keyboard.press("7")
    page.keyboard.press("Enter")
    expect(page.locator(".last-answer")).to_contain_text("you said class 17")


@pytest.mark.usefixtures("filled")
def test_a_search_that_is_not_right_has_the_focus_though_it_was_left(
    open_page: Open,
) -> None:
    page = open_held(open_page, "/detectors/twenty/label").page
    held = Held(page, "**/label")
    page.keyboard.press("/")
    page.keyboard.type("class 1")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    held.let_go()
    page.unroute("**/label")
    expect(page.locator("#label-error")).to_contain_text("10 classes have that")
    expect(page.get_by_label("Class")).to_be_focused()
    page.keyboard.press("8")
    page.keyboard.press("Enter")
    expect(page.locator(".last-answer")).to_contain_text("you said class 18")


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ["label", "label/grid", "label?queue=targeted"])
def test_long_names_stay_within_their_cards(
    open_page: Open, path: str, size: tuple[int, int]
) -> None:
    width, height = size
    view = {"width": width, "height": height}
    page = open_page(f"/detectors/long/{path}", viewport=view).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = """() => [...document.querySelectorAll(".label-page .card")].filter(card =>
      [...card.querySelectorAll("*")].some(inner =>
        inner.getBoundingClientRect().right > card.getBoundingClientRect().right)
    ).length"""
    assert page.evaluate(wide) == 0


def test_keys_are_shown_by_a_button(open_page: Open) -> None:
    page = open_page("/detectors/det_1/label").page
    page.get_by_role("button", name="Keys").click()
    expect(page.locator("#help")).to_be_visible()
    expect(page.locator("#help")).to_contain_text("Change the last answer")


def test_selects_of_the_targeted_queue_are_not_cut_on_a_phone(
    open_page: Open,
) -> None:
    view = {"width": 390, "height": 844}
    page = open_page("/detectors/det_2/label?queue=targeted", viewport=view).page
    assert page.locator(".filter-bar select").count() == 2
    assert page.evaluate(_CUT) == []


def test_ten_keys_at_once_give_one_label(open_page: Open) -> None:
    page = open_page("/detectors/det_5/label").page
    wait_for_next_image(page)
    before, first = _today(page), query_of(page)
    page.evaluate(_PRESS, list("0123456789"))
    wait_for_other(page, first)
    expect(page.locator(".last-answer")).to_contain_text("you said 0")
    second = query_of(page)
    page.wait_for_timeout(500)
    assert query_of(page) == second
    page.reload()
    assert _today(page) == before + 1


@pytest.mark.usefixtures("filled")
def test_without_images_a_second_key_does_not_replace_the_answer(
    open_page: Open,
) -> None:
    page = open_held(open_page, "/detectors/no images/label").page
    before, first = _today(page), query_of(page)
    held = Held(page, "**/label")
    page.keyboard.press("1")
    page.wait_for_timeout(100)
    page.keyboard.press("2")
    page.locator("#answer-2").click()
    page.wait_for_timeout(100)
    assert len(held.routes) == 1
    held.let_go()
    page.unroute("**/label")
    expect(page.locator(".last-answer")).to_contain_text("you said YES")
    wait_for_other(page, first)
    page.wait_for_timeout(300)
    page.reload()
    assert _today(page) == before + 1


def test_nothing_is_said_of_an_image_that_is_not_there_yet(
    open_page: Open, site: Site
) -> None:
    page = open_held(open_page, "/detectors/det_5/label").page
    wait_for_next_image(page)
    held = Held(page, "**/image")
    for _ in range(2):
        query = query_of(page)
        page.keyboard.press(site.digits[query])
        expect(page.locator("input[name=query]")).not_to_have_value(query)
    third, before = query_of(page), _count(page)
    page.keyboard.press("0")
    page.locator("#answer-1").click()
    page.wait_for_timeout(300)
    assert (query_of(page), _count(page)) == (third, before)
    held.let_all_go()
    page.unroute("**/image")
    page.locator(".label-image img").evaluate("image => image.decode()")
    page.keyboard.press(site.digits[third])
    wait_for_other(page, third)
    assert _count(page) == before + 1


def test_an_image_that_was_seen_is_not_waited_for_again(
    open_page: Open, site: Site
) -> None:
    page = open_held(open_page, "/detectors/det_5/label").page
    first = query_of(page)
    page.keyboard.press(site.digits[first])
    wait_for_other(page, first)
    before = _count(page)
    held = Held(page, "**/image")
    page.keyboard.press("z")
    expect(page.locator("input[name=query]")).to_have_value(first)
    page.keyboard.press("u")
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
    assert _count(page) == before
    held.let_all_go()


def test_a_click_is_about_the_image_that_is_seen(open_page: Open, site: Site) -> None:
    page = open_held(open_page, "/detectors/det_5/label").page
    wait_for_next_image(page)
    first = query_of(page)
    following = page.locator(".label-form").get_attribute("data-next-query")
    assert following
    held = Held(page, "**/label")
    page.keyboard.press(site.digits[first])
    expect(page.locator(".label-image img")).to_have_attribute(
        "src", f"{site.url}/queries/{following}/image"
    )
    page.evaluate(_PAINTED)
    page.locator("#answer-unclear").click()
    held.let_go()
    page.unroute("**/label")
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
    for query, label in ((first, site.digits[first]), (following, "Unclear")):
        page.goto(f"{site.url}/queries/{query}")
        expect(page.locator(".label-history li")).to_have_count(1)
        expect(page.locator(".label-history li")).to_contain_text(label)
