"""The commands around accounts."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.table import Table
from sqlalchemy.orm import Session

from tracker.cli.setup import (
    audit_command,
    connected,
    load_settings,
    now,
    print_table,
)
from tracker.services import accounts as services
from tracker.services.fields import ROLES, dump_instant
from tracker.services.sign_ins import INVITATION_LASTS, create_link
from tracker.storage import sign_ins
from tracker.storage.accounts import Account, list_accounts, list_detector_ids
from tracker.storage.base import dump_id

_NOWHERE = "http://127.0.0.1:8000"
_sight = (
    click.option(
        "--detector",
        "detectors",
        multiple=True,
        help="One that the account sees; may be given several times.",
    ),
    click.option("--all-detectors", is_flag=True, help="It sees every detector."),
)


@click.group()
def accounts() -> None:
    """Make, list, change and disable the accounts of people."""


@accounts.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), required=True)
@_sight[0]
@_sight[1]
@click.option("--password", "has_password", is_flag=True, help="Ask for a password.")
def create(
    name: str,
    role: str,
    detectors: tuple[str, ...],
    all_detectors: bool,
    has_password: bool,
) -> None:
    """Make an account, and print the link to sign in by or ask for a password.

    An admin sees every detector, anybody else only those that are given.
    """
    password = _ask_password() if has_password else None
    settings = load_settings()
    with connected(settings) as database, database.write() as session:
        made = services.create_account(session, name, role, created_at=now())
        services.change_detectors(session, made, detectors, has_all=all_detectors)
        audit_command(session, "account made", name, role=role)
        if password is not None:
            services.set_password(session, made, password)
            return
        link = _make_link(session, made)
    _print_link(settings.public_url, link)


@accounts.command(name="list")
def list_them() -> None:
    """List the accounts."""
    table = Table("name", "role", "sees", "made", "state")
    with connected(load_settings()) as database, database.read() as session:
        for row in list_accounts(session):
            state = "in use" if row.password_hash or row.identity else "no password yet"
            if row.disabled_at is not None:
                state = f"disabled {dump_instant(row.disabled_at)}"
            seen = _describe_sight(session, row)
            made = dump_instant(row.created_at)
            table.add_row(row.name, row.role, seen, made, state)
    print_table(table)


def _describe_sight(session: Session, row: Account) -> str:
    if row.role == "admin" or row.has_all_detectors:
        return "all"
    given = list_detector_ids(session, row.id)
    return ", ".join(dump_id("det", number) for number in given) or "none"


@accounts.command()
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES))
@_sight[0]
@_sight[1]
@click.option("--no-detectors", is_flag=True, help="It sees none.")
def change(
    name: str,
    role: str | None,
    detectors: tuple[str, ...],
    all_detectors: bool,
    no_detectors: bool,
) -> None:
    """Change the role of an account, or which detectors it sees."""
    with _changed(name, "account changed", role=role) as (session, row):
        if role is not None:
            services.change_role(session, row, role)
        if detectors or all_detectors or no_detectors:
            services.change_detectors(session, row, detectors, has_all=all_detectors)
    click.echo(f"{name} is changed.")


@accounts.command()
@click.argument("name")
def disable(name: str) -> None:
    """Let nobody in by the account NAME any more, at once."""
    with _changed(name, "account disabled") as (session, row):
        services.disable_account(session, row, disabled_at=now())
    click.echo(f"{name} is disabled, and signed out everywhere.")


@accounts.command()
@click.argument("name")
def enable(name: str) -> None:
    """Let the account NAME in again."""
    with _changed(name, "account enabled") as (session, row):
        services.enable_account(session, row)
    click.echo(f"{name} is enabled.")


@accounts.command()
@click.argument("name")
def password(name: str) -> None:
    """Give the account NAME a new password, and sign it out everywhere.

    It is asked for on a terminal; elsewhere it is the first line of the standard
    input.
    """
    with connected(load_settings()) as database, database.read() as session:
        services.get_account(session, name)
    text = _ask_password()
    with _changed(name, "password changed") as (session, row):
        services.set_password(session, row, text)
    click.echo(f"{name} has a new password.")


@accounts.command()
@click.argument("name")
def link(name: str) -> None:
    """Print a link that signs in as NAME once, within seven days."""
    with _changed(name, "link made") as (session, row):
        made = _make_link(session, row)
    _print_link(load_settings().public_url, made)


@accounts.command(name="sign-out")
@click.argument("name")
def sign_out(name: str) -> None:
    """Sign the account NAME out of every browser."""
    with _changed(name, "signed out everywhere") as (session, row):
        sign_ins.delete_sign_ins(session, row.id)
    click.echo(f"{name} is signed out everywhere.")


@contextmanager
def _changed(
    name: str, action: str, **details: object
) -> Iterator[tuple[Session, Account]]:
    with connected(load_settings()) as database, database.write() as session:
        yield session, services.get_account(session, name)
        audit_command(session, action, name, **details)


def _make_link(session: Session, row: Account) -> str:
    if row.disabled_at is not None:
        raise click.ClickException(f"{row.name} is disabled; enable it first")
    return create_link(session, row, created_at=now(), lasts=INVITATION_LASTS)


def _print_link(public_url: str, text: str) -> None:
    click.echo(f"{public_url or _NOWHERE}/sign-in?token={text}")
    click.echo("It signs in once, within seven days.", err=True)
    if not public_url:
        click.echo(
            f"TRACKER_PUBLIC_URL is not set: where your server is not at {_NOWHERE}, "
            "put its address in the place of that.",
            err=True,
        )


def _ask_password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    text: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    return text
