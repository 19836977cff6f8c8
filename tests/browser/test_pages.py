"""Every page in a browser: wide and narrow, light and dark."""

import re
from collections.abc import Callable
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site, Watch
from tests.conftest import IS_LONG

Open = Callable[..., Watch]
PAGES = (
    "/",
    "/inbox",
    "/label",
    "/find?q=digit",
    "/detectors/new",
    "/detectors/det_1",
    "/detectors/det_2",
    "/detectors/det_3",
    "/detectors/det_1/changes",
    "/detectors/det_1/methods",
    "/detectors/det_1/methods/coverage",
    "/detectors/det_1/why",
    "/detectors/det_1/why/peeking",
    "/detectors/det_1/labelling",
    "/detectors/det_1?method=exact",
    "/detectors/det_1/changes?by=labels",
    "/detectors/det_1/slices",
    "/detectors/det_1/thresholds",
    "/detectors/det_1/repeats",
    "/detectors/det_1/events",
    "/detectors/det_1/labelers",
    "/detectors/det_1/judges",
    "/detectors/det_1/audits",
    "/detectors/det_1/badges",
    "/detectors/det_1/queries/waiting",
    "/detectors/archived",
    "/detectors/det_4/changes?old=v1&new=v2",
    "/detectors/det_1/label",
    "/detectors/det_2/label",
    "/detectors/det_3/label",
    "/detectors/det_1/label?queue=targeted",
    "/detectors/det_1/label/grid",
    "/detectors/det_2/label/grid",
    "/detectors/det_1/queries",
    "/detectors/det_1/mistakes",
    "/detectors/det_1/import",
    "/imports/imp_1",
    "/detectors/det_1/studies",
    "/studies/stu_1",
    "/studies/stu_2",
    "/detectors/det_1/setup",
    "/keys",
    "/people",
    "/people/1",
    "/activity",
    "/activity/server",
    "/alerts",
    "/account/mail",
    "/account",
    "/api/v1/docs",
    "/sign-in",
    "/queries/QUERY",
    "/nowhere",
)
_THEME = "theme => document.documentElement.dataset.theme === theme"
_CALM = """() => !document.querySelector("[aria-busy]")
  && (!document.getElementById("swagger-ui") || document.querySelector(".opblock"))
  && [...document.querySelectorAll("[data-chart-url]")].every((host) =>
       host.querySelector(`.tracker-chart[data-layout="${
         host.clientWidth < 640 ? "narrow" : "wide"}"]`))"""
AXE = {
    "runOnly": [
        "wcag2a",
        "wcag2aa",
        "wcag21a",
        "wcag21aa",
        "wcag22aa",
        "best-practice",
    ],
    "resultTypes": ["violations"],
}


_WIDTHS = (1440, 1024, 390)
# All widths and both themes; `make chaos` judges all six together.
_JUDGED = {(1440, "light"), (1024, "light"), (390, "dark")}


def violations(page: Page) -> str:
    """What axe complains about on *page* as it stands."""
    found = Axe().run(page, options=AXE)
    return found.generate_report() if found.violations_count else ""


@pytest.mark.longer
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_in_order(open_page: Open, site: Site, path: str) -> None:
    watch = open_page(path.replace("QUERY", next(iter(site.digits))))
    page = watch.page
    for width in _WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            page.wait_for_function(_THEME, arg=theme)
            page.wait_for_function(_CALM)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            if IS_LONG or (width, theme) in _JUDGED:
                assert violations(page) == ""
    complaints = [c for c in watch.read() if not (path == "/nowhere" and "404" in c)]
    assert complaints == []


@pytest.mark.parametrize(("width", "theme"), [(1280, "light"), (390, "dark")])
def test_a_call_of_the_api_that_is_open_is_in_order_too(
    open_page: Open, width: int, theme: Literal["light", "dark"]
) -> None:
    watch = open_page(
        "/api/v1/docs",
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        reduced_motion="reduce",
    )
    page = watch.page
    for call in ("list_detectors", "create_detector", "archive_detector"):
        page.locator(f"[id$='-{call}'] .opblock-summary-control").click()
    for _ in range(3):
        page.get_by_role("button", name="Try it out").first.click()
    page.get_by_role("button", name="Execute").first.click()
    # Nobody has given a key, so that the answer is an error, which is shown as well.
    expect(page.locator(".live-responses-table")).to_contain_text("UNAUTHORIZED")
    expect(page.locator(".models")).to_contain_text("Estimate")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page) == ""
    page.get_by_role("button", name="Authorize").first.click()
    expect(page.locator(".modal-ux")).to_be_visible()
    assert violations(page) == ""
    assert [one for one in watch.read() if "401" not in one] == []


def test_the_theme_that_was_chosen_stays(open_page: Open, site: Site) -> None:
    page = open_page("/", color_scheme="light").page
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == "light"
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(theme) == "dark"
    page.goto(f"{site.url}/keys")
    assert page.evaluate(theme) == "dark"
    button = page.get_by_role("button", name="Dark theme")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    assert page.evaluate(theme) == "light"


def test_the_first_tab_leads_to_the_content(open_page: Open) -> None:
    page = open_page("/detectors/det_1").page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_choosing_is_enough_to_filter(open_page: Open) -> None:
    page = open_page("/detectors/det_1/queries").page
    page.get_by_label("Detector said").select_option("YES")
    page.wait_for_url(re.compile("predicted=YES"))
    assert page.locator(".query-card").count() > 0


def test_pages_work_without_scripts(open_page: Open, site: Site) -> None:
    page = open_page("/detectors/det_1/label", java_script_enabled=False).page
    before = int(page.locator("#label-count").inner_text())
    page.get_by_role("button", name="YES").click()
    assert int(page.locator("#label-count").inner_text()) == before + 1
    page.goto(f"{site.url}/detectors/det_1")
    assert "of the time" in page.locator("#answer-title").inner_text()
    page.goto(f"{site.url}/detectors/det_1/labelling")
    assert "more labels" in page.locator("#more").inner_text()
    page.get_by_label("To know it within").select_option("10")
    page.get_by_role("button", name="Calculate").click()
    assert "within=10" in page.url


def test_signing_in_by_the_link_and_out_again(chromium: Browser, site: Site) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/detectors/det_1")
    assert page.url.endswith("/sign-in?next=/detectors/det_1")
    link = site.link("newcomer", "labeler")
    page.goto(link)
    page.get_by_role("button", name="Sign in as").click()
    assert page.url == f"{site.url}/"
    assert "You are signed in as newcomer" in page.locator("main").inner_text()
    assert page.get_by_role("link", name="Keys", exact=True).count() == 0
    page.get_by_role("link", name="newcomer").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    assert page.url == f"{site.url}/sign-in"
    page.goto(link)
    assert "already used" in page.locator("main").inner_text()
    context.close()
