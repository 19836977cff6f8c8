"""A damaged file of SQLite is said to be so, with what to do, wherever it is met."""

from pathlib import Path

import pytest

from tests.cli.test_commands import Shell
from tests.conftest import by
from tracker.app import create_app
from tracker.errors import DamagedError
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.people.keys import create_key
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
    with database.write() as session:
        for number in range(400):
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
def test_a_server_that_has_met_damage_is_not_ready(
    damaged: Path, settings: Settings
) -> None:
    database = open_database(f"sqlite:///{damaged}")
    client = create_app(settings, database).test_client()
    # A write reads what is damaged, and from then on this process knows.
    with pytest.raises(DamagedError), database.write() as session:
        create_key(session, "key", "admin", by())
    ready = client.get("/readyz")
    assert ready.status_code == 503
    said = ready.json["checks"]["database"]
    assert said == "it is damaged: see the log, and restore a backup"
    database.close()
