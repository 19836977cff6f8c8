"""The command compare."""

import click
from rich.table import Table

from tracker.cli.options import Share, format_option, print_json, print_table
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.rounding import outward
from tracker.services.deciding.comparison import Comparison, Unpaired, get_comparison
from tracker.services.deciding.pairs import (
    Change,
    Overall,
    Paired,
    PairedChange,
)
from tracker.services.detectors import get_detector
from tracker.services.evidence.populations import POPULATIONS
from tracker.words import BALANCED

_PLACES = 4


@click.command()
@click.argument("detector")
@click.option("--old", help="The old version; by default the one before --new.")
@click.option("--new", help="The new version; by default the latest.")
@click.option(
    "--confidence-level",
    type=Share(),
    help="The confidence level; by default the detector's.",
)
@click.option(
    "--population",
    type=click.Choice(POPULATIONS),
    help="Whose labels count; by default live and replayed ones.",
)
@format_option
@click.option(
    "--check",
    "must_be_better",
    is_flag=True,
    help="Exit with 1 unless the new version is better.",
)
def compare(  # noqa: PLR0913, PLR0917 - one for each option.
    detector: str,
    old: str | None,
    new: str | None,
    confidence_level: float | None,
    population: str | None,
    format_name: str,
    *,
    must_be_better: bool,
) -> None:
    """Print whether a new version of DETECTOR is better than an old one.

    Queries of the two with the same input are compared as pairs.  The verdict holds
    after every label, the intervals for one look.  With --check, exits with 1 unless
    the new version is better.
    """
    with connected(load_settings()) as database, database.read() as session:
        found = get_comparison(
            session,
            get_detector(session, detector),
            computed_at=utc_now(),
            old=old,
            new=new,
            confidence_level=confidence_level,
            population=population,
        )
        if format_name == "json":
            print_json(found)
        else:
            _print_comparison(found)
    if must_be_better and found.verdict != "better":
        raise SystemExit(1)


def _print_comparison(found: Comparison) -> None:
    by = "the labels of each"
    if found.verdict_from == "paired":
        by = f"the {found.unit}s of both that were labelled at random"
    click.echo(
        f"{found.name}, {found.new} against {found.old}: {found.verdict}, by {by}"
    )
    if found.no_decision_because:
        click.echo(f"no verdict by pairs: {found.no_decision_because}")
    if found.decision is not None:
        click.echo(f"{found.sentence} That holds at every look.")
        if found.decision.labels_to_decide:
            more = found.decision.labels_to_decide
            click.echo(f"about {more:,} more pairs would decide it")
    click.echo(f"for one look, {found.confidence_level:g} intervals:")
    if found.paired is not None:
        _print_paired(found.paired)
    _print_unpaired(found.unpaired, found.old, found.new)


def _print_paired(paired: Paired) -> None:
    click.echo(f"on the same inputs, method {paired.method}, balanced joint")
    table = Table("scope", "pairs", "gained", "lost", "change", "low", "high", "p")
    table.add_row(BALANCED, f"{paired.pairs:,}", "", "", *_figures(paired.balanced))
    rows: list[tuple[str, Overall | PairedChange]] = [("overall", paired.overall)]
    rows += [(one.name, one) for one in paired.classes]
    for name, one in rows:
        counts = f"{one.pairs:,}", f"{one.gained:,}", f"{one.lost:,}"
        table.add_row(name, *counts, *_figures(one), f"{one.p_value:.{_PLACES}f}")
    print_table(table)


def _print_unpaired(unpaired: Unpaired, old: str, new: str) -> None:
    click.echo("each by its own labels, the queries taken for different ones")
    table = Table("scope", old, new, "change", "low", "high")
    names = [BALANCED, *(one.name for one in unpaired.classes)]
    changes = [unpaired.balanced, *unpaired.classes]
    for name, one in zip(names, changes, strict=True):
        counts = (
            f"{side.correct:,} of {side.labelled:,}" for side in (one.old, one.new)
        )
        table.add_row(name, *counts, *_figures(one))
    print_table(table)


def _figures(change: Change) -> tuple[str, str, str]:
    low, high = outward(change.low, change.high, _PLACES)
    difference = change.difference
    said = "not known" if difference is None else f"{difference:+.{_PLACES}f}"
    return said, f"{low:+f}", f"{high:+f}"
