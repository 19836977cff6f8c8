"""Hostile files by every door: each is refused, and nothing else is touched."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from werkzeug.datastructures import FileStorage
from werkzeug.test import TestResponse

from tests import hostile
from tests.api.conftest import Api
from tests.conftest import pack_parts, signed_in
from tests.jobs.imports import importing
from tracker.cli import main

FILES = hostile.SMALL | hostile.DEADLY | hostile.LARGE
PATH = "/detectors/door/import"
# The status, 413 or 422, and what was said.
Said = tuple[int, str]


@pytest.fixture
def api(app, keys):
    return Api(app, keys)


def by_api(api, app, database, settings, path: Path) -> Said:
    file = FileStorage(io.BytesIO(path.read_bytes()), path.name)
    sent = api.send_parts(f"{PATH}?extra=metadata", {"file": file})
    assert sent.json["title"] in {"Invalid input", "Content too large"}
    return sent.status_code, sent.text


def by_page(api, app, database, settings, path: Path) -> Said:
    browser = signed_in(app, "erin", "editor")
    token = browser.get("/detectors/det_1/import").text
    token = token.split('name="csrf_token"')[1].split('value="')[1].split('"')[0]

    def send(address: str) -> TestResponse:
        file = (io.BytesIO(path.read_bytes()), path.name)
        parts = {"csrf_token": token, "file": file}
        return browser.post(address, **pack_parts(parts), buffered=True)

    assert send("/detectors/det_1/import/preview").status_code == 200
    sent = send("/detectors/det_1/import")
    if sent.status_code == 303:
        return run(api, database)
    return sent.status_code, sent.text


def by_command(api, app, database, settings, path: Path) -> Said:
    url = database.engine.url.render_as_string(hide_password=False)
    environ = {
        "TRACKER_DATABASE_URL": url,
        "TRACKER_DATA_DIR": str(settings.data_dir),
    }
    done = CliRunner().invoke(main, ["import", "door", str(path)], env=environ)
    assert done.exit_code == 1, done.output
    assert "Traceback" not in done.output
    return 422, done.output


def later(api, app, database, settings, path: Path) -> Said:
    file = FileStorage(io.BytesIO(path.read_bytes()), path.name)
    headers = {"Prefer": "respond-async"}
    target = f"{PATH}?extra=metadata"
    sent = api.send_parts(target, {"file": file}, headers=headers)
    if sent.status_code != 202:
        return sent.status_code, sent.text
    return run(api, database, sent.json["id"])


def run(api: Api, database: Any, number: str = "imp_1") -> Said:
    assert importing(database).run() == 1
    ended = api.get(f"/imports/{number}")
    assert ended.json["state"] == "rejected"
    return 422, ended.text


DOORS: list[Callable[..., Said]] = [by_api, by_page, by_command, later]


def assert_refused(
    door: Callable[..., Said],
    kind: str,
    api: Api,
    app,
    database,
    settings,
    folder: Path,
) -> None:
    file = FILES[kind]
    path = folder / file.name
    path.write_bytes(file.make())
    api.post("/detectors", {"name": "door", "question": "Is it closed?"})
    status, said = door(api, app, database, settings, path)
    assert file.said in said
    assert status == (413 if file.is_too_large and door is not by_command else 422)
    # The next file is as welcome as ever, in a process of its own too.
    assert api.get("/detectors/door/queries").json["items"] == []
    good = FileStorage(
        io.BytesIO(hostile.packed(iter([b"predicted\nYES\n"]))), "x.csv.gz"
    )
    assert api.send_parts(PATH, {"file": good}).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["far cell", "shared text", "one field"])
def test_a_hostile_file_takes_only_its_own_import_along(
    api, app, database, settings, tmp_path, kind: str, door: Callable[..., Said]
) -> None:
    assert_refused(door, kind, api, app, database, settings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", FILES)
def test_each_hostile_file_is_refused_by_every_door(
    api, app, database, settings, tmp_path, kind: str, door: Callable[..., Said]
) -> None:
    assert_refused(door, kind, api, app, database, settings, tmp_path)


NOISE = bytes(range(128, 256))
NINES = b"9" * 5_000


@pytest.mark.thorough
@pytest.mark.parametrize("door", DOORS)
def test_errors_give_no_advice_on_python_and_no_binary_back(
    api, app, database, settings, tmp_path, door: Callable[..., Said]
) -> None:
    api.post("/detectors", {"name": "door", "question": "Is it closed?"})
    files = {
        "digits.jsonl": b'{"predicted": "YES", "metadata": {"a": %s}}\n' % NINES,
        "digits.csv": b'predicted,metadata\nYES,"{""a"": %s}"\n' % NINES,
        "digits.json": b'{"items": [{"predicted": "YES", "confidence": %s}]}' % NINES,
        "noise.csv": b"predicted,confidence\nYES,%s\n" % NOISE,
        "noise.jsonl": NOISE + b"\n",
    }
    for name, content in files.items():
        path = tmp_path / name
        path.write_bytes(content)
        status, said = door(api, app, database, settings, path)
        assert status == 422
        assert "sys." not in said
        assert "5,000 digits" in said or name.startswith("noise"), said
        assert not {"\ufffd", "\u0192", "\x80"} & {*said}, said
