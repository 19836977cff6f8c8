"""The commands around API keys."""

import click
from rich.table import Table

from tracker.cli.setup import (
    audit_command,
    connected,
    load_settings,
    now,
    print_table,
)
from tracker.services.fields import ROLES, dump_instant
from tracker.services.keys import create_key, revoke_key
from tracker.storage.api_keys import list_keys


@click.group()
def keys() -> None:
    """Make, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    help="The one it is for; may be given several times. Without it, all.",
)
def create(name: str, role: str, detectors: tuple[str, ...]) -> None:
    """Make an API key and print it; it can never be shown again."""
    with connected(load_settings()) as database, database.write() as session:
        text = create_key(
            session, name, role, created_at=now(), detectors=detectors or None
        )
        audit_command(session, "key made", name, role=role, detectors=list(detectors))
    click.echo(text)


@keys.command(name="list")
def list_them() -> None:
    """List the API keys, without the keys themselves."""
    table = Table("name", "role", "made", "revoked")
    with connected(load_settings()) as database, database.read() as session:
        for key in list_keys(session):
            revoked = "" if key.revoked_at is None else dump_instant(key.revoked_at)
            table.add_row(key.name, key.role, dump_instant(key.created_at), revoked)
    print_table(table)


@keys.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
def revoke(name: str, *, yes: bool) -> None:
    """Make the key NAME useless at once."""
    if not yes:
        click.confirm(
            f"Programs that use the key {name} will be refused. Go on?", abort=True
        )
    with connected(load_settings()) as database, database.write() as session:
        revoke_key(session, name, revoked_at=now())
        audit_command(session, "key revoked", name)
    click.echo(f"The key {name} is revoked.")
