"""The command gate, and the formats of what it prints."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import click

from tracker.cli.options import Share
from tracker.cli.setup import by, connected, load_settings
from tracker.errors import TrackerError
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.detectors import get_detector
from tracker.services.evidence.populations import POPULATIONS
from tracker.services.fields import parse_input

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


FORMATS = {"text": text, "json": as_json, "github": github, "junit": junit}


_EXIT_CODES = {"met": 0, "missed": 1, "undecided": 3}
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
    sys.exit(_EXIT_CODES[found.verdict])
