"""The command compare."""

import json

import click
from rich.table import Table

from tracker.api.comparison import dump_comparison
from tracker.charts.rounding import outward
from tracker.cli.setup import connected, load_settings, now, print_table
from tracker.cli.shares import Share
from tracker.services.comparison import (
    Change,
    Comparison,
    Paired,
    Unpaired,
    get_comparison,
)
from tracker.services.detectors import get_detector

_PLACES = 4


@click.command()
@click.argument("detector")
@click.option("--old", help="The version that came before --new unless given.")
@click.option("--new", help="The one that queries came with last unless given.")
@click.option(
    "--confidence-level", type=Share(), help="The detector's own unless given."
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
)
def compare(
    detector: str,
    old: str | None,
    new: str | None,
    confidence_level: float | None,
    format_name: str,
) -> None:
    """Print whether a new version of DETECTOR is better than an old one.

    Queries of the two with the same input are compared as pairs.  The intervals are
    meant to be looked at once.
    """
    with connected(load_settings()) as database, database.read() as session:
        found = get_comparison(
            session,
            get_detector(session, detector),
            computed_at=now(),
            old=old,
            new=new,
            confidence_level=confidence_level,
        )
        if format_name == "json":
            click.echo(json.dumps(dump_comparison(found), ensure_ascii=False, indent=1))
        else:
            _print_comparison(found)


def _print_comparison(found: Comparison) -> None:
    click.echo(
        f"{found.detector.name}, {found.new} against {found.old}, "
        f"{found.confidence_level:g} intervals"
    )
    if found.paired is not None:
        _print_paired(found.paired)
    _print_unpaired(found.unpaired, found.old, found.new)
    click.echo(
        f"{found.new} against {found.old}: {found.verdict}, by the "
        f"{found.verdict_from} interval of the balanced accuracy"
    )


def _print_paired(paired: Paired) -> None:
    click.echo(f"on the same inputs, method {paired.method}")
    table = Table("scope", "pairs", "gained", "lost", "change", "low", "high", "p")
    table.add_row("balanced", f"{paired.pairs:,}", "", "", *_figures(paired.balanced))
    for one in paired.classes:
        counts = f"{one.pairs:,}", f"{one.gained:,}", f"{one.lost:,}"
        table.add_row(one.scope, *counts, *_figures(one), f"{one.p_value:.{_PLACES}f}")
    print_table(table)
    if paired.disagreeing:
        click.echo(f"left out: {paired.disagreeing:,} whose two labels disagree")


def _print_unpaired(unpaired: Unpaired, old: str, new: str) -> None:
    click.echo("each by its own labels, the queries taken for different ones")
    table = Table("scope", old, new, "change", "low", "high")
    scopes = zip(
        [unpaired.balanced, *unpaired.classes],
        [unpaired.old.balanced, *unpaired.old.classes],
        [unpaired.new.balanced, *unpaired.new.classes],
        strict=True,
    )
    for one, was, is_now in scopes:
        counts = (f"{side.correct:,} of {side.labelled:,}" for side in (was, is_now))
        table.add_row(one.scope, *counts, *_figures(one))
    print_table(table)


def _figures(change: Change) -> tuple[str, str, str]:
    low, high = outward(change.low, change.high, _PLACES)
    difference = change.difference
    said = "not known" if difference is None else f"{difference:+.{_PLACES}f}"
    return said, f"{low:+f}", f"{high:+f}"
