"""Commands that decide: compare, gate and plan."""

import json
import math
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import click

from tracker.charts.words import plural
from tracker.cli import options
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.errors import TrackerError
from tracker.rounding import outward
from tracker.services.deciding import pairs, planning
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.evidence.populations import POPULATIONS
from tracker.services.fields import parse_input
from tracker.stats import MOST_LABELS
from tracker.words import BALANCED

_PLACES = 4


@click.command()
@click.argument("detector")
@click.option("--old", help="The old version; by default the one before --new.")
@click.option("--new", help="The new version; by default the latest.")
@options.choose_level(options.Share())
@click.option(
    "--population",
    type=click.Choice(POPULATIONS),
    help="Whose labels count; by default live and replayed ones.",
)
@options.choose_format("table", "json")
@click.option(
    "--check",
    "must_be_better",
    is_flag=True,
    help="Exit with 1 unless the new version is better.",
)
def compare(
    detector: str, format_name: str, *, must_be_better: bool, **choices: Any
) -> None:
    """Print whether a new version of DETECTOR is better than an old one.

    Queries of the two with the same input are compared as pairs.  The verdict holds
    after every label, the intervals for one look.  With --check, exits with 1 unless
    the new version is better.
    """
    with connected(load_settings()) as database, database.read() as session:
        compared = get_detector(session, detector)
        found = get_comparison(session, compared, computed_at=utc_now(), **choices)
        options.print_as(format_name, found, _print_comparison)
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
    whose = found.population or "live and replayed"
    click.echo(f"by {whose} labels; each {found.unit} counts once")
    click.echo(f"for one look, {found.confidence_level:g} intervals:")
    if found.paired is not None:
        _print_paired(found.paired)
    click.echo("each by its own labels, the queries taken for different ones")
    rows = []
    names = [BALANCED, *(one.name for one in found.unpaired.classes)]
    changes = [found.unpaired.balanced, *found.unpaired.classes]
    for name, one in zip(names, changes, strict=True):
        counts = (
            f"{side.correct:,} of {side.labelled:,}" for side in (one.old, one.new)
        )
        rows.append((name, *counts, *_figures(one)))
    columns = ("scope", found.old, found.new, "change", "low", "high")
    options.print_rows(columns, rows)


def _print_paired(paired: pairs.Paired) -> None:
    click.echo(f"on the same inputs, method {paired.method}, balanced joint")
    rows: list[tuple[str, ...]] = [
        (BALANCED, f"{paired.pairs:,}", "", "", *_figures(paired.balanced))
    ]
    counted: list[tuple[str, pairs.Overall | pairs.PairedChange]]
    counted = [("overall", paired.overall), *((x.name, x) for x in paired.classes)]
    for name, one in counted:
        counts = f"{one.pairs:,}", f"{one.gained:,}", f"{one.lost:,}"
        rows.append((name, *counts, *_figures(one), f"{one.p_value:.{_PLACES}f}"))
    columns = ("scope", "pairs", "gained", "lost", "change", "low", "high", "p")
    options.print_rows(columns, rows)


def _figures(change: pairs.Change) -> tuple[str, str, str]:
    low, high = outward(change.low, change.high, _PLACES)
    difference = change.difference
    said = "not known" if difference is None else f"{difference:+.{_PLACES}f}"
    return said, f"{low:+f}", f"{high:+f}"


_LEVELS = {"met": "notice", "missed": "error", "undecided": "warning"}
_CELLS = 50
# Characters that Markdown interprets, and characters that XML cannot contain.
_MARKUP = re.compile(r"([\\`*_\[\]|~])")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(gate: Gate) -> str:
    lines = [_title(gate), f"  {gate.basis}"]
    lines += [f"  {one.name}: {one.verdict}: {one.message}" for one in gate.checks]
    return "\n".join(lines)


def github(gate: Gate) -> str:
    """Return GitHub workflow commands, one for each condition."""
    title = _message(f"{gate.detector} {gate.version}: {gate.verdict}")
    title = title.replace(":", "%3A").replace(",", "%2C")
    return "\n".join(
        f"::{_LEVELS[one.verdict]} title={title}::"
        + _message(f"{one.name}: {one.verdict}: {one.message}")
        for one in gate.checks
    )


def markdown(gate: Gate) -> str:
    """Return the step summary: the interval as a picture, then the conditions."""
    rows = "".join(
        f"| {_cell(one.name)} | {one.verdict} | {_cell(one.message)} |\n"
        for one in gate.checks
    )
    return (
        f"### {_cell(_title(gate))}\n\n"
        f"```text\n{picture(gate.low, gate.high, gate.target)}\n```\n\n"
        f"{_cell(gate.basis)}\n\n| check | verdict | |\n|---|---|---|\n{rows}\n"
    )


def picture(low: float, high: float, target: float | None) -> str:
    """Draw an interval and its target, if any, on a line from 0 to 100 %.

    Each character is two points; those that the interval touches are filled.
    """
    first = min(int(low * _CELLS), _CELLS - 1)
    last = max(math.ceil(high * _CELLS), first + 1)
    line = ["█" if first <= place < last else "─" for place in range(_CELLS)]
    if target is not None:
        line[min(int(target * _CELLS), _CELLS - 1)] = "┃"
    return f"0 % {''.join(line)} 100 %"


