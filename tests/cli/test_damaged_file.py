"""A damaged file of SQLite is said to be so, with what to do, wherever it is met."""

import json
from pathlib import Path

import pytest

from tests.cli.test_commands import Shell
from tests.conftest import by
from tests.web.conftest import Visitor
from tracker.app import create_app
from tracker.services.detectors import NewDetector, create_detector
from tracker.settings import Settings
from tracker.storage.database import open_database
from tracker.storage.operations import schema

_PAGE = 4_096


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A database whose pages behind its schema hold nothing that makes sense."""
    path = tmp_path / "tracker.db"
    database = open_database(f"sqlite:///{path}")
    schema.upgrade(database)
    visible = 400
    with database.write() as session:
        for number in range(visible):
            new = NewDetector(name=f"door {number}", question="?" * 900)
            create_detector(session, new, by())
    database.close()
    content = bytearray(path.read_bytes())
    for start in range(len(content) // 2, len(content) - _PAGE, _PAGE):
        content[start : start + _PAGE] = b"\xff" * _PAGE
    path.write_bytes(content)
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("words", [("doctor",), ("backup", "saved.zip")])
def test_a_command_says_what_to_do(
    damaged: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(damaged.parent)
    said = Shell(f"sqlite:///{damaged}", damaged.parent)(*words, status=1).stderr
    assert "the file of the database is damaged" in said
    assert "restore the newest backup" in said
    assert "Traceback" not in said
    assert not (damaged.parent / "saved.zip").exists()


@pytest.mark.thorough
def test_a_server_says_so_without_a_word_of_the_database(
    damaged: Path, settings: Settings
) -> None:
    database = open_database(f"sqlite:///{damaged}")
    visitor = Visitor(create_app(settings, database))
    page = visitor.get("/")
    assert page.status == 503
    assert "the database is damaged" in page.text
    assert "malformed" not in page.text
    ready = visitor.get("/readyz")
    assert ready.status == 503
    said = json.loads(ready.html)["checks"]["database"]
    assert said == "it is damaged: see the log, and restore a backup"
    database.close()
