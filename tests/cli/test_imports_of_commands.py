"""A command imports what it needs, and not what others do."""

import json
import subprocess
import sys
from itertools import chain

import click
import pytest

from tracker.cli import _COMMANDS, _DOES, main

_LOOK = """
import json, sys
from tracker.cli import main
try:
    main(sys.argv[1:], prog_name="tracker")
except SystemExit as end:
    assert not end.code, end.code
print(json.dumps(sorted(sys.modules)))
"""
_HEAVY = {"alembic", "flask", "granian", "scipy.stats", "sqlalchemy", "vl_convert"}


def modules_of(*words: str) -> set[str]:
    """What a process has imported that has run the command."""
    done = subprocess.run(
        [sys.executable, "-c", _LOOK, *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.slow
def test_help_imports_no_command_and_little_else() -> None:
    version, listed = modules_of("--version"), modules_of("--help")
    assert not listed & {*_HEAVY, "numpy", "pydantic"}
    assert not {name for name in listed if name.startswith("tracker.cli.")}
    assert len(listed - version) < 20


@pytest.mark.slow
@pytest.mark.parametrize("command", ["serve", "web"])
def test_those_who_only_supervise_take_neither_a_database_nor_pages(command) -> None:
    found = modules_of(command, "--help")
    assert not found & {*_HEAVY - {"granian"}, "numpy", "pydantic"}


@pytest.mark.slow
@pytest.mark.parametrize("command", ["import", "keys"])
def test_those_who_compute_nothing_take_no_arrays_and_no_pictures(command) -> None:
    found = modules_of(command, "--help")
    assert "sqlalchemy" in found
    assert not found & {*_HEAVY - {"alembic", "sqlalchemy"}, "PIL", "numpy", "scipy"}


def test_the_list_of_commands_says_what_each_says_itself() -> None:
    context = click.Context(main)
    assert {
        name: command.get_short_help_str(60)
        for name in chain.from_iterable(_COMMANDS.values())
        if (command := main.get_command(context, name)) is not None
        and not command.hidden
    } == _DOES
