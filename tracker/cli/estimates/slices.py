"""The command slices."""

import click
from rich.table import Table

from tracker.cli.options import format_option, print_json
from tracker.cli.printing import print_table
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.rounding import outward
from tracker.services.detectors import get_detector
from tracker.services.estimates.slices.slices import Slices, get_slices


@click.command()
@click.argument("detector")
@click.option(
    "--by",
    required=True,
    help="metadata.NAME for a slice of the detector, version, predicted or week.",
)
@click.option("--version", help="The version; by default the one that pages show.")
@format_option
def slices(detector: str, by: str, version: str | None, format_name: str) -> None:
    """Print where DETECTOR is worse: its accuracy on each part of its queries."""
    with connected(load_settings()) as database, database.read() as session:
        found = get_slices(
            session,
            get_detector(session, detector),
            by=by,
            version=version,
            computed_at=utc_now(),
        )
    if format_name == "json":
        print_json(found)
    else:
        print_slices(found)


def print_slices(found: Slices) -> None:
    """Print slices as a table, and what their intervals promise."""
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}, by {found.by}: "
        f"{found.labels:,} labels of {found.queries:,} queries"
    )
    if not found.is_counted:
        click.echo("The job counts this key now; ask again in a minute.")
        return
    if found.unstated_left_out:
        click.echo(
            f"left out: {found.unstated_left_out:,} labels of which nobody has said "
            "how they were chosen"
        )
    table = Table("value", "queries", "state", "correct", "labelled", "low", "high")
    for one in found.items:
        score = one.overall
        low, high = outward(score.low, score.high, 4)
        table.add_row(
            one.value,
            f"{one.queries:,}",
            one.state.replace("_", " "),
            f"{score.correct:,}",
            f"{score.labelled:,}",
            f"{low:f}",
            f"{high:f}",
        )
    print_table(table)
    looks = "at every look" if found.is_for_every_look else "at one look"
    click.echo(
        f"All intervals hold at once with {found.confidence_level:g}, method "
        f"{found.method}; the states hold {looks}."
    )
