"""The commands that inspect a file, import it and undo an import."""

import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tracker.cli.options import repeated, together
from tracker.cli.setup import by, connected, load_settings
from tracker.services.detectors import change_version, get_open_detector
from tracker.services.imports import reports
from tracker.services.imports.reading.choices import EXTRAS, METADATA, read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.writing import Order, importing
from tracker.settings import Settings
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.images import open_image_store
from tracker.storage.queries.queries import list_written_versions
from tracker.words import REJECT, SKIP

if TYPE_CHECKING:
    from tracker.services.imports.inspecting import Inspection

_MOST_SHOWN = 50
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_PIPE = Path("-")
_BUFFER = 2**20


_file = click.argument(
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
reading_options = together(
    repeated("--map", "FIELD=COLUMN", "Which column holds a field", "columns"),
    repeated("--class", "VALUE=CLASS", "Which class a value stands for", "classes"),
    click.option(
        "--extra",
        type=click.Choice(EXTRAS),
        help="What to do with other columns; by default metadata, or as saved.",
    ),
    click.option(
        "--time-zone", help="The time zone of times without one, such as Europe/Berlin."
    ),
    click.option(
        "--time-format", help="The format of times, such as '%d.%m.%Y %H:%M'."
    ),
    click.option("--version", metavar="NAME", help="The version of every row."),
    repeated(
        "--set", "FIELD=VALUE", "A field that has the same value in every row", "given"
    ),
    repeated(
        "--no-answer", "VALUE", "A value that means no prediction, such as a refusal"
    ),
    click.option(
        "--percent", is_flag=True, help="Confidences are percentages without the sign."
    ),
    click.option("--sheet", metavar="NAME", help="The sheet of a workbook."),
    click.option(
        "--header-row",
        type=click.IntRange(1),
        metavar="NUMBER",
        help="The row that names the columns, if it is not found.",
    ),
)


@click.command(name="import")
@click.argument("detector")
@_file
@reading_options
@click.option("--skip-bad-rows", is_flag=True, help="Import the other rows anyway.")
@click.option("--labeler", default="import", help="Who gave the labels.")
@click.option(
    "--same-rows",
    is_flag=True,
    help="Rows without a key correct rows of an earlier file.",
)
@click.option(
    "--new-rows",
    is_flag=True,
    help="Rows without a key are new, even if an earlier file has the same.",
)
@click.option(
    "--images",
    type=click.Path(exists=True, path_type=Path),
    help="A folder or zip file of images, named by the column image.",
)
@click.option(
    "--unseen",
    is_flag=True,
    help="State that its versions were made without the existing labels.",
)
@click.option(
    "--save-mapping",
    is_flag=True,
    help="Save the mapping for the detector's future files.",
)
@click.option(
    "--saved-mapping/--no-saved-mapping",
    "uses_saved",
    default=True,
    help="Whether to use the mapping saved with the detector.",
)
def import_file(  # noqa: PLR0913 - one argument for each option.
    detector: str,
    file: Path,
    *,
    skip_bad_rows: bool,
    images: Path | None,
    save_mapping: bool,
    unseen: bool,
    **choices: Any,
) -> None:
    """Import the queries and labels in FILE into DETECTOR.

    FILE is CSV, Excel, JSON Lines, JSON, Parquet or Arrow, recognised by its content,
    or one of these with .gz; - is stdin.  Files of evaluation and labelling tools are
    read as they are, see docs/importing.md.

    All rows are checked first: if one is wrong, none is added.  Running it again adds
    what is missing, and nothing twice.
    """
    how = read_choices(**choices, usual_extra=METADATA)
    settings = load_settings()
    try:
        with connected(settings) as database, opened(file) as stream:
            rows = open_named(stream, file.name, most_unpacked=settings.max_body_bytes)
            on_error = SKIP if skip_bad_rows else REJECT
            order = Order(detector, rows.read_by(how), by(), on_error, save_mapping)
            if images is not None:
                order = _take_images(database, settings, order, images)
            report = _import(database, order, unseen=unseen)
    except reports.RejectedImportError as error:
        _print_rows(error.report)
        raise click.ClickException(
            f"{error.report.bad_rows:,} of {error.report.rows:,} rows are wrong; "
            "nothing was written. --skip-bad-rows writes the others."
        ) from error
    _print_rows(report)
    _print_counts(report)
    if report.import_id is not None:
        number = dump_id("imp", report.import_id)
        click.echo(f"To undo it: tracker undo {number}", err=True)
    if report.conflicts and not skip_bad_rows:
        raise click.ClickException(
            f"{report.conflicts:,} rows were not written: others wrote the same keys "
            "during the import. All other rows were written."
        )


def _print_counts(report: reports.Outcome) -> None:
    for warning in report.warnings:
        click.secho(f"warning: {warning}", err=True, fg="yellow", bold=True)
    seldom = {
        "references for predictions that come later": report.references_added,
        "verdicts of judges": report.verdicts_added,
    }
    more = "".join(f"{count:,} {name}, " for name, count in seldom.items() if count)
    click.echo(
        f"{report.queries_added:,} queries and {report.labels_added:,} labels added, "
        f"{more}{report.unchanged:,} rows unchanged, "
        f"{report.bad_rows:,} bad rows skipped."
    )


@contextmanager
def opened(file: Path) -> Iterator[io.BufferedReader]:
    """Open *file*; stdin is read to its end first."""
    if file != _PIPE:
        with file.open("rb", buffering=_BUFFER) as opened:
            yield cast("io.BufferedReader", opened)
        return
    with tempfile.TemporaryFile(buffering=_BUFFER) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
        yield cast("io.BufferedReader", spool)


def _take_images(
    database: Database, settings: Settings, order: Order, path: Path
) -> Order:
    from tracker.services.imports import images  # noqa: PLC0415 - loads Pillow.

    with images.open_images(path) as found, _progress("images") as progress:
        task = progress.add_task(path.name, total=None, done=0)
        return images.take_images(
            database,
            order,
            found,
            open_image_store(settings),
            on_progress=lambda done, total: progress.update(
                task, completed=done, total=total, done=done
            ),
        )


def _import(database: Database, order: Order, *, unseen: bool) -> reports.Outcome:
    with _progress("rows") as progress:
        check = progress.add_task("checked", total=order.file.size, done=0)
        write = progress.add_task("written", total=None, done=0, visible=False)
        prepared = importing(
            database,
            order,
            on_read=lambda rows: progress.update(
                check, completed=order.file.bytes_read, done=rows
            ),
            on_written=lambda done, rows: progress.update(
                write, completed=done, total=rows, done=done, visible=True
            ),
        )
        with prepared as carry_out, database.write() as session:
            report = carry_out(session)
            if unseen:
                found = get_open_detector(session, order.detector)
                for name in list_written_versions(session, found.id, order.by.at):
                    change_version(session, found, name, order.by, unseen=True)
        return report


def _progress(what: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.fields[done]:,}} {what}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _print_rows(report: reports.Outcome) -> None:
    readings = reports.say_readings(report)
    for reading in readings[:_MOST_SHOWN]:
        click.echo(f"read: {reading}", err=True)
    if len(readings) > _MOST_SHOWN:
        click.echo(f"… {len(readings):,} readings in all", err=True)
    for error in report.errors[:_MOST_SHOWN]:
        click.echo(reports.say_error(error), err=True)
    if len(report.errors) > _MOST_SHOWN:
        click.echo(f"… {report.bad_rows:,} bad rows in all", err=True)


