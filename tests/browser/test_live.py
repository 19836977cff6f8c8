"""Pages that change while one looks: labelling by keyboard, labels that arrive."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import query_of, wait_for_other, wait_for_query
from tests.conftest import by
from tracker.clock import utc_now
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.storage.queries.queries import list_queries

Open = Callable[..., Watch]
_MARK = "document.documentElement.dataset.mark = 'not reloaded'"
_MARKED = "document.documentElement.dataset.mark === 'not reloaded'"


def _count(page: Page) -> int:
    return int(page.locator("#label-count").inner_text())


def test_two_browsers_are_never_shown_the_same_digit(open_page: Open) -> None:
    watches = [open_page("/detectors/det_1/label") for _ in range(2)]
    seen: list[str] = []
    for _ in range(4):
        for watch in watches:
            seen.append(query_of(watch.page))
            watch.page.keyboard.press("u")
            wait_for_other(watch.page, seen[-1])
    assert len(set(seen)) == len(seen)
    assert [watch.read() for watch in watches] == [[], []]


def test_an_answer_is_undone_by_key_and_by_button(open_page: Open) -> None:
    watch = open_page("/detectors/det_1/label")
    page = watch.page
    page.evaluate(_MARK)
    page.keyboard.press("z")
    answered = query_of(page)
    page.keyboard.press("1")
    following = wait_for_other(page, answered)
    count = _count(page)
    page.keyboard.press("z")
    wait_for_query(page, answered)
    expect(page.locator(".last-answer")).to_contain_text("Answer again")
    page.keyboard.press("u")
    wait_for_query(page, following)
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
    page.get_by_role("link", name="Change the last answer").click()
    wait_for_query(page, answered)
    page.keyboard.press("2")
    wait_for_query(page, following)
    assert _count(page) == count
    page.get_by_role("link", name="Last one").click()
    expect(page.locator("main")).to_contain_text("YES replaced")
    assert watch.read() == []


def test_skip_unclear_and_help_have_keys(open_page: Open) -> None:
    page = open_page("/detectors/det_1/label").page
    before = _count(page)
    first = query_of(page)
    page.keyboard.press("s")
    wait_for_other(page, first)
    assert _count(page) == before
    page.keyboard.press("u")
    expect(page.locator("#label-count")).to_have_text(str(before + 1))
    expect(page.locator(".last-answer")).to_contain_text("you said Unclear")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    assert _count(page) == before + 1


def test_a_key_typed_into_the_note_is_text(open_page: Open) -> None:
    page = open_page("/detectors/det_1/label").page
    before = _count(page)
    page.locator("summary", has_text="Add a note").click()
    page.get_by_placeholder("Why, in your words").press_sequentially("us 12")
    assert _count(page) == before
    page.locator("#answer-1").click()
    expect(page.locator("#label-count")).to_have_text(str(before + 1))
    page.get_by_role("link", name="Last one").click()
    expect(page.locator(".label-note")).to_have_text("us 12")


def test_the_page_of_a_detector_follows_the_labels(open_page: Open, site: Site) -> None:
    with site.without_job():
        watch = open_page("/detectors/det_1")
        page = watch.page
        chart = page.locator("#tightening svg[role=img]")
        page.locator("#once summary").click()
        page.evaluate(_MARK)
        before = chart.get_attribute("aria-label")
        assert before
        labels = int(re.findall(r"after ([\d,]+) label", before)[0].replace(",", ""))
        _label_one(site)
        # It ends with the live estimate, which counts a label before it is folded in.
        expect(chart).to_have_attribute(
            "aria-label", re.compile(f"after {labels + 1} ")
        )
        expect(page.locator(".answer-card .why")).to_contain_text(f"{labels + 1} ")
    assert page.evaluate(_MARKED)
    # What was opened to read stays open.
    expect(page.locator("#once")).to_have_attribute("open", "")
    assert watch.read() == []


def _label_one(site: Site) -> None:
    with site.database.write() as session:
        [query] = list_queries(session, 1, labelled=False, limit=1)
        new = NewLabel(label=query.predicted, sampling="random")
        add_label(session, query.id, new, by("test", utc_now()))


def test_a_page_asks_once_every_few_seconds(open_page: Open, site: Site) -> None:
    page = open_page("/detectors/det_1").page
    page.wait_for_load_state("networkidle")
    _label_one(site)
    polls: list[str] = []
    page.on("request", lambda r: polls.append(r.url) if "seen=" in r.url else None)
    with page.expect_request(lambda request: "seen=" in request.url):
        pass
    # A part that is replaced must not leave its clock behind.
    page.wait_for_timeout(6_000)
    assert 1 <= len(polls) <= 3
