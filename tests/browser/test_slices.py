"""Slices and thresholds in a browser: in order, by keyboard and on a telephone."""

import re
from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Site, Watch
from tests.browser.test_pages import AXE
from tests.conftest import by
from tests.imports import import_rows
from tracker.clock import utc_now
from tracker.services.detectors import NewDetector, create_detector

Open = Callable[..., Watch]
PAGES = ("slices", "slices?by=week", "weeks?by=day&measure=overall", "thresholds")


@pytest.fixture(scope="module", autouse=True)
def cameras(site: Site) -> None:
    """A detector whose camera north is wrong half of the time."""
    rows = []
    for number in range(400):
        is_wrong = number % 8 == 0
        rows.append(
            {
                "key": str(number),
                "predicted": "YES" if number % 3 else "NO",
                "label": ("NO" if number % 3 else "YES")
                if is_wrong
                else ("YES" if number % 3 else "NO"),
                "confidence": 0.6 if is_wrong else 0.5 + number / 800,
                "metadata": {"camera": ("north", "south", "east", "west")[number % 4]},
            }
        )
    new = NewDetector(
        name="cameras",
        question="Is the door closed?",
        classes=["YES", "NO"],
        target=0.9,
        slices=["camera"],
        label_sampling="random",
    )
    with site.database.write() as session:
        import_rows(
            session,
            create_detector(session, new, by(at=utc_now())),
            rows,
            by("demo", utc_now()),
            digest="cameras",
        )
    with site.without_job():
        pass


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_in_order(open_page: Open, path: str, scheme: str) -> None:
    watch = open_page(f"/detectors/cameras/{path}", color_scheme=scheme)
    page = watch.page
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe().run(page, options=AXE)
        assert found.violations_count == 0, found.generate_report()
    assert watch.read() == []


def test_from_the_worst_slice_to_its_mistakes_by_keyboard(open_page: Open) -> None:
    watch = open_page("/detectors/cameras/slices")
    page = watch.page
    expect(page.locator("h2").first).to_contain_text("north")
    link = page.get_by_role("link", name=re.compile("^50 of north"))
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**where=metadata.camera*")
    expect(page.locator(".toolbar h2")).to_have_text("50 mistakes")
    listed = [one.get_attribute("href") for one in page.locator(".query-card a").all()]
    page.locator(".query-card a").first.click()
    page.wait_for_url(f"**{listed[0]}")
    for address in listed[1:4]:
        page.keyboard.press("j")
        page.wait_for_url(f"**{address}")
    expect(page.locator(".facts")).to_contain_text("north")
    assert watch.read() == []


def test_two_that_are_ticked_are_compared_in_one_sentence(open_page: Open) -> None:
    watch = open_page("/detectors/cameras/slices")
    page = watch.page
    for name in ("north", "south"):
        page.get_by_role("checkbox", name=f"Compare {name}").check()
    page.get_by_role("button", name="Compare the two ticked").click()
    expect(page.locator("#picked-title")).to_contain_text("points lower than that of")
    expect(page.locator(".cuts input:checked")).to_have_count(2)
    page.get_by_role("searchbox").fill("sou")
    page.keyboard.press("Enter")
    expect(page.locator(".cuts tbody tr")).to_have_count(1)
    page.get_by_role("link", name="south", exact=True).click()
    expect(page.locator("#picked")).to_contain_text("Label these")
    assert watch.read() == []


def test_the_thresholds_say_in_a_table_what_the_curve_shows(open_page: Open) -> None:
    watch = open_page(
        "/detectors/cameras/thresholds",
        viewport={"width": 390, "height": 844},
        has_touch=True,
    )
    page = watch.page
    page.get_by_text("The numbers", exact=True).first.tap()
    regions = page.get_by_role("region")
    assert regions.count() > 0
    # A table that is wider than the telephone is reached by Tab and scrolled by keys.
    for region in regions.all():
        if region.evaluate("e => e.scrollWidth > e.clientWidth"):
            assert region.get_attribute("tabindex") == "0"
    assert watch.read() == []
