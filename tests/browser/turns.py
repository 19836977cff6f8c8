"""What the label page shows, and when it takes the next answer."""

from playwright.sync_api import Page, expect

_IS_THERE = """() => [...document.querySelectorAll(".label-image img")].every(
  image => image.complete)"""
# The same key again before that is taken for the bounce of a worn one.
_IS_QUIET = "new Promise(done => setTimeout(done, 80))"
_LOAD_NEXT = """() => {
  const image = new Image();
  image.src = document.querySelector("[data-next-image]").dataset.nextImage;
  return image.decode();
}"""


def query_of(page: Page) -> str:
    return page.locator("input[name=query]").input_value()


def wait_for_other(page: Page, query: str) -> str:
    """Wait for a query that is not *query* and for its image; return its id."""
    expect(page.locator("input[name=query]")).not_to_have_value(query)
    page.wait_for_function(_IS_THERE)
    page.evaluate(_IS_QUIET)
    return query_of(page)


def wait_for_query(page: Page, query: str) -> None:
    """Wait for *query* and for its image."""
    expect(page.locator("input[name=query]")).to_have_value(query)
    page.wait_for_function(_IS_THERE)


def wait_for_next_image(page: Page) -> None:
    """Wait until the image after the one that is shown was loaded ahead."""
    page.evaluate(_LOAD_NEXT)
