"""The commands interval and coverage, which need no database."""

import re
from typing import Any, get_args

import click
from rich.table import Table

from tracker.cli.options import Share, format_option, print_as, print_json, print_table
from tracker.rounding import outward
from tracker.services.deciding.calculator import (
    CalculatedIntervals,
    calculate,
    calculate_coverage,
)
from tracker.stats import METHODS, Side

_COUNTS = re.compile(r"(\d{1,10})/(\d{1,10})", re.ASCII)
_PLACES = 6

_method = click.option(
    "--method", type=click.Choice(METHODS), default="exact", show_default=True
)
_level = click.option(
    "--confidence-level", type=Share(), default=0.95, show_default=True
)


def _parse_counts(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[int, int], ...]:
    counts = []
    for value in values:
        found = _COUNTS.fullmatch(value)
        if found is None:
            raise click.BadParameter(f"{value!r} is not like 23/28, 23 correct of 28.")
        counts.append((int(found[1]), int(found[2])))
    return tuple(counts)


@click.command()
@click.argument("counts", nargs=-1, required=True, callback=_parse_counts)
@_method
@_level
@click.option(
    "--side",
    type=click.Choice(get_args(Side)),
    default="both",
    show_default=True,
    help="A single bound uses the whole error.",
)
@click.option(
    "--set-size",
    type=click.IntRange(min=1),
    help="For one class: the size of the set, for the accuracy on just that set.",
)
@format_option
def interval(
    counts: tuple[tuple[int, int], ...], format_name: str, **choices: Any
) -> None:
    """Print the intervals of COUNTS, such as 23/28 41/44, one for each class."""
    found = calculate(
        [correct for correct, _ in counts],
        [labelled for _, labelled in counts],
        **choices,
    )
    print_as(format_name, found, _print_intervals)


@click.command()
@click.option(
    "--labelled",
    type=click.IntRange(min=0),
    multiple=True,
    required=True,
    help="The labels of a class; twice for the balanced accuracy of two classes.",
)
@click.option(
    "--accuracy",
    type=Share(with_ends=True),
    multiple=True,
    required=True,
    help="The true accuracy of a class, in the same order.",
)
@_method
@_level
@format_option
def coverage(
    labelled: tuple[int, ...],
    accuracy: tuple[float, ...],
    method: str,
    confidence_level: float,
    format_name: str,
) -> None:
    """Print how often an interval would hold the truth, summed exactly."""
    found = calculate_coverage(
        labelled, accuracy, method=method, confidence_level=confidence_level
    )
    if format_name == "json":
        print_json(found)
        return
    click.echo(f"method {method}, {_worth(found.is_guaranteed)}")
    table = Table("confidence level", "holds", "above", "below", "expected width")
    figures = found.holds, found.above, found.below, found.expected_width
    table.add_row(f"{confidence_level:g}", *(f"{one:.{_PLACES}f}" for one in figures))
    print_table(table)


def _print_intervals(found: CalculatedIntervals) -> None:
    sides = "" if found.side == "both" else f"{found.side} bounds, "
    click.echo(
        f"{sides}confidence level {found.confidence_level:g}, method {found.method}, "
        f"{_worth(found.is_guaranteed)}"
    )
    table = Table("scope", "correct", "labelled", "accuracy", "low", "high")
    for number, one in enumerate(found.classes, start=1):
        counts = f"{one.correct:,}", f"{one.labelled:,}"
        figures = _figures(one.accuracy, one.low, one.high)
        table.add_row(f"class {number}", *counts, *figures)
    if found.balanced is not None:
        both = found.balanced
        table.add_row("balanced", "", "", *_figures(both.accuracy, both.low, both.high))
    print_table(table)


def _figures(accuracy: float | None, low: float, high: float) -> tuple[str, str, str]:
    said = "not known" if accuracy is None else f"{accuracy:.{_PLACES}f}"
    bounds = outward(low, high, _PLACES)
    return said, f"{bounds[0]:f}", f"{bounds[1]:f}"


def _worth(is_guaranteed: bool) -> str:
    return "guaranteed" if is_guaranteed else "an approximation"
