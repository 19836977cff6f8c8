"""The command compare."""

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
d,v2,NO,YES
"""


@pytest.fixture
def door(shell: Shell) -> Shell:
    shell("detectors", "create", "door", "--question", "Is the door closed?")
    shell("import", "door", shell.file("pairs.csv", ROWS))
    return shell


@pytest.fixture
def shell(database_url: str, tmp_path) -> Shell:
    return Shell(database_url, tmp_path)


def test_two_versions_are_compared_in_a_table(door: Shell) -> None:
    said = door("compare", "door").stdout
    assert "door, v2 against v1, 0.95 intervals" in said
    assert "on the same inputs, method exact" in said
    lines = [[cell.strip() for cell in line.split("│")] for line in said.splitlines()]
    assert ["", "YES", "2", "1", "0", "+0.5000"] in [line[:6] for line in lines]
    assert "left out: 1 whose two labels disagree" in said
    assert said.endswith(
        "v2 against v1: undecided, by the paired interval of the balanced accuracy\n"
    )


def test_as_json_it_is_what_the_api_answers(door: Shell) -> None:
    found = json.loads(door("compare", "door", "--format", "json").stdout)
    assert (found["old"], found["new"], found["paired"]["pairs"]) == ("v1", "v2", 3)
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
    lines = door("export", "door", "--what", "labels").stdout.splitlines()
    assert lines[0].endswith(",is_current,input")
    assert [line.rpartition(",")[2] for line in lines[1:]] == list("abccdd")
