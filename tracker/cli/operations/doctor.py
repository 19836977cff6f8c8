"""The command doctor."""

import sys

import click
from sqlalchemy.orm import Session

from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.errors import DamagedError
from tracker.services.operations.doctor import (
    Problem,
    check_detector,
    check_image,
    check_imports,
)
from tracker.storage.database import describe_damage
from tracker.storage.detectors import list_detectors
from tracker.storage.dialect import find_damage
from tracker.storage.images import open_image_store
from tracker.storage.operations import schema
from tracker.storage.operations.backup import iter_image_names

_MOST_SHOWN = 50


@click.command()
def doctor() -> None:
    """Report what is wrong with the stored data and how to fix it; change nothing.

    The file of SQLite, the schema, the running counts, the newest snapshots, the last
    runs, the background imports and the images are checked while the service keeps
    running.  The status is 1 if anything is wrong.
    """
    settings = load_settings()
    images = open_image_store(settings)
    with connected(settings) as database, database.read() as session:
        if damage := find_damage(session):
            raise DamagedError(describe_damage(damage))
        problems = _check_detectors(session)
        problems += check_imports(session, at=utc_now())
        # Looked at once the session has its snapshot: an image comes before the
        # query that names it, and only erasing deletes it.
        named = set(iter_image_names(session))
        unnamed = sum(name not in named for name in images.iter_names())
        with click.progressbar(sorted(named), label="Images", file=sys.stderr) as bar:
            found = [check_image(name, images) for name in bar]
        problems += [wrong for wrong in found if wrong]
    if unnamed:
        click.echo(f"Images that belong to no query, which does no harm: {unnamed:,}.")
    for problem in problems[:_MOST_SHOWN]:
        click.echo(f"Wrong: {problem.what}.\n  To fix it: {problem.remedy}.")
    if problems:
        raise click.ClickException(f"things that are wrong: {len(problems):,}")
    click.echo(
        f"Nothing is wrong: schema {schema.head_revision()}, counts, newest snapshots "
        "and images agree."
    )


def _check_detectors(session: Session) -> list[Problem]:
    problems: list[Problem] = []
    detectors = list_detectors(session, has_archived=True)
    with click.progressbar(detectors, label="Checking", file=sys.stderr) as bar:
        for detector in bar:
            problems += check_detector(session, detector)
    return problems
