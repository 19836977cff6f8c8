"""The label page where the network or a key is not as it should be."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import (
    Held,
    open_held,
    query_of,
    wait_for_next_image,
    wait_for_other,
    wait_for_query,
)

Open = Callable[..., Watch]
MANY = "/detectors/det_5/label"
_PAINTED = """new Promise(done => requestAnimationFrame(() =>
  requestAnimationFrame(() => requestAnimationFrame(done))))"""
_PLACES = """[...document.querySelectorAll(".label-bar, .label-image, .btn")].map(
  seen => Object.values(seen.getBoundingClientRect().toJSON()))"""
_PRESS_AT = """([key, at]) => {
  const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
  Object.defineProperty(event, "timeStamp", { value: at });
  document.activeElement.dispatchEvent(event);
}"""


def _fail(page: Page, pattern: str, status: int | None) -> None:
    """Let the server be away, or answer with *status* and a page about it."""

    def fail(route: Route) -> None:
        if status is None:
            route.abort()
        else:
            page = "<!doctype html><title>Error</title><main>Error</main>"
            route.fulfill(status=status, content_type="text/html", body=page)

    page.route(pattern, fail)


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (None, "the server did not answer"),
        (500, "the server answered with an error"),
        (503, "the server answered with an error"),
    ],
)
def test_an_answer_that_is_not_saved_is_told(
    open_page: Open, site: Site, status: int | None, why: str
) -> None:
    page = open_held(open_page, MANY).page
    first = query_of(page)
    page.keyboard.press(site.digits[first])
    second = wait_for_other(page, first)
    places, said = page.evaluate(_PLACES), page.locator("#said")
    expect(said).to_contain_text("you said")
    alert = page.get_by_role("alert")
    _fail(page, "**/label", status)
    page.keyboard.press(site.digits[second])
    expect(alert).to_have_text(f"Your answer was not saved: {why}. Try again.")
    expect(alert).to_be_in_viewport(ratio=1)
    expect(said).to_have_text("")
    assert query_of(page) == second
    assert page.evaluate(_PLACES) == places
    expect(page).to_have_title(re.compile("^Label"))
    page.unroute("**/label")
    page.locator(f'[data-key="{site.digits[second]}"]').click()
    wait_for_other(page, second)
    expect(alert).to_have_count(0)
    expect(said).to_contain_text("you said")


@pytest.mark.parametrize("status", [None, 503])
def test_an_answer_that_is_not_opened_again_is_told(
    open_page: Open, site: Site, status: int | None
) -> None:
    page = open_held(open_page, MANY).page
    first = query_of(page)
    page.keyboard.press(site.digits[first])
    second = wait_for_other(page, first)
    _fail(page, "**again=*", status)
    page.keyboard.press("z")
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed: the server")
    assert query_of(page) == second
    page.unroute("**again=*")
    page.locator("#undo").click()
    wait_for_query(page, first)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_an_answer_that_was_saved_is_not_called_lost(
    open_page: Open, site: Site
) -> None:
    page = open_held(open_page, MANY).page
    first = query_of(page)
    gone = {"Location": "/nowhere/else"}
    page.route("**/label", lambda route: route.fulfill(status=303, headers=gone))
    page.keyboard.press(site.digits[first])
    expect(page.get_by_role("alert")).to_contain_text("Your answer was saved, but")


@pytest.mark.parametrize("status", [None, 500, 404])
def test_what_is_read_in_the_background_raises_no_alarm(
    open_page: Open, status: int | None
) -> None:
    page = open_held(open_page, MANY).page
    count = page.locator("#label-count").inner_text()
    _fail(page, "**/progress?*", status)
    ended = "requestfinished" if status else "requestfailed"
    with page.expect_event(ended, lambda request: "/progress?" in request.url):
        pass
    page.evaluate(_PAINTED)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#label-count")).to_have_text(count)
    expect(page).to_have_title(re.compile("^Label"))


def test_an_answer_that_takes_long_is_shown_to_be_on_its_way(
    open_page: Open, site: Site
) -> None:
    page = open_held(open_page, MANY).page
    first = query_of(page)
    wait_for_next_image(page)
    places = page.evaluate(_PLACES)
    held = Held(page, "**/label")
    page.keyboard.press(site.digits[first])
    sign = page.get_by_text("Saving …", exact=True).and_(page.locator(".bar-wait"))
    expect(sign).to_be_visible()
    expect(page.locator("#said")).to_have_text("Saving …")
    assert page.evaluate(_PLACES) == places
    held.let_go()
    page.unroute("**/label")
    wait_for_other(page, first)
    expect(sign).to_be_hidden()
    expect(page.locator("#said")).to_contain_text("you said")


def test_a_key_that_bounces_answers_once(open_page: Open) -> None:
    page = open_held(open_page, MANY).page
    wait_for_next_image(page)
    held = Held(page, "**/label")
    # From here on the next image is seen, and a key is about it.
    page.evaluate(_PRESS_AT, ["u", 1_000])
    page.evaluate(_PAINTED)
    page.evaluate(_PRESS_AT, ["u", 1_020])
    page.evaluate(_PRESS_AT, ["u", 1_079])
    first = query_of(page)
    held.let_go()
    second = wait_for_other(page, first)
    assert len(held.routes) == 1
    # Once the next query is shown, the same key may answer it at once.
    page.evaluate(_PRESS_AT, ["u", 1_099])
    page.wait_for_function("document.querySelector('.label-form.htmx-request')")
    held.let_go(1)
    page.unroute("**/label")
    wait_for_other(page, second)


def test_another_key_is_no_bounce(open_page: Open) -> None:
    page = open_held(open_page, MANY).page
    wait_for_next_image(page)
    first = query_of(page)
    following = page.locator(".label-form").get_attribute("data-next-query")
    assert following
    held = Held(page, "**/label")
    page.evaluate(_PRESS_AT, ["3", 1_000])
    page.evaluate(_PAINTED)
    page.evaluate(_PRESS_AT, ["4", 1_020])
    held.let_go()
    page.unroute("**/label")
    expect(page.locator(".last-answer")).to_contain_text("you said 4")
    assert query_of(page) not in {first, following}


def test_a_key_that_leads_into_a_text_is_not_typed_there(open_page: Open) -> None:
    page = open_held(open_page, MANY).page
    page.keyboard.press("n")
    note = page.locator("#note")
    expect(note).to_be_focused()
    is_taken = """at => !document.activeElement.dispatchEvent(Object.defineProperty(
      new KeyboardEvent("keydown", { key: "x", bubbles: true, cancelable: true }),
      "timeStamp", { value: at }))"""
    # Letters that come twice are text.
    assert [page.evaluate(is_taken, at) for at in (10, 20)] == [False, False]
    page.keyboard.press("Escape")
    page.evaluate(_PRESS_AT, ["x", 1_000])
    note.focus()
    # The key is up again after a bounce, or as soon as another one goes down.
    assert [page.evaluate(is_taken, at) for at in (1_050, 1_200, 1_210)] == [
        True,
        False,
        False,
    ]
