"""Commands that find no database, or an empty one, and those that make it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_commands import Shell
from tests.conftest import DATABASES
from tests.databases import administer, renamed
from tracker.storage.database import open_database
from tracker.storage.operations import schema

# Each reads or changes what must be there already.
COMMANDS = (
    "estimate door",
    "slices door --by version",
    "weeks door",
    "plan door",
    "compare door",
    "export door",
    "gate door",
    "detectors list",
    "detectors mapping door",
    "detectors change door --guideline x",
    "import door -",
    "studies list door",
    "audits list door",
    "badges list door",
    "accounts list",
    "accounts disable dora",
    "keys list",
    "keys revoke camera --yes",
    "recompute",
    "backup all.zip",
    "doctor",
)
MAKERS = (
    "detectors create door --question Closed?",
    "accounts create dora --role admin",
    "keys create camera --role editor",
    "db upgrade",
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of its own, because a backup would be written to the present one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that was made, and in which there is no table."""
    if request.param == "sqlite":
        (tmp_path / "empty.db").touch()
        yield f"sqlite:///{tmp_path}/empty.db"
        return
    server, name = request.getfixturevalue("postgres_server_url"), uuid.uuid4().hex
    administer(server, f"CREATE DATABASE empty_{name} TEMPLATE template0")
    yield renamed(server, f"empty_{name}")
    administer(server, f"DROP DATABASE empty_{name} WITH (FORCE)")


def complaint(shell: Shell, words: str) -> str:
    """The one line that a command says before it stops."""
    result = shell(*words.split(), status=2 if words.startswith("gate") else 1)
    (line,) = result.stderr.splitlines()
    return line


def test_a_mistyped_file_is_named_and_not_made(tmp_path: Path) -> None:
    file = tmp_path / "mistyped" / "tracker.db"
    shell = Shell(f"sqlite:///{file}", tmp_path)
    for words in COMMANDS:
        said = f"Error: there is no database at {file}: correct TRACKER_DATABASE_URL"
        assert complaint(shell, words).startswith(said), words
    assert not list(tmp_path.iterdir())


def test_an_empty_database_is_said_to_be_empty_and_left_so(
    empty_url: str, tmp_path: Path
) -> None:
    shell = Shell(empty_url, tmp_path)
    for words in COMMANDS:
        said = "Error: the database is empty: run tracker db upgrade"
        assert complaint(shell, words) == said, words
    assert not (tmp_path / "all.zip").exists()
    database = open_database(empty_url)
    assert schema.current_revision(database) is None
    database.close()


@pytest.mark.parametrize("words", MAKERS)
def test_what_begins_on_a_new_machine_makes_the_database(
    empty_url: str, tmp_path: Path, words: str
) -> None:
    for url in (empty_url, f"sqlite:///{tmp_path}/new/tracker.db"):
        shell = Shell(url, tmp_path)
        shell(*words.split())
        shell("detectors", "list")
