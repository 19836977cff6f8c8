"""The command import."""

import hashlib
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tracker.cli.setup import audit_command, connected, load_settings, now
from tracker.services.detectors import get_open_detector
from tracker.services.import_formats import BY_SUFFIX, READERS
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.imports import import_rows
from tracker.services.rows import Row
from tracker.storage.database import Database

_MOST_SHOWN = 50


@click.command(name="import")
@click.argument("detector")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--skip-bad-rows", is_flag=True, help="Write the good rows even so.")
@click.option(
    "--labeler", default="import", show_default=True, help="Who gave the labels."
)
def import_file(
    detector: str, file: Path, *, skip_bad_rows: bool, labeler: str
) -> None:
    """Add the queries and labels in FILE to DETECTOR.

    FILE is CSV, JSON Lines, JSON or Parquet, as its name says.
    Either all rows are added or, if one of them is wrong, none; running it again
    adds nothing.
    """
    kind = BY_SUFFIX.get(file.suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"{file.name}: the name must end in one of {', '.join(BY_SUFFIX)}"
        )
    reader = READERS[kind]
    try:
        with connected(load_settings()) as database:
            report = _import(
                database, detector, file, reader, labeler, skip_bad_rows=skip_bad_rows
            )
    except RejectedImportError as error:
        _print_errors(error.report)
        raise click.ClickException(
            f"{error.report.bad_rows:,} of {error.report.rows:,} rows are wrong; "
            "nothing was written. --skip-bad-rows writes the others."
        ) from error
    _print_errors(report)
    click.echo(
        f"{report.queries_added:,} queries and {report.labels_added:,} labels added, "
        f"{report.unchanged:,} rows unchanged, {report.bad_rows:,} bad rows skipped."
    )


def _import(  # noqa: PLR0913 - all that one import needs.
    database: Database,
    detector: str,
    file: Path,
    reader: Callable[[BinaryIO], Iterable[Row]],
    labeler: str,
    *,
    skip_bad_rows: bool,
) -> ImportReport:
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        with progress, database.write() as session:
            task = progress.add_task(file.name, total=file.stat().st_size, rows=0)
            stream.seek(0)
            buffered = io.BufferedReader(stream.raw, 2**20)
            found = get_open_detector(session, detector)
            report = import_rows(
                session,
                found,
                reader(buffered),
                digest=digest,
                labeler=labeler,
                created_at=now(),
                skip_bad_rows=skip_bad_rows,
                on_progress=lambda rows: progress.update(
                    task, completed=stream.raw.tell(), rows=rows
                ),
            )
            buffered.detach()
            if report.has_changed:
                name, counts = found.name, report.counts
                audit_command(session, "imported", name, sha256=digest, **counts)
            return report


def _print_errors(report: ImportReport) -> None:
    for error in report.errors[:_MOST_SHOWN]:
        click.echo(f"row {error.row}, {error.field}: {error.message}", err=True)
    if report.bad_rows > _MOST_SHOWN:
        click.echo(f"… {report.bad_rows:,} bad rows in all", err=True)
