"""Options and printing that commands share."""

import json
import math
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.table import Table

from tracker.shapes import Shape

format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
)

version_option = click.option(
    "--version", help="The version; by default the one that pages show; * pools all."
)


def print_json(found: Shape) -> None:
    """Print the shape *found* as indented JSON."""
    click.echo(json.dumps(found.dump(), ensure_ascii=False, indent=1))


_Found = TypeVar("_Found", bound=Shape)


def print_as(
    format_name: str, found: _Found, print_text: Callable[[_Found], None]
) -> None:
    """Print *found* as JSON, or with *print_text*."""
    if format_name == "json":
        print_json(found)
    else:
        print_text(found)


# Wider than any table.
_WHOLE = 100_000


def print_table(table: Table) -> None:
    """Print *table*, in full width if stdout is no terminal.

    Square brackets in names are not markup.
    """
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WHOLE
    console.print(table)


def ask(question: str, *, yes: bool) -> None:
    """Ask before an action that cannot be undone, unless *yes*; abort on no.

    Without a terminal nobody is asked.
    """
    if not yes and sys.stdin.isatty():
        click.confirm(f"{question} Go on?", abort=True)


class Share(click.FloatRange):
    """A number between 0 and 1, exclusive unless *with_ends*."""

    name = "share"

    def __init__(self, *, with_ends: bool = False) -> None:
        super().__init__(0, 1, min_open=not with_ends, max_open=not with_ends)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Parse *value*; NaN is refused, because no bound refuses it."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number
