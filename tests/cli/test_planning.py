"""The commands interval, coverage and plan."""

import json

import pytest
from click.testing import CliRunner

from tests.cli.test_commands import Shell, published_csv
from tracker.cli import main
from tracker.stats import labels_to_certify, labels_to_reach_balanced_width


@pytest.fixture
def shell(database_url, tmp_path):
    return Shell(database_url, tmp_path)


def run(*words, status=0):
    """Run a command that needs no database, where there is none."""
    environ = {"TRACKER_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing"}
    result = CliRunner(env=environ).invoke(main, list(words), catch_exceptions=False)
    assert result.exit_code == status, result.output
    return result


def test_the_published_check_stands_in_the_table():
    shown = run("interval", "23/28", "41/44").stdout
    assert "method exact, guaranteed" in shown
    rows = [line.split("│")[1:-1] for line in shown.splitlines() if "│" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["class 1", "23", "28", "0.821429", "0.631066", "0.939358"],
        ["class 2", "41", "44", "0.931818", "0.813437", "0.985713"],
        ["balanced", "", "", "0.876623", "0.699624", "0.969107"],
    ]


def test_intervals_as_json_keep_every_bit():
    words = ["interval", "80/100", "--format", "json"]
    both = json.loads(run(*words).stdout)
    upper = json.loads(run(*words, "--side", "upper").stdout)
    known = json.loads(run(*words, "--set-size", "100").stdout)
    assert both["balanced"] is None
    assert upper["classes"][0]["high"] == pytest.approx(0.86333867484)
    assert upper["classes"][0]["low"] == 0
    assert known["classes"][0]["low"] == known["classes"][0]["high"] == 0.8
    approximate = json.loads(run(*words, "--method", "wilson").stdout)
    assert (both["is_guaranteed"], approximate["is_guaranteed"]) == (True, False)


def test_a_class_without_labels_is_not_known():
    assert "not known" in run("interval", "0/0").stdout


def test_coverage_is_that_of_the_known_example():
    words = ["coverage", "--labelled", "50", "--accuracy", "0.99"]
    assert "0.394848" in run(*words, "--method", "normal").stdout
    found = json.loads(run(*words, "--format", "json").stdout)
    assert found["holds"] == pytest.approx(0.986, abs=6e-4)
    words += ["--labelled", "44", "--accuracy", "0.9", "--format", "json"]
    assert json.loads(run(*words).stdout)["labelled"] == [50, 44]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        ("interval 5/4", 1, "correct: 5 is not right"),
        ("interval 23", 2, "'23' is not like 23/28"),
        ("interval -1/4", 2, "No such option"),
        ("interval 1/4 nan/4", 2, "'nan/4' is not like 23/28"),
        ("interval 1/9999999999", 1, "1,000,000,000"),
        ("interval", 2, "Missing argument"),
        ("interval 1/2 --confidence-level nan", 2, "nan is not a number"),
        ("interval 1/2 --confidence-level 1", 2, "0<x<1"),
        ("interval 1/2 --confidence-level 1e999", 2, "0<x<1"),
        ("interval 1/2 --side lower --confidence-level 0.4", 1, "0.5 and 1"),
        ("interval 1/2 --method wald", 2, "'wald' is not one of"),
        ("interval 1/2 --set-size 1", 1, "set_size: 1 is not right"),
        ("interval 1/2 1/2 --set-size 9", 1, "it needs a single class"),
        ("coverage --labelled 5", 2, "--accuracy"),
        ("coverage --labelled 5 --accuracy nan", 2, "nan is not a number"),
        ("coverage --labelled 5 --accuracy 1.1", 2, "0<=x<=1"),
        ("coverage --labelled -5 --accuracy 0.9", 2, "--labelled"),
        ("coverage --labelled 5 --labelled 6 --accuracy 0.9", 1, "as many numbers"),
        ("coverage --labelled 10000000 --accuracy 0.9", 1, "1,000,000 outcomes"),
    ],
)
def test_what_is_wrong_is_said(words, status, reason):
    assert reason in run(*words.split(), status=status).stderr


@pytest.fixture
def door(shell):
    """The detector of the published check."""
    shell("detectors", "create", "door", "--question", "Is it?", "--target", "0.9")
    shell("import", "door", shell.file("labels.csv", published_csv()))
    return shell


def test_a_plan_says_how_many_labels_and_of_which_class(door):
    total = sum(labels_to_reach_balanced_width([23, 41], [28, 44], 0.1, 0.95))
    certify = labels_to_certify(0.9, 41 / 44, 0.8, 0.95, k=41, n=44)
    shown = door("plan", "door").stdout
    assert f"{total:,} more labels in all" in shown
    assert "Next: YES; a label of it narrows" in shown
    rows = [line.split("│")[1:-1] for line in shown.splitlines() if "│" in line]
    assert [row[-1].strip() for row in rows] == ["unreachable", str(certify)]
    wide = json.loads(door("plan", "door", "--width", "0.5", "--format", "json").stdout)
    assert wide["for_balanced_width"] == 0
    assert "already at most 0.5 wide" in door("plan", "door", "--width", "0.5").stdout
    assert wide["next"]["class"] == "YES"


def test_a_plan_supposes_what_it_is_told(door):
    words = ["--target", "0.5", "--accuracy", "0.9", "--power", "0.9", "--more", "50"]
    words += ["--version", "*", "--confidence-level", "0.99"]
    plan = json.loads(door("plan", "door", *words, "--format", "json").stdout)
    assert [plan[key] for key in ("target", "accuracy", "power", "more")] == [
        0.5,
        0.9,
        0.9,
        50,
    ]
    assert (plan["version"], plan["confidence_level"]) == ("*", 0.99)
    assert all(row["chance_to_certify"] > 0.99 for row in plan["classes"])
    header = door("plan", "door", *words).stdout.split("┡")[0]
    for said in ("chance", "more to", "certify"):
        assert said in header


def test_a_plan_without_labels_names_the_first_class(shell):
    shell("detectors", "create", "new", "--question", "Is it?")
    shown = shell("plan", "new").stdout
    assert "Next: YES; it has no label yet." in shown
    assert "certify" not in shown


def test_a_plan_refuses_what_it_cannot_do(door):
    assert "no detector 'nobody'" in door("plan", "nobody", status=1).stderr
    assert "0<x<1" in door("plan", "door", "--width", "0", status=2).stderr
    assert "not a number" in door("plan", "door", "--target", "nan", status=2).stderr
    assert "v9" in door("plan", "door", "--version", "v9", status=1).stderr
    assert "--more" in door("plan", "door", "--more", "-1", status=2).stderr
