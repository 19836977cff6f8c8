"""Answers on the label page, given and changed as a browser does."""

from tests.web.conftest import Visitor
from tests.web.reading import Page


def answer(visitor: Visitor, detector_id: str, page: Page, **fields: str) -> Page:
    path = f"/detectors/{detector_id}/label"
    form = page.form(path)
    kept = {name: form[name] for name in ("query", "again", "last") if name in form}
    sent = visitor.send(path, kept | fields)
    assert sent.status_code == 303, sent.text
    return visitor.get(sent.location)


def undo(visitor: Visitor, page: Page) -> Page:
    return visitor.get(page.by_id("undo").attributes["href"])


def shown(page: Page, detector_id: str) -> str:
    return page.form(f"/detectors/{detector_id}/label")["query"]
