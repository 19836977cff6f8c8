"""The command plan."""

import json

import click
from rich.table import Table

from tracker.api.planning import dump_plan
from tracker.cli.setup import connected, load_settings, now, print_table
from tracker.cli.shares import Share
from tracker.services.detectors import get_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.planning import (
    USUAL_POWER,
    USUAL_WIDTH,
    Goal,
    Plan,
    build_plan,
)
from tracker.stats.arguments import MOST_LABELS

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
    help="Of the interval, high less low.",
)
@click.option("--target", type=Share(), help="The detector's own unless given.")
@click.option(
    "--accuracy",
    type=Share(with_ends=True),
    help="Of further labels; as estimated now unless given.",
)
@click.option(
    "--power",
    type=Share(),
    default=USUAL_POWER,
    show_default=True,
    help="With what chance the target is certified.",
)
@click.option(
    "--more",
    type=click.IntRange(0, MOST_LABELS),
    help="How many more labels of a class may be given.",
)
@click.option("--version", help="The one that queries came with last; * pools all.")
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
def plan(  # noqa: PLR0913, PLR0917 - one argument for each option.
    detector: str,
    width: float,
    target: float | None,
    accuracy: float | None,
    power: float,
    more: int | None,
    version: str | None,
    confidence_level: float | None,
    format_name: str,
) -> None:
    """Print how many more labels DETECTOR needs, and of which class the next."""
    with connected(load_settings()) as database, database.read() as session:
        estimate = get_estimate(
            session,
            get_detector(session, detector),
            computed_at=now(),
            version=version,
            confidence_level=confidence_level,
        )
    goal = Goal(width=width, target=target, accuracy=accuracy, power=power, more=more)
    found = build_plan(estimate, goal)
    if format_name == "json":
        document = dump_plan(estimate, found)
        click.echo(json.dumps(document, ensure_ascii=False, indent=1))
    else:
        _print_plan(estimate, found)


def _print_plan(estimate: Estimate, found: Plan) -> None:
    goal = found.goal
    click.echo(
        f"{estimate.detector.name}, version {estimate.version or 'none yet'}: "
        f"{estimate.labels:,} labels, {estimate.confidence_level:g} intervals, "
        "method exact"
    )
    certify = () if goal.target is None else (f"more to certify {goal.target:g}",)
    chance = (
        ()
        if goal.target is None or goal.more is None
        else (f"chance after {goal.more:,} more",)
    )
    table = Table(
        "class",
        "labelled",
        f"more for {goal.width:g} wide",
        "more for balanced",
        *certify,
        *chance,
    )
    for one in found.classes:
        row = [one.scope.scope, f"{one.scope.labelled:,}"]
        row += [_more(one.for_width), _more(one.for_balanced_width)]
        row += [_more(one.to_certify) for _ in certify]
        row += ["" if one.chance is None else f"{one.chance:.4f}" for _ in chance]
        table.add_row(*row)
    print_table(table)
    if found.for_balanced_width is not None:
        click.echo(
            f"{found.for_balanced_width:,} more labels in all bring the balanced "
            f"interval to a width of {goal.width:g}."
        )
    click.echo(f"Next: {found.next.scope.scope}; {_REASONS[found.next.reason]}.")


def _more(labels: int | None) -> str:
    return "no hope" if labels is None else f"{labels:,}"
