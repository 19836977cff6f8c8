"""The inspect command, which needs no database."""

import re
import shlex
from pathlib import Path
from typing import Any

import click

from tracker.cli.imports import opened, reading_options
from tracker.services.imports.inspecting import Inspection, describe_file, inspect
from tracker.services.imports.reading.choices import METADATA, read_choices
from tracker.services.imports.reading.files import open_named

_NAME = re.compile(r"[^A-Za-z0-9_-]+")


@click.command(name="inspect")
@click.argument(
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@click.option(
    "--classes", "named", metavar="YES,NO", help="The classes, if they are not found."
)
@reading_options
def inspect_file(file: Path, *, named: str | None, **choices: Any) -> None:
    """Print the format of FILE and what an import would add.

    Shows the field of each column, the classes, how many rows have a truth, the rows
    that would be refused and why, the interval, and the commands that create a detector
    and import the file.  Nothing is written.
    """
    with opened(file) as stream:
        rows = open_named(stream, file.name)
        rows = rows.read_by(read_choices(**choices, usual_extra=METADATA))
        found = inspect(rows, named.split(",") if named else None)
    click.echo(f"{file.name}: {rows.format}, {found.report.rows:,} rows")
    for said in describe_file(rows, found).says:
        click.echo(said)
    for warning in found.report.warnings:
        click.secho(f"warning: {warning}", fg="yellow", bold=True)
    if len(found.classes) > 1:
        _print_commands(file, found, choices)
    else:
        click.echo(
            "No two classes were found: name the columns, as in --map label=COLUMN "
            "--map predicted=COLUMN, or the classes, as in --classes YES,NO."
        )


def _print_commands(file: Path, found: Inspection, choices: dict[str, Any]) -> None:
    name = _NAME.sub("-", file.stem).strip("-").lower() or "detector"
    classes = shlex.quote(",".join(found.classes))
    click.echo("To import it:")
    click.echo(
        f'  tracker detectors create {name} --question "What is it?" '
        f"--classes {classes}"
    )
    words = ["tracker", "import", name, str(file)]
    for option in click.get_current_context().command.params:
        given = choices.get(option.name or "") or ()
        if given is True:
            words.append(option.opts[0])
            continue
        for value in given if isinstance(given, tuple) else [given]:
            words += [option.opts[0], str(value)]
    for field, column in found.proposed.items():
        words += ["--map", f"{field}={column}"]
    if found.report.bad_rows:
        words.append("--skip-bad-rows")
    click.echo(f"  {shlex.join(words)}")
