"""The commands around resampling studies."""

import csv
import json
from pathlib import Path

import pytest

from tests.cli.test_commands import Shell
from tests.services.irises import IRIS, iris


@pytest.fixture
def door(database_url: str, tmp_path: Path) -> Shell:
    shell = Shell(database_url, tmp_path)
    shell("detectors", "create", "door", "--question", "Is the door closed?")
    return shell


def add(shell: Shell, file: str = str(IRIS), *more: str, status: int = 0) -> str:
    words = ("studies", "add", "door", file, "--name", "tree", "--kind", "bootstrap")
    result = shell(*words, *more, status=status)
    return result.stderr if status else result.stdout.strip()


def test_a_study_is_added_once_and_its_id_printed_alone(door: Shell) -> None:
    study = add(door)

    assert study.removeprefix("stu_").isdigit()
    assert add(door) == study
    assert "with other version" in add(door, str(IRIS), "--version", "v3", status=1)


def test_the_list_shows_what_there_is(door: Shell) -> None:
    study = add(door)
    name = "[/red] luck"
    file = door.file("seeds.csv", "accuracy\n0.9\n0.91\n")
    words = ("studies", "add", "door", file, "--name", name, "--kind", "seeds")
    door(*words, "--version", "v3")

    listed = door("studies", "list", "door").stdout

    for word in (study, "tree", "bootstrap", "200", name, "seeds", "v3"):
        assert word in listed
    assert listed.index(name) < listed.index("tree")


def test_a_study_is_shown_with_its_published_intervals(door: Shell) -> None:
    study = add(door)

    shown = door("studies", "show", study).stdout
    narrow = door("studies", "show", study, "--confidence-level", "0.5").stdout

    assert "0.8795 to 1.0000 at 0.95" in shown
    assert "0.8696 to 1.0000 at 0.95" in shown
    assert shown.count("An approximation that covers") == 4
    assert "0.9266 to 0.9778 at 0.5" in narrow


def test_rounds_go_out_as_they_came_in(door: Shell) -> None:
    study = add(door)
    output = door.folder / "rounds.csv"
    door("studies", "export", study, "--output", str(output))

    with output.open(newline="") as file:
        rows = [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)]
    lines = door("studies", "export", study, "--format", "jsonl").stdout.splitlines()

    assert rows == iris()
    assert [json.loads(line) for line in lines] == iris()
    assert add(door, str(output)) == study


def test_wrong_words_fail_and_say_what_would_be_right(door: Shell) -> None:
    bad = door.file("bad.csv", "validation,training\n0.9,1\n0.9,\n1.5,1\n")
    assert "row 3, validation: 1.5 is not right" in add(door, bad, status=1)
    missing = door.file("missing.csv", "validation,training\n0.9,1\n0.9,\n")
    assert "row 2, training: is missing" in add(door, missing, status=1)
    assert "must end in" in add(door, door.file("a.doc", ""), status=1)
    assert "no study 'stu_1'" in door("studies", "show", "stu_1", status=1).stderr
    assert "no study" in door("studies", "export", "stu_1", status=1).stderr
    assert "no detector" in door("studies", "list", "gate", status=1).stderr
    study = add(door)
    for level in ("0", "1", "95", "nan"):
        words = ("studies", "show", study, "--confidence-level", level)
        assert "between 0 and 1" in door(*words, status=1).stderr
