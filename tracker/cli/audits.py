"""The audits commands."""

import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from tracker.cli.exports import file_options, write_file, write_pieces
from tracker.cli.options import print_table
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling.auditing import audit_draws
from tracker.services.labelling.auditing import audits as services
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audit_lifecycle import create_schedule
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.wording import dump_instant
from tracker.storage.base import dump_id
from tracker.storage.labelling.audits import list_audits


@click.group()
def audits() -> None:
    """Create, list and export audits, which need the fewest labels."""


@audits.command()
@click.argument("detector")
@click.option("--name", required=True, help="Unique within the detector.")
@click.option("--version", help="The version; by default the one shown; * is all.")
@click.option(
    "--since",
    help="Only queries asked since this instant: 2026-01-31T00:00:00Z or 7d.",
)
@click.option("--until", help="Only queries asked before this instant.")
@click.option("--where", multiple=True, help="Such as metadata.camera:north.")
@click.option(
    "--aim", default="balanced", show_default=True, help="balanced, overall or a class."
)
@click.option(
    "--half-width", type=float, help="The goal: half the width of the interval."
)
@click.option("--target", type=float, help="Or: a target to be above or below of.")
@click.option("--labels", type=int, help="Or: a number of labels.")
@click.option("--every", help="day, week or month: a schedule with an audit of each.")
@click.option("--time-zone", help="The time zone of the schedule's days.")
@click.option("--labeler", "labelers", multiple=True, help="Only these may answer.")
@click.option("--seed", help="A seed, to get the same draws again.")
def create(
    detector: str, where: tuple[str, ...], labelers: tuple[str, ...], **said: Any
) -> None:
    """Start an audit or a schedule of audits of DETECTOR, and print its id."""
    values = {name: value for name, value in said.items() if value is not None}
    lists = {"where": list(where), "labelers": list(labelers)}
    new = parse_input(NewAudit, {**values, **lists})
    with connected(load_settings()) as database, database.write() as session:
        found = get_open_detector(session, detector)
        if new.every:
            click.echo(dump_id("sch", create_schedule(session, found, new, by()).id))
        else:
            click.echo(
                dump_id("aud", services.create_audit(session, found, new, by()).id)
            )


@audits.command(name="list")
@click.argument("detector")
def list_them(detector: str) -> None:
    """List the audits of DETECTOR with their intervals, newest first."""
    table = Table("id", "name", "queries", "labels", "measure", "interval", "begun")
    with connected(load_settings()) as database, database.read() as session:
        found = get_detector(session, detector)
        for audit in list_audits(session, found.id, limit=None):
            estimate = get_audit_estimate(session, audit, computed_at=utc_now())
            aimed = services.aimed_of(audit, estimate)
            table.add_row(
                dump_id("aud", audit.id),
                audit.name,
                f"{audit.queries:,}",
                f"{estimate.labels:,}",
                services.measure_of(audit),
                f"{aimed.low:.4f} to {aimed.high:.4f}",
                dump_instant(audit.created_at),
            )
    print_table(table)


@audits.command()
@click.argument("audit")
@file_options
@click.option(
    "--record",
    "is_record",
    is_flag=True,
    help="Write its strata and rounds, too, as one JSON document.",
)
def export(
    audit: str, format_name: str, output: Path | None, *, is_record: bool
) -> None:
    """Write the draws of AUDIT in order: probability, query, prediction and label."""
    with connected(load_settings()) as database, database.read() as session:
        found = services.get_audit(session, audit)
        if is_record:
            record = audit_draws.get_audit_record(session, found).dump()
        else:
            rows = audit_draws.list_draw_rows(session, found)
    if is_record:
        write_pieces([json.dumps(record).encode(), b"\n"], output)
    else:
        write_file(format_name, audit_draws.DRAW_COLUMNS, rows, output)
