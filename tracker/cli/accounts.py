"""The commands of accounts and API keys."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import click
from sqlalchemy.orm import Session

from tracker.cli import options
from tracker.cli.options import ask, print_rows
from tracker.cli.setup import by, connected, load_settings
from tracker.services.people import accounts as services
from tracker.services.people import sign_ins
from tracker.services.people.keys import create_key, revoke_key
from tracker.services.people.second_factors import reset_second_factor
from tracker.services.wording import dump_instant
from tracker.storage import people as storage
from tracker.storage.base import dump_id, list_detector_ids, list_rows
from tracker.words import ADMIN, KEY_ROLES, ROLES

_NOWHERE = "http://127.0.0.1:8000"
_sight = options.together(
    options.repeated(
        "--detector", None, "A detector that the account sees", "detectors"
    ),
    click.option(
        "--all-detectors", is_flag=True, help="The account sees every detector."
    ),
)


@click.group()
def accounts() -> None:
    """Create, list, change and disable accounts."""


@accounts.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@_sight
@click.option("--password", "has_password", is_flag=True, help="Ask for a password.")
def create(
    name: str,
    role: str,
    detectors: tuple[str, ...],
    all_detectors: bool,
    has_password: bool,
) -> None:
    """Create an account, and print its sign-in link or ask for a password.

    An admin sees every detector, other roles only those given.
    """
    password = _ask_password() if has_password else None
    settings = load_settings()
    with connected(settings, fill=True) as database, database.write() as session:
        made = services.create_account(
            session,
            name,
            role,
            by(),
            detectors=detectors,
            has_all_detectors=all_detectors,
            password=password,
        )
        if password is not None:
            return
        link = sign_ins.create_link(
            session, made, by(), lasts=sign_ins.INVITATION_LASTS
        )
    _print_link(settings.public_url, link)


@accounts.command(name="list")
def list_them() -> None:
    """List the accounts."""
    rows = []
    with connected(load_settings()) as database, database.read() as session:
        for row in list_rows(session, storage.Account):
            state = "in use" if row.password_hash or row.identity else "no password yet"
            if row.disabled_at is not None:
                state = f"disabled {dump_instant(row.disabled_at)}"
            sees = "all"
            if row.role != ADMIN and not row.has_all_detectors:
                link, of = storage.AccountDetector, {"account_id": row.id}
                given = list_detector_ids(session, link, **of)
                sees = ", ".join(dump_id("det", number) for number in given) or "none"
            made = dump_instant(row.created_at)
            rows.append((row.name, row.role, sees, made, state))
    print_rows(("name", "role", "sees", "made", "state"), rows)


@accounts.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES))
@_sight
@click.option("--no-detectors", is_flag=True, help="The account sees no detector.")
def change(
    name: str,
    role: str | None,
    detectors: tuple[str, ...],
    all_detectors: bool,
    no_detectors: bool,
) -> None:
    """Change the role of an account, or the detectors it sees."""
    changes_sight = detectors or all_detectors or no_detectors
    with _changed(name) as (session, row):
        services.change_account(
            session,
            row,
            by(),
            role=role,
            detectors=detectors if changes_sight else None,
            has_all_detectors=all_detectors,
        )
    click.echo(f"{name} is changed.")


@accounts.command()
@click.argument("name")
def disable(name: str) -> None:
    """Disable the account NAME and sign it out everywhere."""
    with _changed(name) as (session, row):
        services.disable_account(session, row, by())
    click.echo(f"{name} is disabled, and signed out everywhere.")


@accounts.command()
@click.argument("name")
def enable(name: str) -> None:
    """Enable the account NAME again."""
    with _changed(name) as (session, row):
        services.enable_account(session, row, by())
    click.echo(f"{name} is enabled.")


@accounts.command()
@click.argument("name")
def password(name: str) -> None:
    """Set a new password for the account NAME, and sign it out everywhere.

    The password is asked for on a terminal, and else read from the first line of stdin.
    """
    with connected(load_settings()) as database, database.read() as session:
        services.get_account(session, name)
    text = _ask_password()
    with _changed(name) as (session, row):
        services.set_password(session, row, text, by())
    click.echo(f"{name} has a new password.")


@accounts.command()
@click.argument("name")
def link(name: str) -> None:
    """Print a link that signs in as NAME once, within seven days."""
    with _changed(name) as (session, row):
        made = sign_ins.invite(session, row, by())
    _print_link(load_settings().public_url, made)


@accounts.command(name="reset-second-step")
@click.argument("name")
def reset_second_step(name: str) -> None:
    """Remove the second step of the account NAME, until it sets up a new one."""
    with _changed(name) as (session, row):
        reset_second_factor(session, row, by())
    click.echo(f"{name} signs in without a second step until it sets up a new one.")


@accounts.command(name="sign-out")
@click.argument("name")
def sign_out(name: str) -> None:
    """Sign the account NAME out of every browser."""
    with _changed(name) as (session, row):
        sign_ins.sign_out_everywhere(session, row, by())
    click.echo(f"{name} is signed out everywhere.")


@contextmanager
def _changed(name: str) -> Iterator[tuple[Session, storage.Account]]:
    with connected(load_settings()) as database, database.write() as session:
        yield session, services.get_account(session, name)


def _print_link(public_url: str, text: str) -> None:
    click.echo(f"{public_url or _NOWHERE}/sign-in?token={text}")
    click.echo("It signs in once, within seven days.", err=True)
    if not public_url:
        click.echo(
            f"TRACKER_PUBLIC_URL is not set: replace {_NOWHERE} with the address of "
            "your server.",
            err=True,
        )


def _ask_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return text


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command(name="create")
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
def create_api_key(
    name: str, role: str, detectors: tuple[str, ...], **choices: Any
) -> None:
    """Create an API key and print it; it is shown once."""
    with connected(load_settings(), fill=True) as database, database.write() as session:
        given = detectors or None
        text = create_key(session, name, role, by(), detectors=given, **choices)
    click.echo(text)


@keys.command(name="list")
def list_api_keys() -> None:
    """List the API keys, without the keys themselves."""
    rows = []
    with connected(load_settings()) as database, database.read() as session:
        for key in list_rows(session, storage.ApiKey):
            used = (key.created_at, key.expires_at, key.last_used_at, key.revoked_at)
            rows.append((key.name, key.role, key.owner or "", *map(_show, used)))
    names = ("name", "role", "owner", "made", "expires", "last used", "revoked")
    print_rows(names, rows)


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
