"""The chart in a page with the strict policy, in a real browser."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import vl_convert
from playwright.sync_api import Browser, Page, expect

from tracker.charts.axes import Axis
from tracker.charts.tightening import Series, tightening_chart

STATIC = Path(__file__).parents[2] / "static"
SCRIPTS = ("vendor/vega", "vendor/vega-lite", "vendor/vega-embed")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; font-src 'self'"
)
PAGE = f"""<!doctype html>
<html lang="en" data-theme="light">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A chart</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/tracker.css">
{"".join(f'<script defer src="/{name}.min.js"></script>' for name in SCRIPTS)}
<script defer src="/chart.js"></script>
<script defer src="/spy.js"></script>
<div data-chart-url="/chart.json?version=v3"></div>
"""
# Of each panel, how much of the width of its grid its band takes.
_SHARES = """[...document.querySelectorAll(".mark-area path")].map((band) => {
  const panel = band.closest(".mark-group.role-scope") ?? document;
  const lines = [...panel.querySelectorAll(".role-axis-grid line")];
  return band.getBBox().width / Math.max(...lines.map(line => line.getBBox().width));
})"""
SPY = """window.broken = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.broken.push(`${event.violatedDirective} ${event.sourceFile}`));
"""


@dataclass
class Site:
    """A little server, what it shows and what it was asked for."""

    series: list[Series]
    title: str = "Is the door closed? · v3"
    x: Axis = "labels"
    status: int = HTTPStatus.OK
    asked: list[dict[str, list[str]]] = field(default_factory=list)
    address: str = ""

    def answer(self, path: str, query: str) -> tuple[int, str, bytes]:
        if path == "/chart.json":
            self.asked.append(parse_qs(query))
            return self.status, "application/json", json.dumps(self.spec()).encode()
        if path == "/":
            return HTTPStatus.OK, "text/html", PAGE.encode()
        if path == "/spy.js":
            return HTTPStatus.OK, "text/javascript", SPY.encode()
        kind = "text/css" if path.endswith(".css") else "text/javascript"
        return HTTPStatus.OK, kind, (STATIC / path[1:]).read_bytes()

    def spec(self) -> dict[str, Any]:
        wanted = self.asked[-1] if self.asked else {}
        return tightening_chart(
            self.series,
            title=self.title,
            confidence_level=0.95,
            method="exact",
            target=0.9,
            x=self.x,
            layout="narrow" if wanted.get("layout") == ["narrow"] else "wide",
            theme="dark" if wanted.get("theme") == ["dark"] else "light",
        )


@pytest.fixture
def site(two_classes: list[Series]) -> Iterator[Site]:
    site = Site(two_classes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            status, kind, body = site.answer(url.path, url.query)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        site.address = f"http://127.0.0.1:{server.server_port}/"
        yield site
        server.shutdown()


@pytest.fixture
def window(chromium: Browser, site: Site) -> Iterator[Page]:
    """A page that breaks no rule, complains of nothing and asks nobody else."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(site.address)
    yield page
    broken = page.evaluate("window.broken")
    page.close()
    refused = f"{HTTPStatus.SERVICE_UNAVAILABLE.value}"
    assert broken == []
    assert [said for said in complaints if refused not in said] == []
    assert [url for url in asked if not url.startswith((site.address, "data:"))] == []


def test_the_chart_is_drawn_and_says_what_it_shows(window: Page, site: Site) -> None:
    chart = window.get_by_role("img")
    expect(chart).to_have_attribute("aria-label", site.spec()["description"])
    expect(chart.locator("svg")).to_contain_text("after 2,000 labels")
    assert site.asked == [{"version": ["v3"], "layout": ["wide"], "theme": ["light"]}]


def test_the_chart_is_fetched_once_though_the_theme_is_set_again(
    window: Page, site: Site
) -> None:
    expect(window.locator("svg")).to_be_visible()
    window.evaluate("document.documentElement.dataset.theme = 'light'")
    window.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(window.locator("svg text[fill='#ededed']").first).to_be_visible()
    assert [asked["theme"] for asked in site.asked] == [["light"], ["dark"]]


