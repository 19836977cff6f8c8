"""Pages that are narrow, or enlarged until they are: nothing is lost or cut off."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Site, Watch

Open = Callable[..., Watch]
# 1280 pixels enlarged to 400 %, and telephones.
WIDTHS = (320, 360, 390, 412, 640)
PAGES = (
    "/",
    "/detectors/new",
    "/detectors/det_1",
    "/detectors/det_1/changes",
    "/detectors/det_1/methods",
    "/detectors/det_4/changes?old=v1&new=v2",
    "/detectors/det_1/label",
    "/detectors/det_1/label/grid",
    "/detectors/det_1/queries",
    "/detectors/det_1/import",
    "/detectors/det_1/studies",
    "/detectors/det_1/setup",
    "/keys",
    "/people",
    "/people/1",
    "/activity",
    "/account",
    "/api/v1/docs",
    "/queries/QUERY",
    "/nowhere",
)
_LABELS = """() => [...document.querySelectorAll(".stack-table tbody tr")].map((row) =>
  [...row.cells].map((cell) => getComputedStyle(cell, "::before").content))"""

PHONE = {"width": 390, "height": 844}
_LOW = """() => [...document.querySelectorAll("button, .btn, select, summary")].filter(
  (one) => one.checkVisibility() && one.getBoundingClientRect().height < 43.5
).map((one) => one.textContent.trim())"""
# How many pixels are left beside a text in the place of an element.
_LEFT = """(one, text) => {
    const style = getComputedStyle(one);
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.font = style.font;
    return one.clientWidth - parseFloat(style.paddingLeft)
      - parseFloat(style.paddingRight) - pen.measureText(text).width;
  }"""
# Selects with a text, of all or of those that are chosen, wider than its place.
_CUT = f"""([selects, texts]) => [...document.querySelectorAll(selects)].filter(
  // The width of an element is given in whole pixels.
  (one) => [...one[texts]].some(({{ text }}) => ({_LEFT})(one, text) < -0.5)
).map((one) => one.id)"""


def test_no_page_scrolls_sideways(chromium: Browser, site: Site) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(site.link("maximiliane-theresia", "admin"))
    page.get_by_role("button", name="Sign in as").click()
    query = next(iter(site.digits))
    found = []
    for path in PAGES:
        page.goto(site.url + path.replace("QUERY", query))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 640})
            wide = page.evaluate("document.scrollingElement.scrollWidth")
            if wide > width:
                found.append((path, width, wide))
    context.close()
    assert found == []


@pytest.mark.parametrize(
    ("path", "labels"),
    [
        ("/people", ["May", "Sees", "Labels this week", "Second step", "Last seen"]),
        ("/account", ["Browser", "Address", "Signed in", "Last seen", "State"]),
        ("/activity", ["When", "Who", "What", "About", "From"]),
        ("/detectors/det_1/studies", ["Kind", "Version", "Rounds", "Added"]),
    ],
)
def test_a_table_repeats_its_headings_where_it_is_narrow(
    open_page: Open, path: str, labels: list[str]
) -> None:
    page = open_page(path).page
    assert {label for row in page.evaluate(_LABELS) for label in row} == {"none"}
    page.set_viewport_size({"width": 390, "height": 844})
    for row in page.evaluate(_LABELS):
        assert [label.strip('"') for label in row if label != "none"] == labels


def test_the_verdict_and_its_bar_are_on_the_first_screen(open_page: Open) -> None:
    size = {"width": 390, "height": 844}
    card = open_page("/detectors/det_1", viewport=size).page.locator(".answer-card")
    for place in ("#answer-title", ".verdict", ".hero"):
        box = card.locator(place).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= size["height"], place


@pytest.mark.parametrize("width", [700, 1000, 1160, 1180, 1220, 1280])
def test_no_card_of_the_overview_cuts_what_it_holds(
    open_page: Open, width: int
) -> None:
    page = open_page("/detectors/det_1", viewport={"width": width, "height": 900}).page
    cards = page.locator(".card.flush")
    assert cards.count()
    for card in cards.all():
        assert card.evaluate("card => card.scrollWidth - card.clientWidth") <= 1


@pytest.mark.parametrize("width", [721, 1024, 1440])
def test_a_button_with_a_long_name_covers_no_sentence(
    open_page: Open, width: int
) -> None:
    page = open_page("/label", viewport={"width": width, "height": 900}).page
    long = "Label a name of twenty-four ch…, then the next"
    page.locator(".act > .btn").evaluate("(one, text) => one.textContent = text", long)
    ends = page.evaluate("""() => [".answer-card > div:first-child", ".act > .btn"].map(
      (one) => document.querySelector(one).getBoundingClientRect())
      .map(({ left, right, top, bottom }) => ({ left, right, top, bottom }))""")
    said, button = ends
    assert said["right"] < button["left"] or said["bottom"] <= button["top"]


def test_the_tab_that_is_shown_is_in_sight(open_page: Open) -> None:
    page = open_page("/detectors/det_1/setup", viewport=PHONE).page
    expect(page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize(
    "path", ["/detectors/det_1", "/detectors/det_1/label", "/keys", "/alerts"]
)
def test_a_finger_can_hit_what_opens_and_chooses(open_page: Open, path: str) -> None:
    page = open_page(path, viewport=PHONE).page
    assert page.evaluate(_LOW) == []
    # The form behind a button, too.
    for button in page.locator(".opener > summary").all():
        button.click()
    assert page.evaluate(_LOW) == []
    assert page.evaluate(_CUT, [".mb-4 > select", "options"]) == []


@pytest.mark.parametrize("width", [320, 390, 640, 1440])
def test_what_a_filter_of_queries_is_set_to_is_seen_in_full(
    open_page: Open, width: int
) -> None:
    path = "/detectors/det_1/queries?show=wrong&sort=-confidence&counted=yes"
    page = open_page(path, viewport={"width": width, "height": 900}).page
    assert (
        page.evaluate(_CUT, [".query-filter select, #shown-version", "selectedOptions"])
        == []
    )
    # A name that is wider than the page is cut rather than the page.
    page.evaluate(
        "() => { document.getElementById('shown-version').selectedOptions[0].text"
        " = 'v'.repeat(300); }"
    )
    assert page.evaluate("document.scrollingElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [320, 390, 640, 1440])
def test_a_date_is_seen_in_full_beside_its_calendar(
    open_page: Open, width: int
) -> None:
    size = {"width": width, "height": 900}
    page = open_page("/detectors/det_1/queries", viewport=size).page
    page.get_by_text("More filters").click()
    tops = []
    for name in ("first", "last"):
        date = page.locator(f"input[type=date][name={name}]")
        assert date.evaluate(f"(one) => ({_LEFT})(one, 'mm/dd/yyyy')") > 24
        tops.append(date.evaluate("(one) => one.getBoundingClientRect().top"))
    # From and to stand in one row, where both have room.
    assert (tops[0] == tops[1]) is (width > 380)


def test_the_answers_to_a_query_stand_in_columns(open_page: Open, site: Site) -> None:
    query = next(iter(site.digits))
    for size in (PHONE, {"width": 1440, "height": 900}):
        page = open_page(f"/queries/{query}", viewport=size).page
        boxes = [
            one.bounding_box() for one in page.locator(".query-answers .answer").all()
        ]
        assert len({round(box["width"]) for box in boxes}) == 1


def test_a_key_can_be_revoked_where_it_is_narrow(open_page: Open, site: Site) -> None:
    page = open_page("/keys", viewport={"width": 390, "height": 844}).page
    page.get_by_text("New key").click()
    page.get_by_label("Name").fill("press-in-hall-3-seen-from-above-left")
    page.get_by_role("button", name="Create key").click()
    row = page.get_by_role("region", name="List of keys")
    expect(row.get_by_text("Revoke …")).to_be_in_viewport()
    box = row.get_by_text("Revoke …").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 390


def test_a_text_runs_as_its_letters_do(open_page: Open, site: Site) -> None:
    page = open_page("/detectors/new").page
    page.get_by_label("Name").fill("דלת")
    page.get_by_label("Question").fill("האם הדלת סגורה?")
    page.get_by_role("button", name="Create detector").click()
    for place in ("h1", ".page-question"):
        found = page.locator(place)
        assert found.evaluate("e => getComputedStyle(e).direction") == "rtl"
        assert found.evaluate("e => getComputedStyle(e).textAlign") == "left"
    page.goto(f"{site.url}/")
    row = page.get_by_role("link", name="דלת", exact=True)
    assert row.evaluate("e => getComputedStyle(e).direction") == "rtl"
    page.goto(f"{site.url}/detectors/det_1")
    assert page.locator("h1").evaluate("e => getComputedStyle(e).direction") == "ltr"


def test_what_an_admin_sees_is_no_choice(open_page: Open) -> None:
    page = open_page("/people/1").page
    choice = page.locator("fieldset")
    expect(choice).to_be_hidden()
    page.get_by_label("Role").select_option("labeler")
    expect(choice).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_paper_is_light_and_has_nothing_to_click(open_page: Open, theme: str) -> None:
    page = open_page("/detectors/det_1", color_scheme=theme).page
    once = page.get_by_text("The interval above holds at every look")
    expect(once).to_be_hidden()
    page.emulate_media(media="print")
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, "
        "getComputedStyle(document.querySelector('h1')).color, "
        "getComputedStyle(document.querySelector('.hero .dot')).fill]"
    )
    page_and_words = ["rgb(255, 255, 255)", "rgb(28, 28, 26)"]
    assert colours == [*page_and_words, "rgb(31, 79, 180)"]
    for gone in (".rail", ".bottom", ".skip-link", ".tabs", ".crumb"):
        expect(page.locator(gone)).to_be_hidden()
    expect(once).to_be_visible()
    # Which version it is about stays, though it was a choice.
    expect(page.get_by_label("Version", exact=True)).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chart_that_a_script_drew_is_light_on_paper(
    open_page: Open, theme: str
) -> None:
    path = "/detectors/det_1/changes?by=labels"
    page = open_page(path, color_scheme=theme).page
    expect(page.locator(".tracker-chart")).to_be_visible()
    page.emulate_media(media="print")
    chart = page.locator(".tracker-chart").evaluate("e => getComputedStyle(e).filter")
    assert (chart == "none") == (theme == "light")


def test_paper_says_what_the_published_interval_means(open_page: Open) -> None:
    page = open_page("/detectors/det_1?method=exact").page
    exact = page.get_by_text("It holds for one look and for queries drawn at random")
    expect(exact).to_be_hidden()
    page.emulate_media(media="print")
    expect(exact).to_be_visible()
