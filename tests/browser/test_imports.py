"""A large file is sent from a page, which follows it to its end."""

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site, Watch
from tests.databases import held_statements
from tests.jobs.imports import importing
from tracker.web.imports import LARGE_BYTES

Open = Callable[..., Watch]
# Several pieces of them, of which that many are fetched before the import is held.
_ROWS = 10_000
_PIECES = 3
_MARK = "document.documentElement.dataset.mark = 'not reloaded'"
_MARKED = "document.documentElement.dataset.mark === 'not reloaded'"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of many rows, and a bad one in the middle."""
    note = "x" * (LARGE_BYTES // _ROWS)
    rows = [f"YES,NO,{note}{number}\n" for number in range(_ROWS)]
    rows[_ROWS // 2] = "PERHAPS,NO,\n"
    path = tmp_path / "rows.csv"
    path.write_text("predicted,label,note\n" + "".join(rows))
    return path


@pytest.fixture
def work(site: Site) -> Iterator[Callable[[], None]]:
    """Runs what a worker does with imports, until the test has ended."""
    importer = importing(site.database)
    thread = threading.Thread(target=importer.run)
    yield thread.start
    importer.stop.set()
    if thread.ident is not None:
        thread.join()


def reads_on() -> Callable[[str], bool]:
    """Return what tells a read in the middle of a file, which locks nobody out."""
    pieces = itertools.count()

    def is_later(statement: str) -> bool:
        is_piece = statement.startswith("SELECT import_pieces.content")
        return is_piece and next(pieces) >= _PIECES

    return is_later


@pytest.mark.parametrize("width", [1280, 390])
def test_a_large_file_is_followed_from_waiting_to_its_report(
    open_page: Open, site: Site, file: Path, work: Callable[[], None], width: int
) -> None:
    # What waits already would be taken up first, and held.
    importing(site.database).run()
    watch = open_page(
        "/detectors/det_3/import", viewport={"width": width, "height": 900}
    )
    page = watch.page
    page.locator("#file").set_input_files(file)
    page.get_by_label("skip it, import the others").check()
    page.get_by_role("button", name="Import").click()
    state, bar = page.locator("#import-state"), page.locator("progress")
    expect(state).to_contain_text("is waiting for its turn")
    expect(page).to_have_url(re.compile(r"/imports/imp_\d+$"))
    assert bar.get_attribute("value") is None
    page.evaluate(_MARK)

    with held_statements(site.database, reads_on()):
        work()
        expect(state).to_contain_text("is being imported")
        expect(page.locator("#import-rows")).to_have_text("0 %, 0 rows checked")
        expect(bar).to_have_attribute("max", "100")
        expect(bar).to_have_attribute("value", "0")
    expect(state).to_contain_text("was imported", timeout=120_000)
    expect(bar).to_have_count(0)
    expect(page.locator("main")).to_contain_text("10,000 rows read")
    expect(page.locator("main")).to_contain_text("1 bad row skipped")
    assert page.evaluate(_MARKED)
    assert watch.read() == []


def test_without_scripts_the_page_brings_itself_up_to_date(
    open_page: Open, file: Path
) -> None:
    page = open_page("/detectors/det_3/import", java_script_enabled=False).page
    page.locator("#file").set_input_files(file)
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#import-state")).to_contain_text("is waiting for its turn")
    refresh = page.locator("meta[http-equiv=refresh]")
    assert refresh.get_attribute("content") == "5"
    page.goto(page.url.partition("/imports/")[0] + "/detectors/det_3/import")
    page.get_by_role("link", name="imp_").first.click()
    expect(page.locator("#import-state")).to_contain_text("is waiting for its turn")