@click.command(name="undo")
@click.argument("number", metavar="IMPORT")
def undo_file(number: str) -> None:
    """Undo IMPORT, such as imp_12: take back what it added.

    History stays.  A query that others labelled since, or that an audit needs, is kept
    and counted.
    """
    # They load Pillow, which importing does not.
    from tracker.services.imports import background, undoing  # noqa: PLC0415 - as said.

    with connected(load_settings()) as database, database.write() as session:
        found = background.get_import(session, number)
        undone = undoing.undo_import(session, found, by())
        report = background.unpack_report(undone) or reports.Outcome()
    taken = report.verdicts_taken_back
    verdicts = f"{taken:,} verdicts of judges, too; " if taken else ""
    click.echo(
        f"{report.queries_taken_back:,} queries, {report.labels_taken_back:,} labels "
        f"and {report.references_taken_back:,} references taken back; {verdicts}"
        f"{report.kept:,} queries stay, because labels or audits need them."
    )


@click.command(name="inspect")
@_file
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
    # They load NumPy, which importing does not.
    from tracker.services.imports.inspecting import (  # noqa: PLC0415 - as said.
        describe_file,
        inspect,
    )

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


def _print_commands(file: Path, found: "Inspection", choices: dict[str, Any]) -> None:
    name = _UNFIT.sub("-", file.stem).strip("-").lower() or "detector"
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
