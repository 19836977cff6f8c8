"""Anything that a visitor types into an address or a form: no internal error."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from flask import Flask

from tests.conftest import DATABASES, IS_LONG
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import read
from tests.web.test_access import list_routes
from tracker import web
from tracker.files import shipped_folder
from tracker.http import PUBLIC
from tracker.storage.base import parse_whole
from tracker.storage.database import Database
from tracker.web.queries import filters

NUMBERS = ("9" * 25, "9" * 5_000, "-" + "9" * 25, str(2**63))
VALUES = (
    *NUMBERS,
    *(str(2**63 - 1), str(-(2**63)), "-1", "0", "1.5", "1e999", "nan", "inf", "-inf"),
    *("\u0663", "\u00b2", "\0", "\ud800", "\u202e", "é" * 3_000, "", " ", "*"),
    *("det_" + "9" * 19, "iq_9223372036854775807", "../../etc/passwd", "<b>", "'\""),
    *("2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "metadata.a:1..", "[{", "a:b:c"),
)
# Of each route; `make short-chaos` tries these on both databases, `make chaos` all.
FEW = VALUES if IS_LONG else (*NUMBERS, "nan", "1e999", "\0", "\ud800", "\u00b2")
# What each change is tried with.
OFTEN = {"sqlite": ("9" * 25, "nan", "\ud800"), "postgresql": (str(2**63), "\0")}
CASES = [
    pytest.param(
        kind,
        value,
        marks=[] if value in OFTEN[kind] else pytest.mark.chaos,
        id=f"{kind}-{ascii(value)[:20]}",
    )
    for kind in DATABASES
    for value in FEW
]
each_case = pytest.mark.parametrize(("database", "value"), CASES, indirect=["database"])
pytestmark = pytest.mark.longer
# What would end the visit.
LAST = {"/sign-out", "/account/sign-out-everywhere", "/account/password"}


NAME = re.compile(
    r"""(?:get|getlist|value)\("(\w+)"|name="(\w+)"|field\(form, "(\w+)\""""
)


def names_in(*texts: str) -> list[str]:
    """Return every name that these files read or send."""
    found = (match for text in texts for match in NAME.findall(text))
    names = {name for match in found for name in match if name}
    # Every form needs its token, and it is no input.
    return sorted(names - {"csrf_token"})


@cache
def list_names() -> list[str]:
    """Return every name that a page reads or a form sends."""
    folders = (Path(web.__file__).parent, shipped_folder("templates"))
    files = (
        path
        for folder in folders
        for kind in ("*.py", "*.html")
        for path in folder.rglob(kind)
    )
    return names_in(*(path.read_text() for path in files))


def names_of(app: Flask, path: str) -> list[str]:
    """Return what the view of *path* and its neighbours in the same file read."""
    endpoint, _ = app.url_map.bind("localhost").match(path)
    files = [inspect.getfile(app.view_functions[endpoint]), filters.__file__]
    found = names_in(*(Path(file).read_text() for file in files))
    # A filter reads what its fields are named.
    return sorted({*found, *(field.name for field in fields(filters.Filter))})


def spell(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def targets(app: Flask, shelf: Shelf) -> Iterator[tuple[str, str]]:
    detector_id = shelf.add_detector()
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "NO"}] * 3)
    known = {"detector_id": detector_id, "query_id": "iq_1", "account_id": 1}
    for method, rule, path, role in list_routes(app, **known):
        if role != PUBLIC and rule not in LAST and "provider" not in rule:
            yield method, path


def test_a_number_that_no_database_keeps_is_none() -> None:
    assert [parse_whole(text) for text in NUMBERS] == [None] * len(NUMBERS)
    assert parse_whole("\u0663") is None
    assert parse_whole(str(2**63 - 1)) == 2**63 - 1
    assert parse_whole("-7") == -7


def test_the_names_of_the_pages_are_found() -> None:
    names = list_names()
    assert {"beyond", "before", "labels_wanted", "stalled_after_hours"} <= {*names}
    assert len(names) > 50


@pytest.mark.slow
@each_case
def test_no_input_of_a_page_is_a_mistake_of_ours(
    app: Flask, database: Database, visitor: Visitor, shelf: Shelf, value: str
) -> None:
    typed = spell(value)
    # Each name alone is tried on one of the databases, in the long profile on both.
    some = slice(None) if IS_LONG else slice(int(database.is_sqlite), None, 2)
    seen = 0
    for method, path in list(targets(app, shelf)):
        sent = dict.fromkeys(list_names(), typed)
        if method == "POST":
            answer = visitor.send(path, sent)
            assert answer.status_code < 500, path
            continue
        # All at once, and each alone: the first that is refused hides the others.
        for given in (sent, *({name: typed} for name in names_of(app, path)[some])):
            with visitor.client.get(path, query_string=given) as answer:
                assert answer.status_code < 500, (path, [*given])
            seen += 1
    assert seen > 100


@pytest.mark.thorough
@each_case
def test_no_field_of_a_form_is_a_mistake_of_ours(
    app: Flask, visitor: Visitor, shelf: Shelf, value: str
) -> None:
    typed = spell(value)
    addresses = [path for method, path in targets(app, shelf) if method == "GET"]
    tried = set()
    for address in addresses:
        with visitor.client.get(address) as answer:
            if answer.mimetype != "text/html" or answer.status_code != 200:
                continue
            page = read(answer)
        for form in page.find("form", method="post"):
            action = form.attributes["action"]
            if urlsplit(action).path in LAST:
                continue
            fields = page.form(action)
            for name in fields.keys() - {"csrf_token"}:
                if (action, name) in tried:
                    continue
                tried.add((action, name))
                sent = visitor.send(action, {**fields, name: typed})
                assert sent.status_code < 500, (action, name)
    assert len(tried) > 30


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number", ["9" * 25, "9" * 5_000], ids=["25 digits", "5000 digits"]
)
def test_a_number_too_large_is_no_mistake_of_ours(
    visitor: Visitor, door: str, number: str
) -> None:
    for path in (
        f"/detectors/{door}/changes?beyond={number}",
        f"/detectors/{door}/changes?order=oldest&beyond={number}",
        f"/activity?before={number}",
    ):
        assert visitor.get(path).status == 200
    assert visitor.get(f"/people/{number}").status == 404
    page = f"/detectors/{door}/setup"
    form = visitor.get(page).form(page)
    for name in ("labels_wanted", "stalled_after_hours", "target"):
        answer = visitor.post(page, form | {name: number})
        assert answer.status == 422
        assert "is not" in answer.text