def test_the_page_and_the_server_compile_to_the_same_drawing(
    window: Page, site: Site
) -> None:
    expect(window.locator("svg")).to_be_visible()
    spec = site.spec()
    compile_it = "(spec) => JSON.stringify(vegaLite.compile(spec).spec)"
    compiled = json.loads(window.evaluate(compile_it, spec))
    assert compiled == vl_convert.vegalite_to_vega(spec, vl_version="6.4")
    assert window.evaluate("vegaLite.version").startswith("6.4.")


@pytest.mark.parametrize("x", ["labels", "time"])
def test_the_history_fills_the_width_of_every_panel(
    chromium: Browser, site: Site, x: Axis
) -> None:
    site.x = x
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto(site.address)
    expect(page.locator("svg")).to_be_visible()
    shares = page.evaluate(_SHARES)
    page.close()
    assert len(shares) == 3
    assert all(share > 0.9 for share in shares), shares


def test_the_pointer_finds_the_reading_in_force(window: Page) -> None:
    box = window.locator("svg").bounding_box()
    assert box is not None
    for step in (0, 3):
        window.mouse.move(box["x"] + box["width"] * 0.6 + step, box["y"] + 200)
    tooltip = window.locator("#vg-tooltip-element")
    expect(tooltip).to_be_visible()
    expect(tooltip).to_contain_text("UTC")
    window.mouse.move(1, 1)
    expect(tooltip).to_be_hidden()


def test_new_labels_are_drawn_without_an_empty_moment(window: Page, site: Site) -> None:
    chart = window.locator("[data-chart-url]")
    expect(chart).to_contain_text("after 2,000 labels")
    window.evaluate(
        """() => {
            window.fewest = Infinity;
            const host = document.querySelector("[data-chart-url]");
            new MutationObserver(() => {
                const count = host.querySelectorAll("svg").length;
                window.fewest = Math.min(window.fewest, count);
            }).observe(host, { childList: true });
        }"""
    )
    site.series = [Series(one.scope, one.points[:72]) for one in site.series]
    window.evaluate("document.dispatchEvent(new Event('tracker:refresh'))")
    expect(chart).to_contain_text("after 72 labels")
    assert window.evaluate("window.fewest") == 1


def test_a_narrow_window_and_a_dark_theme_are_followed(
    window: Page, site: Site
) -> None:
    stage = window.locator("[data-chart-url] > div")
    expect(stage).to_have_attribute("data-layout", "wide")
    window.set_viewport_size({"width": 360, "height": 800})
    expect(stage).to_have_attribute("data-layout", "narrow")
    assert window.evaluate("document.documentElement.scrollWidth") <= 360
    window.evaluate("document.documentElement.dataset.theme = 'dark'")
    expect(window.locator("svg text[fill='#ededed']").first).to_be_visible()
    assert [asked["theme"] for asked in site.asked] == [["light"], ["light"], ["dark"]]


def test_a_failure_is_told_and_the_next_success_takes_it_back(
    window: Page, site: Site
) -> None:
    expect(window.locator("svg")).to_be_visible()
    site.status = HTTPStatus.SERVICE_UNAVAILABLE
    window.evaluate("document.dispatchEvent(new Event('tracker:refresh'))")
    note = window.get_by_role("status")
    expect(note).to_contain_text("out of date: the server answered 503")
    expect(window.locator("svg")).to_be_visible()
    site.status = HTTPStatus.OK
    window.evaluate("document.dispatchEvent(new Event('tracker:refresh'))")
    expect(note).to_have_count(0)


def test_a_hostile_name_is_only_text_in_the_page(window: Page, site: Site) -> None:
    expect(window.locator("svg")).to_be_visible()
    name = "<img src=x onerror='document.title=1'>"
    balanced, yes, no = site.series
    site.series = [balanced, Series(name, yes.points), no]
    site.title = "constructor"
    window.evaluate("document.dispatchEvent(new Event('tracker:refresh'))")
    expect(window.locator("[data-chart-url]")).to_contain_text(name)
    expect(window.locator("svg text", has_text="constructor")).to_have_count(1)
    assert window.title() == "A chart"
    assert window.locator("[data-chart-url] img, svg image").count() == 0
