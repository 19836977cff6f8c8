"""The db, doctor and recompute commands."""

import sys

import click

from tracker.cli.logs import configure_logging
from tracker.cli.setup import connected, load_settings, process_name, reach
from tracker.clock import utc_now
from tracker.errors import DamagedError
from tracker.jobs.recompute import recompute_all
from tracker.services.estimates.recount import recount as recount_labels
from tracker.services.operations.doctor import (
    Problem,
    check_detector,
    check_image,
    check_imports,
)
from tracker.storage.database import Database, describe_damage
from tracker.storage.detectors import list_detectors
from tracker.storage.dialect import find_damage
from tracker.storage.images import open_image_store
from tracker.storage.operations import schema
from tracker.storage.operations.backup import iter_image_names
from tracker.storage.tasks import RECOMPUTE, count_failing

_MOST_SHOWN = 50


@click.command()
def doctor() -> None:
    """Report problems of the stored data and how to fix them; change nothing.

    Checks the file of SQLite, the schema, the running counts, the newest snapshots, the
    last runs, the background imports and the images, while the service runs.  The
    status is 1 if there is a problem.
    """
    settings = load_settings()
    images = open_image_store(settings)
    with connected(settings) as database, database.read() as session:
        if damage := find_damage(session):
            raise DamagedError(describe_damage(damage))
        problems: list[Problem] = []
        detectors = list_detectors(session, has_archived=True)
        with click.progressbar(detectors, label="Checking", file=sys.stderr) as bar:
            for detector in bar:
                problems += check_detector(session, detector)
        problems += check_imports(session, at=utc_now())
        # Listed after the session has its snapshot: an image is stored before the
        # query that names it, and only erasing deletes it.
        named = set(iter_image_names(session))
        unnamed = sum(name not in named for name in images.iter_names())
        with click.progressbar(sorted(named), label="Images", file=sys.stderr) as names:
            found = [check_image(name, images) for name in names]
        problems += [wrong for wrong in found if wrong]
    if unnamed:
        click.echo(f"Images without a query, which is harmless: {unnamed:,}.")
    for what, remedy in problems[:_MOST_SHOWN]:
        click.echo(f"Problem: {what}.\n  To fix it: {remedy}.")
    if problems:
        raise click.ClickException(f"problems found: {len(problems):,}")
    click.echo(
        f"No problems: schema {schema.head_revision()}, counts, newest snapshots "
        "and images agree."
    )


@click.command()
@click.option("--all", "is_all", is_flag=True, help="Recount every label and compare.")
def recompute(*, is_all: bool) -> None:
    """Run the job once; --all also checks the running counts against a recount.

    Detectors whose last run failed are tried too.
    """
    settings = load_settings()
    configure_logging(settings.log_level)
    with connected(settings) as database:
        done = recompute_all(database, worker=process_name())
        click.echo(
            f"{len(done)} detectors brought up to date: "
            f"{sum(r.labels for r in done):,} labels, "
            f"{sum(r.snapshots for r in done):,} snapshots."
        )
        if is_all and not _is_right(database):
            raise click.ClickException("the running counts differ from a recount")
        with database.read() as session:
            failing = count_failing(session, RECOMPUTE)
        if failing:
            raise click.ClickException(
                f"{failing:,} detectors could not be brought up to date: "
                "tracker doctor says why"
            )


def _is_right(database: Database) -> bool:
    differences = 0
    with database.read() as session:
        detectors = list_detectors(session)
        with click.progressbar(detectors, label="Recounting", file=sys.stderr) as bar:
            for detector in bar:
                for wrong in recount_labels(session, detector):
                    differences += 1
                    click.echo(
                        f"{detector.name}, version {wrong.version}, {wrong.what}: "
                        f"counted {wrong.running:,}, "
                        f"recounted {wrong.recounted:,}",
                        err=True,
                    )
    if not differences:
        click.echo(f"{len(detectors)} detectors recounted: no difference.")
    return not differences


@click.group()
def db() -> None:
    """Upgrade the schema of the database."""


@db.command()
def upgrade() -> None:
    """Upgrade the schema; running it again does nothing."""
    database = reach(load_settings())
    try:
        before = schema.current_revision(database)
        schema.upgrade(database)
        after = schema.current_revision(database)
    finally:
        database.close()
    if before == after:
        click.echo(f"The database is already at revision {after}.")
    else:
        click.echo(f"The database went from revision {before or 'nothing'} to {after}.")
