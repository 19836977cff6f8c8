"""Options and printing that commands share."""

import json
import math
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from tracker.shapes import Shape

_Command = Callable[..., Any]


def repeated(
    name: str, metavar: str | None, text: str, *names: str
) -> Callable[[_Command], _Command]:
    text = f"{text}; repeatable."
    return click.option(name, *names, multiple=True, metavar=metavar, help=text)


def together(
    *options: Callable[[_Command], _Command],
) -> Callable[[_Command], _Command]:
    """Return one decorator for several options, in their order."""
    return lambda command: reduce(lambda made, one: one(made), options[::-1], command)


def choose_format(*names: str) -> Callable[[_Command], _Command]:
    """Return the option --format of these formats, the first unless chosen."""
    kind = click.Choice(names)
    return click.option("--format", "format_name", type=kind, default=names[0])


def choose_level(kind: Any) -> Callable[[_Command], _Command]:
    text = "The confidence level; by default the detector's."
    return click.option("--confidence-level", type=kind, help=text)


def fields_as_options(
    model: type[BaseModel], *names: str, cleared: Collection[str] = ()
) -> Callable[[_Command], _Command]:
    """Return options for fields of *model*; an empty text clears those *cleared*."""

    def option(name: str) -> Callable[[_Command], _Command]:
        field = model.model_fields[name]
        kind, text = _plain(field.annotation), str(field.description).replace("`", "")
        # What a command cannot be told.
        text = re.sub(r"[;.]? ?null(?: for|:)[^.]*\.", ".", text)
        if get_origin(kind) is Literal:
            kind = click.Choice([*get_args(kind), *([""] if name in cleared else [])])
        if name in cleared:
            text += " '' for none."
            kind = str if kind is float else kind
        default = None if field.is_required() else field.default
        return click.option(
            f"--{name.replace('_', '-')}",
            type=kind,
            required=field.is_required(),
            default=default,
            show_default=bool(default),
            help=text,
        )

    return together(*map(option, names))


def _plain(kind: Any) -> Any:
    """Return a type without what else it may be or has to meet."""
    while get_args(kind) and get_origin(kind) is not Literal:
        kind = next(one for one in get_args(kind) if one is not NoneType)
    return kind


version_option = click.option(
    "--version", help="The version; by default the one that pages show; * pools all."
)


_Found = TypeVar("_Found", bound=Shape)


def print_as(
    format_name: str, found: _Found, print_text: Callable[[_Found], None]
) -> None:
    """Print *found* as indented JSON, or with *print_text*."""
    if format_name == "json":
        click.echo(json.dumps(found.dump(), ensure_ascii=False, indent=1))
    else:
        print_text(found)


# Wider than any table.
_WHOLE = 100_000


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of *rows*, in full width if stdout is no terminal.

    Square brackets in names are not markup.
    """
    table = Table(*columns)
    for row in rows:
        table.add_row(*row)
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
