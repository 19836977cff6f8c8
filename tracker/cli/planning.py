"""The plan command."""

from functools import partial
from typing import Any

import click
from rich.table import Table

from tracker.charts.words import plural
from tracker.cli.options import (
    Share,
    format_option,
    print_as,
    print_table,
    version_option,
)
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.services.deciding.planning import (
    USUAL_POWER,
    USUAL_WIDTH,
    Goal,
    LabelPlan,
    build_plan,
    price_audit,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.stats import MOST_LABELS

_REASONS = {
    "unlabelled": "it has no label yet",
    "narrows_most": "a label of it narrows the balanced interval most",
}


@click.command()
@click.argument("detector")
@click.option(
    "--width",
    type=Share(),
    default=USUAL_WIDTH,
    show_default=True,
    help="The width of the interval, high minus low.",
)
@click.option("--target", type=Share(), help="The target; by default the detector's.")
@click.option(
    "--accuracy",
    type=Share(with_ends=True),
    help="The assumed accuracy; by default the current estimate.",
)
@click.option(
    "--power",
    type=Share(),
    default=USUAL_POWER,
    show_default=True,
    help="The chance that the target is certified.",
)
@click.option(
    "--more", type=click.IntRange(0, MOST_LABELS), help="The number of further labels."
)
@version_option
@click.option(
    "--confidence-level",
    type=Share(),
    help="The confidence level; by default the detector's.",
)
@format_option
def plan(
    detector: str,
    version: str | None,
    confidence_level: float | None,
    format_name: str,
    **goal: Any,
) -> None:
    """Print how many more labels DETECTOR needs, and of which class the next."""
    with connected(load_settings()) as database, database.read() as session:
        owner = get_detector(session, detector)
        estimate = get_estimate(
            session,
            owner,
            computed_at=utc_now(),
            version=version,
            confidence_level=confidence_level,
        )
        estimate = price_audit(session, owner, estimate)
    found = build_plan(estimate, Goal(**goal))
    refusal = estimate.no_decision_because if estimate.target is not None else None
    print_as(
        format_name,
        found,
        partial(_print_plan, basis=estimate.basis, no_verdict_because=refusal),
    )


def _print_plan(
    found: LabelPlan, *, basis: str, no_verdict_because: str | None
) -> None:
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}: "
        f"{found.confidence_level:g} intervals, method exact"
    )
    click.echo(f"By {basis}")
    certify = () if found.target is None else (f"more to certify {found.target:g}",)
    chance = (
        ()
        if found.target is None or found.more is None
        else (f"chance after {found.more:,} more",)
    )
    table = Table(
        "class",
        "labelled",
        f"more for {found.width:g} wide",
        "more for balanced",
        *certify,
        *chance,
    )
    for one in found.classes:
        row = [one.name, f"{one.labelled:,}"]
        row += [_more(one.for_width), _more(one.for_balanced_width)]
        row += [_more(one.to_certify) for _ in certify]
        row += [
            "" if one.chance_to_certify is None else f"{one.chance_to_certify:.4f}"
            for _ in chance
        ]
        table.add_row(*row)
    print_table(table)
    if found.for_balanced_width == 0:
        click.echo(f"The balanced interval is already at most {found.width:g} wide.")
    elif found.for_balanced_width is not None:
        more = plural(found.for_balanced_width, "more label")
        click.echo(
            f"{more} in all bring the balanced interval to a width of {found.width:g}."
        )
    click.echo(f"Next: {found.next.name}; {_REASONS[found.next.reason]}.")
    if no_verdict_because:
        click.echo(f"No verdict: {no_verdict_because}.")
    if found.advice is not None:
        click.echo(found.advice.text)


def _more(labels: int | None) -> str:
    return "unreachable" if labels is None else f"{labels:,}"
