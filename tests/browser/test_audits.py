"""The audit of the demo, finished by keyboard as a visitor does."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Site, Watch
from tests.browser.turns import query_of, wait_for_other
from tracker.cli.demo import add_audit, pick_audited
from tracker.clock import utc_now
from tracker.demo.digits import DETECTORS, Digit, digit_png, load_digits
from tracker.services.images import clean_image
from tracker.settings import Settings
from tracker.storage.images import ImageFolder
from tracker.storage.queries.queries import find_query

Open = Callable[..., Watch]


def begin(site: Site) -> None:
    """Begin the audit of the demo, with images of its own."""
    folder = Path(str(site.database.engine.url.database)).parent
    digits = pick_audited(load_digits())
    store = ImageFolder(Settings(data_dir=folder).image_dir)
    names = {}
    for digit in digits:
        image = clean_image(digit_png(digit.index))
        names[digit.index] = store.put(image.content, image.suffix)
    add_audit(site.database, digits, names, utc_now())


@pytest.mark.timeout(900)
def test_a_visitor_finishes_the_audit_of_the_demo_by_keyboard(
    open_page: Open, site: Site
) -> None:
    begin(site)
    digits: dict[str, Digit] = {f"digit-{one.index}": one for one in load_digits()}
    watch = open_page("/audits/aud_1")
    page = watch.page
    expect(page.locator("#audit-title")).to_contain_text("Nothing is known of these")
    page.get_by_role("link", name=re.compile("Label the next")).click()
    # Before the script and the image are there, a key answers nothing.
    page.wait_for_url("**/label?audit=aud_1")
    page.wait_for_load_state()
    reached = page.locator("#progress", has_text="The goal of this audit is reached.")
    answers = 0
    while not reached.count():
        query = query_of(page)
        with site.database.read() as session:
            found = find_query(session, int(query.removeprefix("iq_")))
            assert found is not None
            key = found.key
        assert key is not None
        label = DETECTORS[0].label_of(digits[key].digit)
        page.keyboard.press("1" if label == "YES" else "2")
        wait_for_other(page, query)
        answers += 1
        assert answers < 200
    # At the pace of a person who presses keys, about one in two seconds.
    assert answers <= 130
    page.get_by_role("link", name="See the audit").click()
    expect(page.locator(".answer-card")).to_contain_text("The goal is reached")
    widths = page.locator("#widths").text_content() or ""
    now, at_random = map(float, re.findall(r"[\d.]*\d", widths))
    assert now <= 28 < at_random
    for width, theme in ((1280, "light"), (360, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.wait_for_timeout(300)
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        wrong = Axe().run(page).response["violations"]
        assert [one["id"] for one in wrong] == []
    page.goto(f"{site.url}/audits/aud_1/report")
    expect(page.locator("h1")).to_contain_text("it is right")
    page.emulate_media(media="print")
    assert page.locator(".closing polygon").first.is_visible()
    assert watch.read() == []
