"""The commands compare and gate."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import click
from rich.table import Table

from tracker.cli.options import Share, format_option, print_json, print_table
from tracker.cli.setup import by, connected, load_settings
from tracker.clock import utc_now
from tracker.errors import TrackerError
from tracker.rounding import outward
from tracker.services.deciding.comparison import Comparison, Unpaired, get_comparison
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.deciding.pairs import (
    Change,
    ComparisonDecision,
    Overall,
    Paired,
    PairedChange,
)
from tracker.services.detectors import get_detector
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import POPULATIONS
from tracker.services.fields import parse_input
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
    click.echo(
        f"{found.name}, {found.new} against {found.old}, "
        f"{found.confidence_level:g} intervals"
    )
    if found.paired is not None:
        _print_paired(found.paired)
    _print_unpaired(found.unpaired, found.old, found.new)
    if found.decision is not None:
        _print_decision(found.decision)
    click.echo(
        f"{found.new} against {found.old}: {found.verdict}, by "
        + (
            f"the {found.unit}s of both that were labelled at random"
            if found.verdict_from == "paired"
            else "the labels of each"
        )
    )
    if found.no_decision_because:
        click.echo(f"no verdict by pairs: {found.no_decision_because}")


def _print_decision(found: ComparisonDecision) -> None:
    low, high = outward(found.low, found.high, _PLACES)
    click.echo(
        f"at every look the change of the {read_measure(found.measure).name} lies "
        f"between {low:+f} and {high:+f}"
    )
    if found.labels_to_decide:
        click.echo(f"about {found.labels_to_decide:,} more pairs would decide it")


def _print_paired(paired: Paired) -> None:
    decision = paired.decision
    low, high = outward(decision.low, decision.high, _PLACES)
    click.echo(
        f"where they disagree: won {decision.won:,}, lost {decision.lost:,}; "
        f"share won {low:f} to {high:f}, method {decision.method}"
    )
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


_LEVELS = {"met": "notice", "missed": "error", "undecided": "warning"}
_CELLS = 50
# Characters that Markdown interprets, and characters that XML cannot contain.
_MARKUP = re.compile(r"([\\`*_\[\]|~])")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(gate: Gate) -> str:
    lines = [_title(gate), f"  {gate.basis}"]
    lines += [f"  {one.name}: {one.verdict}: {one.message}" for one in gate.checks]
    return "\n".join(lines)


def as_json(gate: Gate) -> str:
    return json.dumps(gate.dump(), ensure_ascii=False, indent=1)


def github(gate: Gate) -> str:
    """Return GitHub workflow commands, one for each condition."""
    title = _property(f"{gate.detector} {gate.version}: {gate.verdict}")
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


def _property(words: str) -> str:
    return _message(words).replace(":", "%3A").replace(",", "%2C")


def _cell(words: str) -> str:
    return _MARKUP.sub(r"\\\1", escape(words)).replace("\n", " ").replace("\r", " ")


def _attribute(words: str) -> str:
    return quoteattr(_NOT_XML.sub("?", words))


def _content(words: str) -> str:
    return escape(_NOT_XML.sub("?", words))


FORMATS = {"text": text, "json": as_json, "github": github, "junit": junit}


_EXIT = {"met": 0, "missed": 1, "undecided": 3}
_FAILED = 2


@click.command()
@click.argument("detector")
@click.option("--target", type=Share(), help="The target; by default the detector's.")
@click.option("--version", help="The version; by default the one that pages show.")
@click.option(
    "--population",
    type=click.Choice(POPULATIONS),
    help="Whose labels count; by default live, else replayed.",
)
@click.option("--max-width", type=Share(), help="Of the interval.")
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
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
)
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
    sys.exit(_EXIT[found.verdict])
