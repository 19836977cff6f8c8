"""The command estimate."""

import click
from rich.table import Table

from tracker.cli.options import format_option, print_json, version_option
from tracker.cli.printing import print_table
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.rounding import outward
from tracker.services.detectors import get_detector
from tracker.services.estimates.decision import Span
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.stats import METHODS
from tracker.words import BALANCED


@click.command()
@click.argument("detector")
@version_option
@click.option(
    "--method", type=click.Choice(METHODS), default="anytime", show_default=True
)
@click.option(
    "--confidence-level",
    type=float,
    help="The confidence level; by default the detector's.",
)
@click.option("--include-targeted", is_flag=True, help="Also score targeted labels.")
@format_option
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
            computed_at=utc_now(),
            version=version,
            method=method,
            confidence_level=check_level(confidence_level),
            include_targeted=include_targeted,
        )
        if format_name == "json":
            print_json(found)
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
    """Print an estimate as a table, with its verdict."""
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}: "
        f"{found.labels:,} labels, {found.confidence_level:g} intervals, "
        f"method {found.method}{_since(found.span)}"
    )
    table = Table("scope", "correct", "labelled", "accuracy", "low", "high")
    names = [BALANCED, *(one.name for one in found.classes)]
    for name, one in zip(names, [found.whole, *found.classes], strict=True):
        accuracy = one.accuracy
        low, high = outward(one.low, one.high, 6)
        table.add_row(
            name,
            f"{one.correct:,}",
            f"{one.labelled:,}",
            "not known" if accuracy is None else f"{accuracy:.6f}",
            f"{low:f}",
            f"{high:f}",
        )
    print_table(table)
    if found.unclear or found.targeted_left_out:
        click.echo(
            f"left out: {found.unclear:,} unclear, {found.targeted_left_out:,} targeted"
        )
    if found.versions_left_out:
        click.echo(
            f"an input counts once, by a version that was drawn: "
            f"{found.versions_left_out:,} labels of other versions left out"
        )
    decision = found.decision
    if decision is not None:
        low, high = outward(decision.low, decision.high, 6)
        click.echo(
            f"target {decision.target:g}: {decision.verdict}, by the anytime "
            f"interval {low:f} to {high:f}{_since(decision.span)}"
        )
        if decision.advice is not None:
            click.echo(decision.advice.text)
    change = found.change
    if change is not None:
        click.echo(
            f"{change.measure} {change.state}, about {change.since:%-d %b %Y} "
            f"(between {change.since_from:%-d %b %Y} and {change.since_to:%-d %b %Y})"
        )


def _since(span: Span | None) -> str:
    """Return since which day labels count, if not all do."""
    since = None if span is None else span.since
    return f", since {since:%-d %b %Y}" if since else ""
