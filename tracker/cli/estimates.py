"""Commands about estimates: the accuracy of a detector, its slices and weeks."""

import csv
import sys
from typing import Any

import click

from tracker.cli import options
from tracker.cli.setup import connected, load_settings
from tracker.clock import utc_now
from tracker.rounding import outward
from tracker.services.deciding.planning import price_audit
from tracker.services.detectors import get_detector
from tracker.services.estimates.decision import Span
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.measures import MeasuredEstimate, add_measure
from tracker.services.estimates.report import add_sentence, tell_change
from tracker.services.estimates.slices import Slices, get_slices
from tracker.services.estimates.weeks import SpanAccuracy, Weeks, get_weeks
from tracker.services.evidence.measure import read_measure
from tracker.services.labelling.rechecks import find_label_errors
from tracker.stats import METHODS
from tracker.words import BALANCED


@click.command()
@click.argument("detector")
@options.version_option
@click.option("--method", type=click.Choice(METHODS), default="anytime")
@options.choose_level(float)
@click.option("--include-targeted", is_flag=True, help="Also score targeted labels.")
@options.choose_format("table", "json")
def estimate(
    detector: str, format_name: str, confidence_level: float | None, **choices: Any
) -> None:
    """Print how accurate DETECTOR is, and how sure that is."""
    if confidence_level is not None and not 0 < confidence_level < 1:
        raise click.BadParameter(
            f"{confidence_level:g} does not lie between 0 and 1",
            param_hint="--confidence-level",
        )
    with connected(load_settings()) as database, database.read() as session:
        measured = get_detector(session, detector)
        found = get_estimate(
            session,
            measured,
            computed_at=utc_now(),
            confidence_level=confidence_level,
            **choices,
        )
        is_of_all = not choices["include_targeted"]
        errors = find_label_errors(session, measured, found) if is_of_all else None
        found = price_audit(session, measured, found)
        found = add_sentence(measured, add_measure(found, measured.measure, errors))
        options.print_as(format_name, found, _print_estimate)


def _print_estimate(found: MeasuredEstimate) -> None:
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}: "
        f"{found.labels:,} labels, {found.confidence_level:g} intervals, "
        f"method {found.method}{_since(found.span)}"
    )
    click.echo(f"{found.sentence}\n{found.basis[0].upper()}{found.basis[1:]}".strip())
    rows = []
    assert found.measured is not None
    names = [found.measured.measure, *found.confusion]
    for name, one in zip(names, [found.measured, *found.classes], strict=True):
        said = "not known" if one.accuracy is None else f"{one.accuracy:.6f}"
        rows.append((name, *_counts(one), said, *_ends(one, 6)))
    options.print_rows(
        ("scope", "correct", "labelled", "accuracy", "low", "high"), rows
    )
    click.echo(f"Each interval of a class is {found.confidence_level:g} by itself.")
    if found.unanswered:
        click.echo(
            f"no answer: {found.unanswered:,} of {found.labels:,}, counted as wrong"
        )
    for warning in found.warnings:
        click.echo(f"warning: {warning.message}")
    if found.left_out:
        click.echo(f"left out: {found.left_out}")
    if found.versions_left_out:
        click.echo(
            f"an input counts once, by a version that was drawn: "
            f"{found.versions_left_out:,} labels of other versions left out"
        )
    if found.weighted is not None:
        balanced = found.weighted.balanced
        shown = "not known" if balanced is None else f"{balanced:.6f}"
        click.echo(
            f"weighted: {found.weighted.overall:.6f} overall, {shown} balanced, by "
            f"{found.weighted.labels:,} labels; {found.weighted.says}"
        )
    _print_decisions(found)
    change = found.change
    if change is not None:
        click.echo(tell_change(change, found.sentence))


def _print_decisions(found: MeasuredEstimate) -> None:
    for decision in (found.decision, *found.also):
        if decision is None:
            if str(found.no_decision_because) not in found.sentence:
                click.echo(f"no verdict: {found.no_decision_because}")
            continue
        low, high = _ends(decision, 6)
        click.echo(
            f"target {decision.target:g} of {read_measure(decision.measure).name}: "
            f"{decision.verdict}, by the anytime interval {low} to {high}"
            f"{_since(decision.span)}"
        )
        if decision.advice is not None:
            click.echo(decision.advice.text)


def _counts(one: Any) -> tuple[str, str]:
    return f"{one.correct:,}", f"{one.labelled:,}"


