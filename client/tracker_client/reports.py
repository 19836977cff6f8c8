"""What a gate found, as people and build servers read it."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from tracker_client.gate import MET, MISSED, Result

_LEVELS = {MET: "notice", MISSED: "error"}
_CELLS = 50
# What Markdown would not print as it stands, and what XML has no way to write.
_MARKUP = re.compile(r"([\\`*_\[\]|~])")
_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def text(result: Result) -> str:
    """Return one line for the whole and one for each condition."""
    lines = [_title(result), f"  {result.basis}"]
    lines += [f"  {one.name}: {one.verdict}: {one.message}" for one in result.checks]
    return "\n".join(lines)


def as_json(result: Result) -> str:
    """Return it as a JSON object."""
    return json.dumps(result.dump(), ensure_ascii=False, indent=1)


def github(result: Result) -> str:
    """Return workflow commands, and add a table to the summary of the step."""
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(_markdown(result))
    title = _property(f"{result.detector} {result.version}: {result.verdict}")
    return "\n".join(
        f"::{_LEVELS.get(one.verdict, 'warning')} title={title}::"
        + _message(f"{one.name}: {one.verdict}: {one.message}")
        for one in result.checks
    )


def _message(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _message(words).replace(":", "%3A").replace(",", "%2C")


def _title(result: Result) -> str:
    version = result.version or "none yet"
    return f"{result.detector}, version {version}: {result.verdict}"


def _cell(words: str) -> str:
    return _MARKUP.sub(r"\\\1", escape(words)).replace("\n", " ").replace("\r", " ")


def _markdown(result: Result) -> str:
    rows = "".join(
        f"| {_cell(one.name)} | {one.verdict} | {_cell(one.message)} |\n"
        for one in result.checks
    )
    return (
        f"### {_cell(_title(result))}\n\n"
        f"```text\n{picture(result.low, result.high, result.target)}\n```\n\n"
        f"{_cell(result.basis)}\n\n| check | verdict | |\n|---|---|---|\n{rows}\n"
    )


def picture(low: float, high: float, target: float | None) -> str:
    """Draw an interval, and maybe a target, on a line from 0 to 100 %.

    Each character is two points; those that the interval touches are filled.
    """
    first = min(int(low * _CELLS), _CELLS - 1)
    last = max(math.ceil(high * _CELLS), first + 1)
    line = ["█" if first <= place < last else "─" for place in range(_CELLS)]
    if target is not None:
        line[min(int(target * _CELLS), _CELLS - 1)] = "┃"
    return f"0 % {''.join(line)} 100 %"


def junit(result: Result) -> str:
    """Return JUnit's XML, a test case for each condition; undecided is a failure."""
    suite = _attribute(f"tracker gate {result.detector}")
    group = _attribute(f"{result.detector} {result.version}")
    cases = []
    for one in result.checks:
        body = f"<system-out>{_content(one.message)}</system-out>"
        if one.verdict != MET:
            # Some readers show the attribute, others the content.
            words = _attribute(f"{one.verdict}: {one.message}")
            body = (
                f"<failure message={words} type={quoteattr(one.verdict)}>"
                f"{_content(f'{one.verdict}: {one.message}')}</failure>"
            )
        cases.append(
            f"<testcase classname={group} name={quoteattr(one.name)} "
            f'time="0">{body}</testcase>'
        )
    failures = sum(one.verdict != MET for one in result.checks)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name={suite} {counts} time="0">'
        f"{''.join(cases)}</testsuite></testsuites>"
    )


def _attribute(words: str) -> str:
    return quoteattr(_NOT_XML.sub("?", words))


def _content(words: str) -> str:
    return escape(_NOT_XML.sub("?", words))


FORMATS = {"text": text, "json": as_json, "github": github, "junit": junit}
