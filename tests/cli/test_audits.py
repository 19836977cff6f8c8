"""The commands around audits."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_commands import Shell


@pytest.fixture
def door(database_url: str, tmp_path: Path) -> Shell:
    shell = Shell(database_url, tmp_path)
    shell("detectors", "create", "door", "--question", "Is the door closed?")
    rows = "".join(f"q{n},YES,0.{50 + n},{'YES' if n % 3 else ''}\n" for n in range(30))
    file = shell.file("rows.csv", f"key,predicted,confidence,label\n{rows}")
    shell("import", "door", file)
    return shell


@pytest.mark.slow
def test_an_audit_is_begun_listed_and_exported(door: Shell) -> None:
    audit = door("audits", "create", "door", "--name", "all", "--seed", "1").stdout
    assert audit.strip() == "aud_1"
    listed = door("audits", "list", "door").stdout
    assert "all" in listed
    assert "30" in listed
    exported = door("audits", "export", "aud_1").stdout
    [columns] = csv.reader(exported.splitlines())
    assert columns[:3] == ["draw", "round", "query"]
    record = json.loads(door("audits", "export", "aud_1", "--record").stdout)
    assert sum(one["queries"] for one in record["strata"]) == 30
    assert "no audit 'aud_2'" in door("audits", "export", "aud_2", status=1).stderr


def test_a_schedule_is_begun_by_command(door: Shell) -> None:
    words = ("--every", "week", "--labels", "40", "--labeler", "ann")
    begun = door("audits", "create", "door", "--name", "weekly", *words).stdout
    assert begun.strip() == "sch_1"


def test_what_is_no_audit_is_refused(door: Shell) -> None:
    words = ("audits", "create", "door", "--name", "all", "--where", "camera:north")
    assert "Error: where: " in door(*words, status=1).stderr
    both = ("--half-width", "0.1", "--target", "0.9")
    refused = door("audits", "create", "door", "--name", "all", *both, status=1)
    assert "half_width or target" in refused.stderr
