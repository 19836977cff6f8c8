"""The keys commands."""

from datetime import datetime
from typing import Any

import click
from rich.table import Table

from tracker.cli.options import ask, print_table
from tracker.cli.setup import by, connected, load_settings
from tracker.services.people.keys import create_key, revoke_key
from tracker.services.wording import dump_instant
from tracker.storage.people import list_keys
from tracker.words import KEY_ROLES


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(KEY_ROLES), required=True)
@click.option(
    "--detector",
    "detectors",
    multiple=True,
    help="A detector that the key sees; repeatable. Without it, all.",
)
@click.option("--expires", help="How long it is valid, such as 90d or 12w.")
@click.option("--owner", help="The person responsible for it; by default you.")
def create(name: str, role: str, detectors: tuple[str, ...], **choices: Any) -> None:
    """Create an API key and print it; it is shown once."""
    with connected(load_settings(), fill=True) as database, database.write() as session:
        given = detectors or None
        text = create_key(session, name, role, by(), detectors=given, **choices)
    click.echo(text)


@keys.command(name="list")
def list_them() -> None:
    """List the API keys, without the keys themselves."""
    table = Table("name", "role", "owner", "made", "expires", "last used", "revoked")
    with connected(load_settings()) as database, database.read() as session:
        for key in list_keys(session):
            instants = (
                key.created_at,
                key.expires_at,
                key.last_used_at,
                key.revoked_at,
            )
            table.add_row(key.name, key.role, key.owner or "", *map(_show, instants))
    print_table(table)


def _show(instant: datetime | None) -> str:
    return "" if instant is None else dump_instant(instant)


@keys.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
def revoke(name: str, *, yes: bool) -> None:
    """Revoke the key NAME at once."""
    ask(f"Programs that use the key {name} will be refused.", yes=yes)
    with connected(load_settings()) as database, database.write() as session:
        revoke_key(session, name, by())
    click.echo(f"The key {name} is revoked.")
