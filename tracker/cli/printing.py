"""Tables and questions on a terminal."""

import sys

import click
from rich.console import Console
from rich.table import Table

# No table is as wide.
_WHOLE = 100_000


def print_table(table: Table) -> None:
    """Print *table*, whole where it goes to a file or another program.

    Square brackets in a name are not taken for colours.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WHOLE
    console.print(table)


def ask(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone, unless *yes*, and stop on a no.

    A script has nobody to ask, and means it.
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"{question} Go on?", abort=True)
