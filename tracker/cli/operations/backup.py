"""The backup and restore commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from tracker.charts.words import plural
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.errors import InvalidInputError
from tracker.services.operations.backup import (
    Manifest,
    OnProgress,
    check_is_empty,
    create_backup,
    open_backup,
)
from tracker.storage.images import open_image_store

_MOST_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
def backup(file: Path, *, overwrite: bool) -> None:
    """Write everything to FILE while the service runs.

    FILE holds all images and every label that was acknowledged before the command
    began.  It can be restored into SQLite and into PostgreSQL.  The status is 1 if an
    image is missing or damaged; everything else is in FILE then.
    """
    if file.exists() and not overwrite:
        raise click.ClickException(
            f"{file} exists already; --overwrite replaces it, once the new one is whole"
        )
    if not file.parent.is_dir():
        raise click.ClickException(f"there is no folder {file.parent}; make it first")
    settings = load_settings()
    images = open_image_store(settings)
    begun = utc_now()
    with (
        _errors_named(file),
        connected(settings) as database,
        _shown() as on_progress,
        create_backup(file, on_progress, key=settings.backup_key) as writer,
    ):
        with database.read() as session:
            writer.add_tables(session)
        manifest = writer.finish(images, created_at=begun)
    missing = manifest.missing_images
    for name in missing[:_MOST_SHOWN]:
        click.echo(
            f"The image {name} is missing or damaged, so {file} does not have it.",
            err=True,
        )
    click.echo(
        f"{file} holds {_described(manifest)}, "
        f"{file.stat().st_size / 1e6:,.1f} MB in all."
    )
    if missing:
        raise click.ClickException(
            f"{plural(len(missing), 'image is', 'images are')} missing; everything "
            "else was saved"
        )


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def restore(file: Path) -> None:
    """Restore the backup FILE into an empty database.

    FILE is checked to its last byte first, and restored as a whole or not at all.  A
    database that is not empty is refused.
    """
    settings = load_settings()
    images = open_image_store(settings)
    with (
        _errors_named(file),
        _shown() as on_progress,
        open_backup(file, on_progress, key=settings.backup_key) as reader,
        connected(settings, fill=True) as database,
    ):
        with database.read() as session:
            check_is_empty(session)
        with database.write() as session:
            reader.write(session, images)
    click.echo(
        f"The database holds {_described(reader.manifest)}. "
        "tracker recompute --all checks them against a recount."
    )


def _described(manifest: Manifest) -> str:
    rows = {entry.name: entry.rows for entry in manifest.tables}
    return (
        f"{plural(rows['detectors'], 'detector')}, "
        f"{plural(rows['queries'], 'query', 'queries')}, "
        f"{plural(rows['labels'], 'label')}, "
        f"{plural(rows['snapshots'], 'snapshot')} and "
        f"{plural(manifest.images, 'image')}"
    )


@contextmanager
def _shown() -> Iterator[OnProgress]:
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}: {task.completed:,}"),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        task = progress.add_task("Beginning", total=None)
        done: dict[str, int] = {}

        def on_progress(doing: str, number: int) -> None:
            done[doing] = done.get(doing, 0) + number
            progress.update(task, completed=done[doing], description=doing)

        yield on_progress


@contextmanager
def _errors_named(file: Path) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        said = "; ".join(wrong.message for wrong in error.errors)
        raise click.ClickException(f"{file}: {said}") from error
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or file}: {error.strerror or error}"
        ) from error
