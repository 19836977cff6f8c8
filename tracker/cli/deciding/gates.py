"""The command gate."""

import sys
from pathlib import Path
from typing import Any

import click

from tracker.cli.deciding import gate_reports
from tracker.cli.people.shares import Share
from tracker.cli.setup import by, connected, load_settings
from tracker.errors import TrackerError
from tracker.services.deciding.gates import GateChoice, ask_gate
from tracker.services.detectors import get_detector
from tracker.services.evidence.populations import POPULATIONS
from tracker.services.fields import parse_input

_EXIT = {"met": 0, "missed": 1, "undecided": 3}
_FAILED = 2


@click.command()
@click.argument("detector")
@click.option("--target", type=Share(), help="The target; by default the detector's.")
@click.option("--version", help="The version; by default the one that pages show.")
@click.option(
    "--population",
    type=click.Choice(POPULATIONS),
    help="Whose labels count; by default live, else replayed.",
)
@click.option("--max-width", type=Share(), help="Of the interval.")
@click.option(
    "--not-worse-than",
    metavar="VERSION",
    help="The version to compare with, on the same inputs.",
)
@click.option(
    "--unseen",
    is_flag=True,
    help="Say that it was made without the labels of the inputs it is put to.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(gate_reports.FORMATS)),
    default="text",
    show_default=True,
)
@click.option(
    "--summary",
    envvar="GITHUB_STEP_SUMMARY",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --format github: the file to add a summary to; $GITHUB_STEP_SUMMARY.",
)
def gate(
    detector: str, format_name: str, summary: Path | None, **conditions: Any
) -> None:
    """Stop a build whose DETECTOR is not good enough.

    It goes by the interval that may be looked at at any time.  Exit status: 0 met,
    1 missed, 3 undecided, 2 could not be measured.
    """
    try:
        choice = parse_input(GateChoice, conditions)
        with connected(load_settings()) as database:
            opened = database.write if choice.unseen else database.read
            with opened() as session:
                found = ask_gate(session, get_detector(session, detector), choice, by())
        if format_name == "github" and summary is not None:
            with summary.open("a", encoding="utf-8") as file:
                file.write(gate_reports.markdown(found))
    except (TrackerError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_FAILED)
    click.echo(gate_reports.FORMATS[format_name](found))
    sys.exit(_EXIT[found.verdict])
