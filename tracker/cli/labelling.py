"""Commands of what people label for: audits and resampling studies."""

import json
from pathlib import Path
from typing import Any

import click

from tracker.cli.exports import file_options, write_file, write_pieces
from tracker.cli.options import choose_level, print_rows
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import parse_input
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling import studies as study_services
from tracker.services.labelling.auditing import audit_draws
from tracker.services.labelling.auditing import audits as services
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audit_lifecycle import create_schedule
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.wording import dump_instant
from tracker.storage.base import dump_id
from tracker.storage.labelling.audits import list_audits
from tracker.storage.labelling.studies import list_studies


@click.group()
def audits() -> None:
    """Create, list and export audits, which need the fewest labels."""


@audits.command()
@click.argument("detector")
@click.option("--name", required=True, help="Unique within the detector.")
@click.option("--version", help="The version; by default the one shown; * is all.")
@click.option(
    "--since", help="Only queries asked since this instant: 2026-01-31T00:00:00Z or 7d."
)
@click.option("--until", help="Only queries asked before this instant.")
@click.option("--where", multiple=True, help="Such as metadata.camera:north.")
@click.option("--aim", default="balanced", help="balanced, overall or a class.")
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
        create = create_schedule if new.every else services.create_audit
        prefix = "sch" if new.every else "aud"
        click.echo(dump_id(prefix, create(session, found, new, by()).id))


@audits.command(name="list")
@click.argument("detector")
def list_them(detector: str) -> None:
    """List the audits of DETECTOR with their intervals, newest first."""
    rows = []
    with connected(load_settings()) as database, database.read() as session:
        found = get_detector(session, detector)
        for audit in list_audits(session, found.id, limit=None):
            estimate = get_audit_estimate(session, audit, computed_at=utc_now())
            aimed = services.aimed_of(audit, estimate)
            counts = f"{audit.queries:,}", f"{estimate.labels:,}"
            ends = f"{aimed.low:.4f} to {aimed.high:.4f}"
            measured = services.measure_of(audit), ends, dump_instant(audit.created_at)
            rows.append((dump_id("aud", audit.id), audit.name, *counts, *measured))
    columns = ("id", "name", "queries", "labels", "measure", "interval", "begun")
    print_rows(columns, rows)


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


@click.group()
def studies() -> None:
    """Add, list, show and export resampling studies."""


@studies.command()
@click.argument("detector")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="Unique within the detector.")
@click.option("--kind", type=click.Choice(list(study_services.KINDS)), required=True)
@click.option("--version", help="The studied version.")
@click.option("--note", help="A note on how the study was done.")
@click.option("--added-by", default="command line", help="The author of the study.")
def add(detector: str, file: Path, added_by: str, **said: Any) -> None:
    """Add the rounds in FILE to DETECTOR as a study, and print its id.

    FILE is CSV, JSON Lines, JSON or Parquet, by its suffix, with the columns
    validation, training and no_information, or accuracy.  Adding the same study again
    does nothing.
    """
    with file.open("rb") as stream:
        rounds = read_rounds(stream, file.suffix)
    new = study_services.parse_study({**said, "rounds": rounds})
    with connected(load_settings()) as database, database.write() as session:
        found = get_open_detector(session, detector)
        study, _ = study_services.add_study(session, found, new, by().credit(added_by))
        click.echo(dump_id("stu", study.id))


@studies.command(name="list")
@click.argument("detector")
def list_studies_of(detector: str) -> None:
    """List the studies of DETECTOR, newest first."""
    with connected(load_settings()) as database, database.read() as session:
        rows = [
            (
                *(dump_id("stu", one.id), one.name, one.kind, one.version or ""),
                *(f"{one.rounds:,}", dump_instant(one.created_at)),
            )
            for one in list_studies(session, get_detector(session, detector).id)
        ]
    print_rows(("id", "name", "kind", "version", "rounds", "added"), rows)


@studies.command()
@click.argument("study")
@choose_level(float)
def show(study: str, confidence_level: float | None) -> None:
    """Show the intervals of STUDY, all of them approximate."""
    with connected(load_settings()) as database, database.read() as session:
        report = study_services.build_study_report(
            session,
            study_services.get_study(session, study),
            confidence_level=confidence_level,
        )
    level, rounds = f"{report.confidence_level:g}", f"{report.rounds:,}"
    rows = [
        (
            *(one.method, f"{one.accuracy:.4f}"),
            *(f"{one.low:.4f} to {one.high:.4f} at {level}", rounds),
        )
        for one in report.intervals
    ]
    print_rows(("method", "mean accuracy", "interval", "rounds"), rows)
    for one in report.intervals:
        click.echo(f"{one.method}: {one.meaning}")


@studies.command(name="export")
@click.argument("study")
@file_options
def export_rounds(study: str, format_name: str, output: Path | None) -> None:
    """Write the rounds of STUDY as they were added."""
    with connected(load_settings()) as database, database.read() as session:
        rows = study_services.list_study_rows(
            session, study_services.get_study(session, study)
        )
    write_file(format_name, list(rows[0]), rows, output)
