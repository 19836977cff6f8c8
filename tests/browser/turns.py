"""What the label page shows, and when it takes the next answer."""

from collections.abc import Callable
from urllib.parse import urljoin

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Watch

_IS_THERE = """() => [...document.querySelectorAll(".label-image img")].every(
  image => image.complete)"""
_LOAD_NEXT = """() => {
  const image = new Image();
  image.src = document.querySelector("[data-next-image]").dataset.nextImage;
  return image.decode();
}"""


def open_held(open_page: Callable[..., Watch], path: str) -> Watch:
    """Open a page of whose requests no route misses one.

    Where the first route is added to a page that is open, a busy browser may let the
    next request pass by it.
    """
    watch = open_page("/account")
    watch.page.route("**/nowhere", lambda route: route.continue_())
    watch.page.goto(urljoin(watch.page.url, path))
    return watch


class Held:
    """The requests of a page that match a pattern, until they are let go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self.page = page
        self.routes: list[Route] = []
        page.route(pattern, self._keep)

    def _keep(self, route: Route) -> None:
        self.routes.append(route)

    def let_go(self, number: int = 0) -> None:
        """Let one of them go, as soon as it has come."""
        while len(self.routes) <= number:
            self.page.wait_for_timeout(20)
        self.routes[number].continue_()

    def let_all_go(self) -> None:
        for route in self.routes:
            route.continue_()


def query_of(page: Page) -> str:
    return page.locator("input[name=query]").input_value()


def wait_for_other(page: Page, query: str) -> str:
    """Wait for a query that is not *query* and for its image; return its id."""
    expect(page.locator("input[name=query]")).not_to_have_value(query)
    page.wait_for_function(_IS_THERE)
    return query_of(page)


def wait_for_query(page: Page, query: str) -> None:
    """Wait for *query* and for its image."""
    expect(page.locator("input[name=query]")).to_have_value(query)
    page.wait_for_function(_IS_THERE)


def wait_for_next_image(page: Page) -> None:
    """Wait until the image after the one that is shown was loaded ahead."""
    page.evaluate(_LOAD_NEXT)
