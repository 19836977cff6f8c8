"""The badges commands."""

import click

from tracker.cli.options import ask, print_rows
from tracker.cli.setup import by, connected, load_settings
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.telling import badges as services
from tracker.services.wording import dump_instant
from tracker.storage.base import dump_id
from tracker.storage.telling import list_badges

_MOST = 1_000
_LOCAL = "http://127.0.0.1:8000"


@click.group()
def badges() -> None:
    """Create, list and revoke badges, which show an accuracy to everybody."""


@badges.command()
@click.argument("detector")
def create(detector: str) -> None:
    """Create a badge of DETECTOR and print its addresses; they are shown once."""
    settings = load_settings()
    with connected(settings) as database, database.write() as session:
        shown = get_open_detector(session, detector)
        server = settings.public_url or _LOCAL
        made = services.create_badge(session, shown, server, by())
    click.echo(f"{made.id}\n{made.svg}\n{made.json_}\n{made.embed}")


@badges.command(name="list")
@click.argument("detector")
def list_them(detector: str) -> None:
    """List the badges of DETECTOR, without their addresses."""
    with connected(load_settings()) as database, database.read() as session:
        found = get_detector(session, detector)
        rows = [
            (dump_id("bdg", one.id), dump_instant(one.created_at), one.created_by)
            for one in list_badges(session, found.id, limit=_MOST)
        ]
    print_rows(("badge", "made", "by"), rows)


@badges.command()
@click.argument("badge")
@click.option("--yes", is_flag=True, help="Do not ask at a terminal.")
def revoke(badge: str, *, yes: bool) -> None:
    """Revoke BADGE, such as bdg_1: its addresses show nothing from now on."""
    ask(f"Pages that show {badge} will show nothing.", yes=yes)
    with connected(load_settings()) as database, database.write() as session:
        services.revoke_badge(session, services.get_badge(session, badge), by())
    click.echo(f"The badge {badge} is revoked.")