def junit(gate: Gate) -> str:
    """Return JUnit XML with a test case for each condition; undecided is a failure."""
    suite = _attribute(f"tracker gate {gate.detector}")
    group = _attribute(f"{gate.detector} {gate.version}")
    cases = []
    for one in gate.checks:
        body = f"<system-out>{_content(one.message)}</system-out>"
        if one.verdict != "met":
            # Some programs show the attribute, others the content.
            words = _attribute(f"{one.verdict}: {one.message}")
            body = (
                f"<failure message={words} type={quoteattr(one.verdict)}>"
                f"{_content(f'{one.verdict}: {one.message}')}</failure>"
            )
        cases.append(
            f"<testcase classname={group} name={quoteattr(one.name)} "
            f'time="0">{body}</testcase>'
        )
    failures = sum(one.verdict != "met" for one in gate.checks)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name={suite} {counts} time="0">'
        f"{''.join(cases)}</testsuite></testsuites>"
    )


def _title(gate: Gate) -> str:
    return f"{gate.detector}, version {gate.version or 'none yet'}: {gate.verdict}"


def _message(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _cell(words: str) -> str:
    return _MARKUP.sub(r"\\\1", escape(words)).replace("\n", " ").replace("\r", " ")


def _attribute(words: str) -> str:
    return quoteattr(_NOT_XML.sub("?", words))


def _content(words: str) -> str:
    return escape(_NOT_XML.sub("?", words))


FORMATS: dict[str, Callable[[Gate], str]] = {
    "text": text,
    "json": lambda gate: json.dumps(gate.dump(), ensure_ascii=False, indent=1),
    "github": github,
    "junit": junit,
}


_EXIT_CODES = {"met": 0, "missed": 1, "undecided": 3}
_FAILED = 2


@click.command()
@click.argument("detector")
@click.option(
    "--target", type=options.Share(), help="The target; by default the detector's."
)
@click.option("--version", help="The version; by default the one that pages show.")
@click.option(
    "--population",
    type=click.Choice(POPULATIONS),
    help="Whose labels count; by default live, else replayed.",
)
@click.option("--max-width", type=options.Share(), help="Of the interval.")
@click.option(
    "--not-worse-than",
    metavar="VERSION",
    help="The version to compare with, on the same inputs.",
)
@click.option(
    "--family",
    is_flag=True,
    help="Let the verdicts of all versions gated this way hold together.",
)
@click.option(
    "--unseen",
    is_flag=True,
    help="State that the version was made without the labels it is tested on.",
)
@options.choose_format(*FORMATS)
@click.option(
    "--summary",
    envvar="GITHUB_STEP_SUMMARY",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --format github: the file to add a summary to; $GITHUB_STEP_SUMMARY.",
)
def gate(
    detector: str, format_name: str, summary: Path | None, **conditions: Any
) -> None:
    """Stop a build whose DETECTOR is not good enough.

    Uses the interval that holds at every look.  Exit status: 0 met, 1 missed, 3
    undecided, 2 could not be measured.
    """
    try:
        choice = parse_input(GateChoice, conditions)
        with connected(load_settings()) as database:
            is_written = choice.unseen or choice.family
            opened = database.write if is_written else database.read
            with opened() as session:
                found = ask_gate(session, get_detector(session, detector), choice, by())
        if format_name == "github" and summary is not None:
            with summary.open("a", encoding="utf-8") as file:
                file.write(markdown(found))
    except (TrackerError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_FAILED)
    click.echo(FORMATS[format_name](found))
    sys.exit(_EXIT_CODES[found.verdict])


_REASONS = {
    "unlabelled": "it has no label yet",
    "narrows_most": "a label of it narrows the interval most",
}


@click.command()
@click.argument("detector")
@click.option(
    "--width",
    type=options.Share(),
    default=planning.USUAL_WIDTH,
    help="The width of the interval, high minus low.",
)
@click.option(
    "--target", type=options.Share(), help="The target; by default the detector's."
)
@click.option(
    "--accuracy",
    type=options.Share(with_ends=True),
    help="The assumed accuracy; by default the current estimate.",
)
@click.option(
    "--power",
    type=options.Share(),
    default=planning.USUAL_POWER,
    help="The chance that the target is certified.",
)
@click.option(
    "--more", type=click.IntRange(0, MOST_LABELS), help="The number of further labels."
)
@options.version_option
@options.choose_level(options.Share())
@options.choose_format("table", "json")
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
        estimate = planning.price_audit(session, owner, estimate)
    found = planning.build_plan(estimate, planning.Goal(**goal), owner.measure)
    refusal = estimate.no_decision_because if estimate.target is not None else None
    options.print_as(
        format_name,
        found,
        partial(_print_plan, basis=estimate.basis, no_verdict_because=refusal),
    )


def _print_plan(
    found: planning.LabelPlan, *, basis: str, no_verdict_because: str | None
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
    wide = f"more for {found.width:g} wide"
    columns = ("class", "labelled", wide, "more for balanced", *certify, *chance)
    rows = []
    for one in found.classes:
        row = [one.name, f"{one.labelled:,}"]
        row += [_more(one.for_width), _more(one.for_balanced_width)]
        row += [_more(one.to_certify) for _ in certify]
        row += [
            "" if one.chance_to_certify is None else f"{one.chance_to_certify:.4f}"
            for _ in chance
        ]
        rows.append(row)
    options.print_rows(columns, rows)
    is_balanced = found.measure == BALANCED
    number = found.for_balanced_width if is_balanced else found.draws_for_width
    if number == 0:
        click.echo(f"The {found.interval} is already at most {found.width:g} wide.")
    elif number is not None:
        how = "in all" if is_balanced else "drawn at random"
        click.echo(
            f"{plural(number, 'more label')} {how} bring the {found.interval} to a "
            f"width of {found.width:g}."
        )
    if found.next is not None:
        click.echo(f"Next: {found.next.name}; {_REASONS[found.next.reason]}.")
    if no_verdict_because:
        click.echo(f"No verdict: {no_verdict_because}.")
    if found.advice is not None:
        click.echo(found.advice.text)


def _more(labels: int | None) -> str:
    return "unreachable" if labels is None else f"{labels:,}"
