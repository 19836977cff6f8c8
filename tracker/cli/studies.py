"""The studies commands."""

from pathlib import Path

import click
from rich.table import Table

from tracker.cli.exports import file_options, write_file
from tracker.cli.options import print_table
from tracker.cli.setup import by, connected, load_settings
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling import studies as services
from tracker.services.wording import dump_instant
from tracker.storage.base import dump_id
from tracker.storage.labelling.studies import list_studies


@click.group()
def studies() -> None:
    """Add, list, show and export resampling studies."""


@studies.command()
@click.argument("detector")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Unique within the detector.")
@click.option("--kind", type=click.Choice(list(services.KINDS)), required=True)
@click.option("--version", help="The studied version.")
@click.option("--note", help="A note on how the study was done.")
@click.option(
    "--added-by",
    default="command line",
    show_default=True,
    help="The author of the study.",
)
def add(  # noqa: PLR0913, PLR0917 - one argument for each option.
    detector: str,
    file: Path,
    name: str,
    kind: str,
    version: str | None,
    note: str | None,
    added_by: str,
) -> None:
    """Add the rounds in FILE to DETECTOR as a study, and print its id.

    FILE is CSV, JSON Lines, JSON or Parquet, by its suffix, with the columns
    validation, training and no_information, or accuracy.  Adding the same study again
    does nothing.
    """
    with file.open("rb") as stream:
        rounds = read_rounds(stream, file.suffix)
    said = {"name": name, "kind": kind, "version": version, "note": note}
    new = services.parse_study({**said, "rounds": rounds})
    with connected(load_settings()) as database, database.write() as session:
        found = get_open_detector(session, detector)
        study, _ = services.add_study(session, found, new, by().credit(added_by))
        click.echo(dump_id("stu", study.id))


@studies.command(name="list")
@click.argument("detector")
def list_them(detector: str) -> None:
    """List the studies of DETECTOR, newest first."""
    table = Table("id", "name", "kind", "version", "rounds", "added")
    with connected(load_settings()) as database, database.read() as session:
        for study in list_studies(session, get_detector(session, detector).id):
            table.add_row(
                dump_id("stu", study.id),
                study.name,
                study.kind,
                study.version or "",
                f"{study.rounds:,}",
                dump_instant(study.created_at),
            )
    print_table(table)


@studies.command()
@click.argument("study")
@click.option(
    "--confidence-level",
    type=float,
    help="The confidence level; by default the detector's.",
)
def show(study: str, confidence_level: float | None) -> None:
    """Show the intervals of STUDY, all of them approximate."""
    with connected(load_settings()) as database, database.read() as session:
        report = services.build_study_report(
            session,
            services.get_study(session, study),
            confidence_level=confidence_level,
        )
    table = Table("method", "mean accuracy", "interval", "rounds")
    for one in report.intervals:
        table.add_row(
            one.method,
            f"{one.accuracy:.4f}",
            f"{one.low:.4f} to {one.high:.4f} at {report.confidence_level:g}",
            f"{report.rounds:,}",
        )
    print_table(table)
    for one in report.intervals:
        click.echo(f"{one.method}: {one.meaning}")


@studies.command()
@click.argument("study")
@file_options
def export(study: str, format_name: str, output: Path | None) -> None:
    """Write the rounds of STUDY as they were added."""
    with connected(load_settings()) as database, database.read() as session:
        rows = services.list_study_rows(session, services.get_study(session, study))
    write_file(format_name, list(rows[0]), rows, output)
