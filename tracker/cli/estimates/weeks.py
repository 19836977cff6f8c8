"""The command weeks."""

import csv
import sys

import click
from rich.table import Table

from tracker.cli.options import print_json
from tracker.cli.printing import print_table
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.rounding import outward
from tracker.services.detectors import get_detector
from tracker.services.estimates.weeks import SpanAccuracy, Weeks, get_weeks


@click.command()
@click.argument("detector")
@click.option(
    "--by",
    type=click.Choice(["week", "day", "month"]),
    default="week",
    show_default=True,
    help="A week begins on Monday.",
)
@click.option("--version", help="The version; by default the one that pages show.")
@click.option(
    "--measure",
    help="balanced, overall, recall:CLASS or precision:CLASS; by default the "
    "detector's.",
)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=26, help="How many of the newest."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
)
def weeks(  # noqa: PLR0913, PLR0917 - one argument for each option.
    detector: str,
    by: str,
    version: str | None,
    measure: str | None,
    limit: int,
    format_name: str,
) -> None:
    """Print how accurate DETECTOR was on the queries asked in each week."""
    with connected(load_settings()) as database, database.read() as session:
        found = get_weeks(
            session,
            get_detector(session, detector),
            computed_at=utc_now(),
            by=by,  # type: ignore[arg-type]
            version=version,
            measure=measure,
            limit=limit,
        )
    if format_name == "json":
        print_json(found)
    elif format_name == "csv":
        print_csv(found)
    else:
        print_weeks(found)


def print_csv(found: Weeks) -> None:
    """Print the weeks as a file with a line for each."""
    names = [
        field.serialization_alias or name
        for name, field in SpanAccuracy.model_fields.items()
    ]
    file = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    file.writeheader()
    file.writerows(one.dump() for one in found.items)


def print_weeks(found: Weeks) -> None:
    """Print the weeks as a table, and what their intervals promise."""
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}, {found.measure} by "
        f"{found.by}, {found.time_zone}"
    )
    table = Table(
        *("from", "queries", "labels", "drawn", "correct", "low", "high", "of", "")
    )
    for one in found.items:
        low, high = outward(one.low, one.high, 4)
        notes = [] if one.is_closed else ["open"]
        table.add_row(
            found.day_of(one).isoformat(),
            f"{one.queries:,}",
            f"{one.labels:,}",
            f"{one.drawn:,}",
            f"{one.correct:,}",
            f"{low:f}",
            f"{high:f}",
            "all queries" if one.basis == "queries" else "labelled ones",
            ", ".join([*notes, *(["below target"] if one.below_target else [])]),
        )
    print_table(table)
    click.echo(
        f"All {found.by}s that are closed hold at once with "
        f"{found.confidence_level:g}, however often you look."
    )
