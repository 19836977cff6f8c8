"""The command gate, and the status by which a build stops."""

import json

import pytest
from junitparser import Failure, JUnitXml

from tests.cli.test_commands import Shell, published_csv


@pytest.fixture
def shell(database_url: str, tmp_path, monkeypatch) -> Shell:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return Shell(database_url, tmp_path)


@pytest.fixture
def door(shell: Shell) -> Shell:
    """The published example: 23 of 28 and 41 of 44 are right."""
    words = ("--question", "Is the door closed?", "--label-sampling", "random")
    shell("detectors", "create", "door", *words)
    shell("import", "door", shell.file("labels.csv", published_csv()))
    return shell


def test_the_status_says_the_verdict(door: Shell) -> None:
    for target, verdict, status in (
        ("0.5", "met", 0),
        ("0.85", "undecided", 3),
        ("0.9999", "missed", 1),
    ):
        words = ("gate", "door", "--target", target, "--format", "json")
        found = json.loads(door(*words, status=status).stdout)
        assert found["verdict"] == verdict
        assert found["target"] == float(target)
        assert (found["detector"], found["method"]) == ("door", "anytime")
        assert found["labels"] == 72
        assert 0 < found["low"] < found["high"] < 1
    assert door("gate", "door", "--max-width", "0.9").stdout.startswith("door, version")


def test_what_cannot_be_measured_has_a_status_of_its_own(door: Shell) -> None:
    for words in (
        ["door"],
        ["nothing"],
        ["door", "--target", "0.9", "--version", "none"],
        ["door", "--target", "0.9", "--version", "*"],
        ["door", "--not-worse-than", "none"],
        ["door", "--target", "2"],
        ["door", "--target", "nan"],
        ["door", "--format", "xml"],
        [],
    ):
        found = door("gate", *words, status=2)
        assert found.stdout == ""
        assert "Error: " in found.stderr
    unwritable = door.folder / "no folder" / "summary.md"
    words = ["--target", "0.5", "--format", "github", "--summary", str(unwritable)]
    door("gate", "door", *words, status=2)


@pytest.mark.thorough
def test_no_database_cannot_be_measured(tmp_path) -> None:
    shell = Shell(f"sqlite:///{tmp_path / 'empty.db'}", tmp_path)
    shell("gate", "door", "--target", "0.9", status=2)
    shell.environ["TRACKER_DATABASE_URL"] = "postgresql+psycopg://x@127.0.0.1:1/x"
    shell("gate", "door", "--target", "0.9", status=2)


def test_a_step_summary_is_added_to(door: Shell) -> None:
    summary = door.folder / "summary.md"
    summary.write_text("before\n")
    door.environ["GITHUB_STEP_SUMMARY"] = str(summary)
    found = door("gate", "door", "--target", "0.9999", "--format", "github", status=1)

    assert found.stdout.startswith("::error title=door ")
    assert len(found.stdout.splitlines()) == 1
    assert summary.read_text().startswith("before\n### door, version ")
    assert "█" in summary.read_text()
    door("gate", "door", "--target", "0.5")
    assert summary.read_text().count("###") == 1


def test_junit_is_what_readers_of_it_take(door: Shell) -> None:
    words = ("gate", "door", "--target", "0.5", "--max-width", "0.01")
    file = door.folder / "accuracy.xml"
    file.write_text(door(*words, "--format", "junit", status=3).stdout)
    (suite,) = JUnitXml.fromfile(str(file))

    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (2, 1, 0, 0)
    target, width = suite
    assert target.is_passed
    assert width.is_failure
    (failure,) = width.result
    assert isinstance(failure, Failure)
    assert failure.type == "undecided"
    assert failure.message == failure.text
    assert "points wide" in failure.message
    assert target.classname == width.classname == "door default"
    # What it reads it writes again, with the same sums.
    suite.update_statistics()
    assert (suite.tests, suite.failures) == (2, 1)


def test_a_replay_decides_once_somebody_says_that_its_labels_were_unseen(
    shell: Shell,
) -> None:
    words = ("--question", "Right?", "--label-sampling", "random")
    shell("detectors", "create", "door", *words)
    rows = [(f"{truth}-{n}", truth) for n in range(60) for truth in ("YES", "NO")]
    old = "".join(f"{name},v1,{truth},{truth}\n" for name, truth in rows)
    shell(
        "import", "door", shell.file("old.csv", f"input,version,predicted,label\n{old}")
    )
    for version in ("v2", "v3"):
        new = "".join(f"{name},{version},{truth}\n" for name, truth in rows)
        file = shell.file(f"{version}.csv", f"input,version,predicted\n{new}")
        shell("import", "door", file, *(["--unseen"] if version == "v3" else []))
    ask = ("gate", "door", "--target", "0.7", "--version")
    assert "unseen" in shell(*ask, "v2", status=2).stderr
    assert "replayed" in shell(*ask, "v3", "--format", "json").stdout
    shell(*ask, "v2", "--unseen")
    shell(*ask, "v2")
    # The first version is shown, which the others only replay.
    assert json.loads(shell(*ask[:-1], "--format", "json").stdout)["version"] == "v1"


def test_labels_may_judge_answers(shell: Shell) -> None:
    words = ("--question", "Right?", "--classes", "pass,fail", "--label-of", "answer")
    shell("detectors", "create", "bot", *words)
    rows = "key,input,version,predicted,label\na,x,v1,pass,pass\nb,x,v2,pass,fail\n"
    shell("import", "bot", shell.file("rows.csv", rows))
