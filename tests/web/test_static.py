"""Files that are the same for everybody: compressed, and kept by browsers."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from tests.conftest import SECRET_KEY
from tests.web.conftest import Visitor
from tracker.app import create_app
from tracker.files import shipped_folder, zipped
from tracker.settings import Settings
from tracker.storage.database import Database

FILES = ("tracker.css", "vendor/vega.min.js", "label.js")
GZIP = {"Accept-Encoding": "br;q=0.5, gzip"}


def fetch(visitor: Visitor, path: str, **options: Any) -> TestResponse:
    # To the end, and closed, as a server does.
    return visitor.client.open(path, buffered=True, **options)


@pytest.mark.parametrize("file", FILES)
def test_a_static_file_is_sent_as_gzip_to_whoever_takes_it(
    visitor: Visitor, file: str
) -> None:
    content = (shipped_folder("static") / file).read_bytes()
    plain = fetch(visitor, f"/static/{file}")
    assert plain.data == content
    assert "Content-Encoding" not in plain.headers
    small = fetch(visitor, f"/static/{file}", headers=GZIP)
    assert small.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(small.data) == content
    assert small.content_length == len(small.data) < len(content) / 2
    for answer in (plain, small):
        assert "Accept-Encoding" in answer.vary
        assert answer.cache_control.max_age == 365 * 24 * 3600
    head = fetch(visitor, f"/static/{file}", headers=GZIP, method="HEAD")
    assert head.content_length == small.content_length


def test_a_file_is_compressed_once(visitor: Visitor) -> None:
    fetch(visitor, "/static/label.js", headers=GZIP)
    before = zipped.cache_info()
    fetch(visitor, "/static/label.js", headers=GZIP)
    after = zipped.cache_info()
    assert (after.hits, after.misses) == (before.hits + 1, before.misses)


@pytest.mark.parametrize("headers", [{}, GZIP])
def test_a_file_that_a_browser_has_is_not_sent_again(
    visitor: Visitor, headers: dict[str, str]
) -> None:
    etag = fetch(visitor, "/static/label.js", headers=headers).headers["ETag"]
    again = fetch(
        visitor, "/static/label.js", headers=headers | {"If-None-Match": etag}
    )
    assert again.status_code == 304
    assert again.data == b""


@pytest.mark.parametrize(
    "headers",
    [{"Accept-Encoding": "gzip;q=0, identity"}, GZIP | {"Range": "bytes=5-9"}],
)
def test_who_refuses_gzip_or_asks_for_a_part_gets_the_bytes_of_the_file(
    visitor: Visitor, headers: dict[str, str]
) -> None:
    content = (shipped_folder("static") / "label.js").read_bytes()
    answer = fetch(visitor, "/static/label.js", headers=headers)
    assert "Content-Encoding" not in answer.headers
    assert answer.data == (content[5:10] if "Range" in headers else content)


def test_nothing_that_differs_from_person_to_person_is_compressed(
    visitor: Visitor, published: str
) -> None:
    for path in ("/", f"/detectors/{published}", "/account", "/metrics"):
        answer = fetch(visitor, path, headers=GZIP)
        assert answer.status_code == 200
        assert "Content-Encoding" not in answer.headers


def test_the_page_of_the_api_is_sent_as_gzip(visitor: Visitor) -> None:
    page = fetch(visitor, "/api/v1/docs").text
    scripts = re.findall(r'src="(docs/[^"]+)"', page)
    assert scripts
    for script in scripts:
        answer = fetch(visitor, f"/api/v1/{script}", headers=GZIP)
        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.data)


def test_a_page_weighs_at_most_250_kilobytes_without_the_charts(
    visitor: Visitor,
) -> None:
    page = fetch(visitor, "/").text
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page)
    assert any("tracker.css" in file for file in files)
    weight = len(page) + sum(len(fetch(visitor, file).data) for file in files)
    assert weight < 250_000


@pytest.mark.parametrize("is_blocked", [False, True])
def test_a_compiled_template_is_kept_where_it_can_be(
    database: Database, tmp_path: Path, *, is_blocked: bool
) -> None:
    kept = tmp_path / "templates"
    if is_blocked:
        kept.symlink_to(tmp_path / "nowhere" / "else")
    settings = Settings(data_dir=tmp_path, secret_key=SECRET_KEY)
    client = create_app(settings, database).test_client()
    assert client.get("/sign-in").status_code == 200
    assert is_blocked or len(list(kept.iterdir())) > 1
