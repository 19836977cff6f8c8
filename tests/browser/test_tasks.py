"""What people come for, begun at the list of detectors: how many clicks it takes."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Site, Watch

Open = Callable[..., Watch]


class Clicks:
    """A visitor who begins at the list of detectors and counts every click."""

    def __init__(self, watch: Watch) -> None:
        self.page: Page = watch.page
        self.number = 0

    def on(self, *roles: tuple[str, str | re.Pattern[str]]) -> "Clicks":
        """Click the first link, button or tab of each role and name in turn."""
        for role, name in roles:
            self.press(self.page.get_by_role(role, name=name).first)  # type: ignore[arg-type]
        return self

    def press(self, what: Locator) -> None:
        what.click()
        self.number += 1


@pytest.fixture
def clicks(open_page: Open) -> Clicks:
    return Clicks(open_page("/"))


DETECTOR = ("link", re.compile("^digit-is-8"))


def tab(name: str) -> tuple[str, re.Pattern[str]]:
    return "link", re.compile(f"^{name}")


def test_whether_the_target_is_met_stands_in_the_list(clicks: Clicks) -> None:
    row = clicks.page.locator("tr", has_text="digit-is-8")
    expect(row.locator(".verdict")).to_be_visible()
    clicks.on(DETECTOR)
    expect(clicks.page.locator("#answer-title")).to_contain_text("Target")
    assert clicks.number == 1


def test_why_it_is_wrong_takes_two_clicks(clicks: Clicks) -> None:
    clicks.on(DETECTOR, tab("Mistakes"))
    expect(clicks.page.locator("#answer-title")).to_contain_text("mistake")
    assert clicks.number == 2


def test_twenty_labels_take_one_click_and_twenty_keys(clicks: Clicks) -> None:
    page = clicks.page
    clicks.press(page.locator(".rail").get_by_role("link", name="Label"))
    clicks.press(page.locator(".act a"))
    expect(page.locator("input[name=query]")).to_be_attached()
    # A key that is pressed before the scripts have run is lost.
    page.wait_for_load_state("load")
    for _ in range(20):
        before = page.locator("input[name=query]").input_value()
        page.keyboard.press("2")
        expect(page.locator("input[name=query]")).not_to_have_value(before)
    assert clicks.number <= 2


def test_a_label_is_corrected_in_four_clicks(clicks: Clicks) -> None:
    page = clicks.page
    clicks.on(("link", re.compile("^two versions")), tab("Mistakes"))
    clicks.on(("link", "All answers"))
    clicks.press(page.locator(".query-card a").first)
    shown = page.locator(".label-history")
    before = shown.inner_text()
    page.keyboard.press("4")
    expect(shown).not_to_have_text(before, use_inner_text=True)
    assert clicks.number == 4


def test_two_versions_are_compared_in_three_clicks(clicks: Clicks) -> None:
    clicks.on(("link", re.compile("^two versions")), tab("Changes"))
    clicks.on(("button", "Compare"))
    expect(clicks.page.locator("#compared")).to_contain_text("v1")
    assert clicks.number == 3


def test_the_labels_of_a_colleague_take_three_clicks(
    clicks: Clicks, site: Site
) -> None:
    clicks.on(DETECTOR, tab("Labelling"))
    people = clicks.page.locator("section", has_text="who")
    name = people.locator("tbody a").first.inner_text()
    clicks.press(people.locator("tbody a").first)
    expect(clicks.page).to_have_url(re.compile(f"labeler={name}"))
    expect(clicks.page.locator(".query-card").first).to_be_visible()
    assert clicks.number == 3


def test_the_history_is_a_file_after_three_clicks(clicks: Clicks) -> None:
    clicks.on(DETECTOR, tab("Changes"))
    with clicks.page.expect_download() as file:
        clicks.on(("link", "CSV"))
    assert file.value.suggested_filename.endswith(".csv")
    assert clicks.number == 3


@pytest.mark.parametrize(
    ("place", "opener", "typed", "button", "shown"),
    [
        ("Keys", "New key", "line-3", "Create key", "#new-key"),
        ("People", "Invite someone", "maria", "Create account", "#new-link"),
        (
            *("Alerts", "Add a place", "https://example.org/hook"),
            *("Add webhook", "#new-secret"),
        ),
    ],
)
def test_a_key_an_invitation_and_a_webhook_take_three_clicks(
    clicks: Clicks, place: str, opener: str, typed: str, button: str, shown: str
) -> None:
    page = clicks.page
    clicks.press(page.locator(".rail").get_by_role("link", name=place))
    expect(page.get_by_role("button", name=button)).to_be_hidden()
    clicks.press(page.locator("summary", has_text=opener))
    page.locator("#new input[required]").first.fill(typed)
    clicks.on(("button", button))
    expect(page.locator(shown)).to_be_visible()
    assert clicks.number == 3


def test_an_audit_begins_in_four_clicks(clicks: Clicks) -> None:
    clicks.on(DETECTOR, tab("Labelling"), ("link", "Audits"))
    clicks.page.get_by_label(re.compile("^Name")).fill("November")
    clicks.on(("button", "Begin audit"))
    expect(clicks.page).to_have_url(re.compile("/audits/aud_"))
    assert clicks.number == 4


def test_what_changed_this_week_takes_one_click(clicks: Clicks) -> None:
    clicks.press(clicks.page.locator(".rail").get_by_role("link", name="Inbox"))
    expect(clicks.page.locator("#answer")).to_contain_text("since")
    assert clicks.number == 1
