"""What the tests of commands share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.filled import NewShell
from tests.cli.test_commands import Shell


@pytest.fixture
def new_shell(new_database_url: Callable[[str], str], tmp_path: Path) -> NewShell:
    """Makes a shell over an empty database of a kind, with a data folder of its own."""
    made: list[Shell] = []

    def make(kind: str) -> Shell:
        folder = tmp_path / f"shell{len(made)}"
        folder.mkdir()
        made.append(Shell(new_database_url(kind), folder))
        return made[-1]

    return make
