"""The export command."""

import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, get_args

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from tracker.cli.options import choose_format, together
from tracker.cli.setup import connected, load_settings
from tracker.services.detectors import get_detector
from tracker.services.estimates import history
from tracker.services.exports import MEDIA_TYPES, write_rows
from tracker.stats import METHODS
from tracker.words import MEASURES, RECALL

file_options = together(
    choose_format(*MEDIA_TYPES),
    click.option(
        "--output",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The file; by default stdout.",
    ),
)


def write_file(
    format_name: str,
    columns: Sequence[str],
    rows: Iterable[dict[str, Any]],
    output: Path | None,
) -> None:
    """Write *rows* to the file *output*, or to stdout."""
    write_pieces(write_rows(format_name, columns, rows), output)


def write_pieces(pieces: Iterable[bytes], output: Path | None) -> None:
    """Write *pieces* to the file *output*, or to stdout."""
    try:
        target = nullcontext(sys.stdout.buffer) if output is None else output.open("wb")
        with target as stream:
            for piece in pieces:
                stream.write(piece)
            stream.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; click ends quietly.
        raise
    except OSError as error:
        raise click.ClickException(f"{output or 'stdout'}: {error.strerror}") from error


@click.command()
@click.argument("detector")
@file_options
@click.option("--what", type=click.Choice(["history", "labels"]), default="history")
@click.option(
    "--version",
    help="For the history: the version; by default the one that pages show; * for all.",
)
@click.option(
    "--measure",
    type=click.Choice(MEASURES),
    default=RECALL,
    help="For the history: recall is the accuracy of each class.",
)
@click.option(
    "--method",
    type=click.Choice([*METHODS, "*"]),
    default="exact",
    help="For the history: the method; * for every stored one.",
)
@click.option(
    "--by",
    type=click.Choice(get_args(history.HistoryOrder)),
    default="arrival",
    help="For the history: in order of the labels, or of the days of the queries.",
)
def export(
    detector: str, format_name: str, output: Path | None, what: str, **choices: Any
) -> None:
    """Write the interval history, or the labels, of DETECTOR."""
    with connected(load_settings()) as database, database.read() as session:
        owner = get_detector(session, detector)
        if what == "labels":
            columns: Sequence[str] = history.LABEL_COLUMNS
            rows = history.iter_labels(session, owner)
        else:
            columns = history.history_columns(choices["measure"], choices["by"])
            rows = history.dump_rows(history.iter_history(session, owner, **choices))
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.completed:,} rows"),
            console=Console(stderr=True),
            transient=True,
        )
        with progress:
            write_file(format_name, columns, progress.track(rows), output)
