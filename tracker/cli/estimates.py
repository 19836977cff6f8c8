"""The command estimate."""

import json

import click
from rich.table import Table

from tracker.api.dumps import dump_estimate
from tracker.charts.rounding import outward
from tracker.cli.setup import connected, load_settings, now, print_table
from tracker.services.detectors import get_detector
from tracker.services.estimates import Estimate, decide, get_estimate
from tracker.stats import METHODS


@click.command()
@click.argument("detector")
@click.option("--version", help="The one that queries came with last; * pools all.")
@click.option(
    "--method", type=click.Choice(METHODS), default="exact", show_default=True
)
@click.option("--confidence-level", type=float, help="The detector's own unless given.")
@click.option("--include-targeted", is_flag=True, help="Score targeted labels too.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
)
def estimate(  # noqa: PLR0913, PLR0917 - one argument for each option.
    detector: str,
    version: str | None,
    method: str,
    confidence_level: float | None,
    include_targeted: bool,
    format_name: str,
) -> None:
    """Print how accurate DETECTOR is, and how sure that is."""
    with connected(load_settings()) as database, database.read() as session:
        found = get_estimate(
            session,
            get_detector(session, detector),
            computed_at=now(),
            version=version,
            method=method,
            confidence_level=check_level(confidence_level),
            include_targeted=include_targeted,
        )
        if format_name == "json":
            click.echo(json.dumps(dump_estimate(found), ensure_ascii=False, indent=1))
        else:
            print_estimate(found)


def check_level(level: float | None) -> float | None:
    """Return *level* unless it is none."""
    if level is not None and not 0 < level < 1:
        raise click.BadParameter(
            f"{level:g} is not right: it must lie between 0 and 1",
            param_hint="--confidence-level",
        )
    return level


def print_estimate(found: Estimate) -> None:
    """Print an estimate as a table, and what follows from it."""
    click.echo(
        f"{found.detector.name}, version {found.version or 'none yet'}: "
        f"{found.labels:,} labels, {found.confidence_level:g} intervals, "
        f"method {found.method}"
    )
    table = Table("scope", "correct", "labelled", "accuracy", "low", "high")
    for scope in (found.balanced, *found.classes):
        accuracy = scope.accuracy
        low, high = outward(scope.low, scope.high, 6)
        table.add_row(
            scope.scope,
            f"{scope.correct:,}",
            f"{scope.labelled:,}",
            "not known" if accuracy is None else f"{accuracy:.6f}",
            f"{low:f}",
            f"{high:f}",
        )
    print_table(table)
    if found.unclear or found.targeted_left_out:
        click.echo(
            f"left out: {found.unclear:,} unclear, {found.targeted_left_out:,} targeted"
        )
    decision = decide(found)
    if decision is not None:
        low, high = outward(decision.low, decision.high, 6)
        click.echo(
            f"target {found.detector.target:g}: {decision.verdict}, by the anytime "
            f"interval {low:f} to {high:f}"
        )