def _ends(one: Any, places: int) -> tuple[str, str]:
    low, high = outward(one.low, one.high, places)
    return f"{low:f}", f"{high:f}"


def _since(span: Span | None) -> str:
    since = None if span is None else span.since
    return f", since {since:%-d %b %Y}" if since else ""


@click.command()
@click.argument("detector")
@click.option(
    "--by",
    required=True,
    help="metadata.NAME for a slice of the detector, version, predicted or week.",
)
@click.option("--version", help="The version; by default the one that pages show.")
@options.choose_format("table", "json")
def slices(detector: str, format_name: str, **choices: Any) -> None:
    """Print where DETECTOR is worse: its accuracy on each part of its queries."""
    with connected(load_settings()) as database, database.read() as session:
        named = get_detector(session, detector)
        found = get_slices(session, named, computed_at=utc_now(), **choices)
    options.print_as(format_name, found, _print_slices)


def _print_slices(found: Slices) -> None:
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}, by {found.by}: "
        f"{found.labels:,} {found.population} labels of {found.queries:,} queries; "
        f"each {found.unit} counts once"
    )
    if not found.is_counted:
        click.echo("The job counts this key now; ask again in a minute.")
        return
    for number, kind in (
        (found.unstated_left_out, "labels without a stated sampling"),
        (found.replayed_left_out, "replayed labels"),
    ):
        if number:
            click.echo(f"left out: {number:,} {kind}")
    rows = []
    for one in found.items:
        state = one.state.replace("_", " ")
        if found.measure == BALANCED and one.state in {"worse", "better"}:
            state += f" in {', '.join(one.worse_in or one.better_in)}"
            if one.worse_in and one.better_in:
                state += f", better in {', '.join(one.better_in)}"
        measured = *_counts(one.measured), *_ends(one.measured, 4)
        rows.append((one.value, f"{one.queries:,}", state, *measured))
    columns = ("value", "queries", "state", "correct", "labelled", "low", "high")
    options.print_rows(columns, rows)
    looks = "at every look" if found.is_for_every_look else "at one look"
    each = ", class by class" if found.measure == BALANCED else ""
    click.echo(f"measure: {found.measure}; slices are compared by it{each}")
    click.echo(
        f"All intervals hold at once with {found.confidence_level:g}, method "
        f"{found.method}; the states hold {looks}."
    )


@click.command()
@click.argument("detector")
@click.option(
    "--by",
    type=click.Choice(["week", "day", "month"]),
    default="week",
    help="A week begins on Monday.",
)
@click.option("--version", help="The version; by default the one that pages show.")
@click.option(
    "--measure",
    help="balanced, overall, recall:CLASS or precision:CLASS; by default the "
    "detector's.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100),
    default=26,
    show_default=False,
    help="How many of the newest.",
)
@options.choose_format("table", "json", "csv")
def weeks(detector: str, format_name: str, **choices: Any) -> None:
    """Print how accurate DETECTOR was on the queries asked in each week."""
    with connected(load_settings()) as database, database.read() as session:
        named = get_detector(session, detector)
        found = get_weeks(session, named, computed_at=utc_now(), **choices)
    options.print_as(
        format_name, found, _print_csv if format_name == "csv" else _print_weeks
    )


def _print_csv(found: Weeks) -> None:
    names = [
        field.serialization_alias or name
        for name, field in SpanAccuracy.model_fields.items()
    ]
    file = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    file.writeheader()
    file.writerows(one.dump() for one in found.items)


def _print_weeks(found: Weeks) -> None:
    click.echo(
        f"{found.name}, version {found.version or 'none yet'}, {found.measure} by "
        f"{found.by}, {found.time_zone}; intervals by {found.population} labels, each "
        f"{found.unit} counts once"
    )
    rows = []
    for one in found.items:
        notes = [] if one.is_closed else ["open"]
        notes += ["below target"] if one.below_target else []
        counts = (f"{x:,}" for x in (one.queries, one.labels, one.drawn, one.correct))
        of = "all queries" if one.basis == "queries" else "labelled ones"
        day = found.day_of(one).isoformat()
        rows.append((day, *counts, *_ends(one, 4), of, ", ".join(notes)))
    columns = ("from", "queries", "labels", "drawn", "correct", "low", "high", "of", "")
    options.print_rows(columns, rows)
    click.echo(
        f"All {found.by}s that are closed hold at once with "
        f"{found.confidence_level:g}, however often you look."
    )
