"""The command gate."""

import sys
from pathlib import Path

import click

from tracker.cli.deciding import gate_reports
from tracker.cli.people.shares import Share
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.errors import TrackerError
from tracker.services.deciding.gates import ask_gate
from tracker.services.detectors import get_detector
from tracker.services.evidence.populations import POPULATIONS

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
def gate(  # noqa: PLR0913, PLR0917 - one argument for each option.
    detector: str,
    target: float | None,
    version: str | None,
    population: str | None,
    max_width: float | None,
    not_worse_than: str | None,
    format_name: str,
    summary: Path | None,
) -> None:
    """Stop a build whose DETECTOR is not good enough.

    It goes by the interval that may be looked at at any time.  Exit status: 0 met,
    1 missed, 3 undecided, 2 could not be measured.
    """
    try:
        with connected(load_settings()) as database, database.read() as session:
            found = ask_gate(
                session,
                get_detector(session, detector),
                computed_at=utc_now(),
                target=target,
                version=version,
                population=population,
                max_width=max_width,
                not_worse_than=not_worse_than,
            )
        if format_name == "github" and summary is not None:
            with summary.open("a", encoding="utf-8") as file:
                file.write(gate_reports.markdown(found))
    except (TrackerError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_FAILED)
    click.echo(gate_reports.FORMATS[format_name](found))
    sys.exit(_EXIT[found.verdict])
