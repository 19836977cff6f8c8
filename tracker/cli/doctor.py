"""The command doctor."""

import sys

import click
from sqlalchemy.orm import Session

from tracker.cli.setup import load_settings, now
from tracker.services.doctor import (
    Problem,
    check_detector,
    check_images,
    check_imports,
    count_unnamed_images,
)
from tracker.storage import schema
from tracker.storage.database import open_database
from tracker.storage.detectors import list_detectors
from tracker.storage.images import open_image_store

_MOST_SHOWN = 50


@click.command()
def doctor() -> None:
    """Say what is wrong with the stored data and what mends it; change nothing.

    The schema, the running counts, the newest snapshots, the last runs, the imports
    left to a worker and the images are checked, while the service goes on.  The status
    is 1 if anything is wrong.
    """
    settings = load_settings()
    images = open_image_store(settings)
    database = open_database(settings.database)
    try:
        current, head = schema.current_revision(database), schema.head_revision()
        if current != head:
            raise click.ClickException(
                f"the database is at revision {current or 'nothing'}, this program at "
                f"{head}: run tracker db upgrade, or the program that the database "
                "belongs to"
            )
        with database.read() as session:
            problems = _check_detectors(session)
            problems += check_imports(session, at=now())
            # Listed once the session has its snapshot: an image comes before the
            # query that names it, and is never deleted.
            kept = set(images.iter_names())
            problems += check_images(session, kept)
            unnamed = count_unnamed_images(session, kept)
    finally:
        database.close()
    if unnamed:
        click.echo(f"{unnamed:,} images belong to no query, which does no harm.")
    for problem in problems[:_MOST_SHOWN]:
        click.echo(f"Wrong: {problem.what}.\n  What mends it: {problem.remedy}.")
    if problems:
        raise click.ClickException(f"{len(problems):,} things are wrong")
    click.echo(
        f"Nothing is wrong: schema {head}, counts, newest snapshots and images agree."
    )


def _check_detectors(session: Session) -> list[Problem]:
    problems: list[Problem] = []
    detectors = list_detectors(session, has_archived=True)
    with click.progressbar(detectors, label="Checking", file=sys.stderr) as bar:
        for detector in bar:
            problems += check_detector(session, detector)
    return problems
