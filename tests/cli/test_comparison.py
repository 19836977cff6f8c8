"""The command compare."""

import csv
import json

import pytest

from tests.cli.test_commands import Shell

ROWS = """\
input,version,predicted,label
a,v1,NO,YES
a,v2,YES,
b,v1,YES,
b,v2,YES,YES
c,v1,NO,NO
c,v2,NO,NO
d,v1,NO,NO
d,v2,NO,
"""


@pytest.fixture
def door(shell: Shell) -> Shell:
    make = ("detectors", "create", "door", "--question", "Is the door closed?")
    shell(*make, "--label-sampling", "random")
    shell("import", "door", shell.file("pairs.csv", ROWS))
    return shell


@pytest.fixture
def shell(database_url: str, tmp_path) -> Shell:
    return Shell(database_url, tmp_path)


def test_two_versions_are_compared_in_a_table(door: Shell) -> None:
    said = door("compare", "door").stdout
    assert said.startswith(
        "door, v2 against v1: undecided, by the inputs of both that were labelled at "
        "random\nv2 is right between "
    )
    assert "for one look, 0.95 intervals:\n" in said
    assert "on the same inputs, method exact" in said
    lines = [[cell.strip() for cell in line.split("│")] for line in said.splitlines()]
    assert ["", "YES", "2", "1", "0", "+0.5000"] in [line[:6] for line in lines]
    assert ["", "NO", "2", "0", "0", "+0.0000"] in [line[:6] for line in lines]
    assert "left out" not in said


def test_two_labels_of_one_input_are_refused(door: Shell) -> None:
    torn = "input,version,predicted,label\ne,v1,NO,NO\ne,v2,NO,YES\n"
    file = door.file("torn.csv", torn)
    said = door("import", "door", file, status=1).stderr
    assert "row 2, label: the input 'e' occurs twice, with 'NO' and then" in said
    assert "nothing was written" in said
    found = json.loads(door("compare", "door", "--format", "json").stdout)
    assert found["paired"]["pairs"] == 4


def test_a_check_fails_unless_the_new_version_is_better(door: Shell) -> None:
    assert "undecided" in door("compare", "door", "--check", status=1).stdout
    head = "input,version,predicted,label\n"
    gained = [f"{n},v1,NO,YES\n{n},v2,YES,\n" for n in range(12)]
    door("import", "door", door.file("gained.csv", head + "".join(gained)))
    # All disagreements are won, and two inputs of NO tell too little about that class.
    said = door("compare", "door", "--check", status=1).stdout
    assert "v2 against v1: undecided" in said
    assert "better" not in said
    alike = [f"no{n},v1,NO,NO\nno{n},v2,NO,\n" for n in range(12)]
    door("import", "door", door.file("alike.csv", head + "".join(alike)))
    said = door("compare", "door", "--check").stdout
    assert said.startswith(
        "door, v2 against v1: better, by the inputs of both that were labelled at "
        "random\n"
    )


@pytest.mark.thorough
def test_as_json_it_is_what_the_api_answers(door: Shell) -> None:
    found = json.loads(door("compare", "door", "--format", "json").stdout)
    assert (found["old"], found["new"], found["paired"]["pairs"]) == ("v1", "v2", 4)
    back = json.loads(
        door(
            *("compare", "door", "--old", "v2", "--new", "v1", "--format", "json"),
            *("--confidence-level", "0.8"),
        ).stdout
    )
    assert (back["old"], back["new"], back["confidence_level"]) == ("v2", "v1", 0.8)
    assert back["paired"]["classes"][0]["lost"] == 1


def test_a_wrong_choice_fails_and_is_named(door: Shell) -> None:
    assert "old: 'v9'" in door("compare", "door", "--old", "v9", status=1).stderr
    same = door("compare", "door", "--old", "v1", "--new", "v1", status=1)
    assert "compared with itself" in same.stderr
    for level in ("0", "1", "nan", "2"):
        door("compare", "door", "--confidence-level", level, status=2)
    door("detectors", "create", "gate", "--question", "Is it?")
    assert "no version yet" in door("compare", "gate", status=1).stderr
    assert "there is no detector" in door("compare", "nobody", status=1).stderr


def test_inputs_come_back_in_the_export(door: Shell) -> None:
    text = door("export", "door", "--what", "labels").stdout
    rows = list(csv.DictReader(text.splitlines()))
    # One label for each query: the versions with one input share it.
    found = sorted((row["input"], row["version"], row["label"]) for row in rows)
    assert found == [
        (name, version, label)
        for name, label in zip("abcd", ("YES", "YES", "NO", "NO"), strict=True)
        for version in ("v1", "v2")
    ]
    assert {row["is_repeat"] for row in rows} == {"false"}
