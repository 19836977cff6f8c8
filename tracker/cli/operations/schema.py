"""The command db."""

import click

from tracker.cli.setup import load_settings, reach
from tracker.storage.operations import schema


@click.group()
def db() -> None:
    """Look after the database's schema."""


@db.command()
def upgrade() -> None:
    """Bring the schema up to date; running it again does nothing."""
    database = reach(load_settings())
    try:
        before = schema.current_revision(database)
        schema.upgrade(database)
        after = schema.current_revision(database)
    finally:
        database.close()
    if before == after:
        click.echo(f"The database is at revision {after} already.")
    else:
        click.echo(f"The database went from revision {before or 'nothing'} to {after}.")
