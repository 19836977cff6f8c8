"""What somebody hears who lets the page be read out."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import query_of, wait_for_other
from tests.databases import get_by_id
from tracker.storage.queries.queries import Query

Open = Callable[..., Watch]


def heard(page: Page, selector: str) -> str:
    return (
        page.locator(selector)
        .aria_snapshot()
        .replace("\N{NARROW NO-BREAK SPACE}%", " %")
    )


def _focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id"))


def test_a_query_is_heard_as_question_image_and_answers(
    open_page: Open, site: Site
) -> None:
    page = open_page("/detectors/det_1/label").page
    said = heard(page, ".label-card")
    assert '- heading "Is this digit an 8?" [level=2]' in said
    assert f'- img "The image to judge, query {query_of(page)}"' in said
    answers = page.get_by_role("group", name="Is this digit an 8?")
    keys = [
        (button.inner_text().split()[0], button.get_attribute("aria-keyshortcuts"))
        for button in answers.get_by_role("button").all()
    ]
    assert keys == [("YES", "1"), ("NO", "2")]
    for name, key in (("Unclear", "U"), ("Skip", "S")):
        button = page.get_by_role("button", name=name, exact=True)
        assert button.get_attribute("aria-keyshortcuts") == key
    # The classes are heard once, as answers: what the detector said is not.
    assert re.findall(r"\b(?:YES|NO)\b", said) == ["YES", "NO"]
    assert "detector said" not in said


def test_progress_is_heard_in_words(open_page: Open) -> None:
    page = open_page("/detectors/det_1/label").page
    said = heard(page, "#progress")
    assert re.search(r"paragraph: \d+ labelled quer(y|ies)\n", said)
    today = r"today \d+ by you, \d+ by everyone, including imports and corrections"
    assert re.search(rf"paragraph: {today}\n", said)
    assert re.search(r"paragraph: \d+ left in the random queue\n", said)
    assert said.strip().endswith("Chance picks what comes.")
    between = r"[\d.]+ %, between [\d.]+ and [\d.]+ %"
    mean = r"mean of 2 classes, \d+ of \d+ predictions correct"
    assert re.search(rf"text: {between}, {mean}\n", said)


@pytest.mark.parametrize("is_agreed", [True, False])
def test_what_came_of_an_answer_is_announced(
    open_page: Open, site: Site, is_agreed: bool
) -> None:
    page = open_page("/detectors/det_2/label").page
    region = page.get_by_role("status")
    region.evaluate("region => { region.dataset.mark = 'the same'; }")
    expect(region).to_have_text("")
    query = query_of(page)
    with site.database.read() as session:
        said = get_by_id(session, Query, int(query.removeprefix("iq_"))).predicted
    other = str((int(said) + 1) % 10)
    page.keyboard.press(said if is_agreed else other)
    wait_for_other(page, query)
    word = "agreed" if is_agreed else "disagreed"
    announced = re.compile(
        rf"you said \d, the detector {word}.* (\d+) labelled queries\.$"
    )
    expect(region).to_have_text(announced)
    told = announced.search(region.inner_text())
    assert told is not None
    expect(page.locator("#label-count")).to_have_text(told[1])
    # Only what changes within a region that was there before is announced.
    expect(region).to_have_attribute("data-mark", "the same")


def test_the_focus_is_never_lost(open_page: Open) -> None:
    page = open_page("/detectors/det_1/label").page

    def answer(act: Callable[[], None]) -> str:
        query = query_of(page)
        act()
        wait_for_other(page, query)
        return _focused(page)

    assert answer(lambda: page.keyboard.press("u")) == "question"
    page.locator("#answer-unclear").focus()
    assert answer(lambda: page.keyboard.press("Enter")) == "answer-unclear"
    assert answer(lambda: page.locator("#answer-1").click()) == "answer-1"
    assert answer(lambda: page.locator("#undo").click()) == "question"
    assert answer(lambda: page.keyboard.press("s")) == "question"
    page.locator("[data-help]").focus()
    assert answer(lambda: page.locator("#answer-skip").click()) == "answer-skip"


def test_a_detector_is_heard_in_words(open_page: Open) -> None:
    said = heard(open_page("/detectors/det_1").page, "main")
    answer = re.search(
        r'heading "It is right ([\d.]+).([\d.]+) % .*" \[level=2\]', said
    )
    assert answer is not None
    low, high = answer.groups()
    # Each picture says what the sentence says.
    assert re.search(rf'- img "{low} to {high} %, best estimate [\d.]+ %', said)
    assert f"between {low} and {high} percent" in said
    for name in ("YES", "NO"):
        row = rf'row "{name} [\d.]+ to [\d.]+ percent [\d.]+ % \d+ of \d+ .*":'
        assert re.search(rf'{row}\n\s+- rowheader "{name}"', said)
