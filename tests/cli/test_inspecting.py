"""What a file is, said before there is a detector or a database."""

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tracker.cli import main

ROWS = "id,pred,label,sample_weight,time\n" + "".join(
    f"{n},{'YES' if n % 5 else 'no '},{'YES' if n % 3 else 'NO'},{n},2026-01-01 10:00\n"
    for n in range(30)
)


@pytest.fixture
def inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Inspect a file of that name."""
    monkeypatch.setenv("TRACKER_DATABASE_URL", f"sqlite:///{tmp_path}/none.db")

    def run(name: str, content: str, *options: str) -> Result:
        path = tmp_path / name
        path.write_text(content)
        done = CliRunner().invoke(main, ["inspect", str(path), *options])
        assert not (tmp_path / "none.db").exists()
        return done

    return run


def test_it_says_what_each_column_is_and_what_the_file_would_give(inspect) -> None:
    done = inspect("day 1.csv", ROWS)
    assert done.exit_code == 0, done.output
    for said in (
        "day 1.csv: csv, 30 rows",
        "column 'pred': predicted",
        "column 'sample_weight': metadata",
        "classes: NO, YES",
        "30 predictions, 30 with a label",
        "asked_at `a time without a zone` as one in UTC, 30 rows",
        "warning: the column 'sample_weight' looks like weights",
        "between 27.4 % and 77.7 %, method exact (for one look)",
        'detectors create day-1 --question "What is it?" --classes NO,YES',
    ):
        assert said in done.output
    assert "tracker import day-1 '" in done.output
    assert "would be refused" not in done.output


def lines(header: str, *cells: str) -> str:
    """Thirty rows, in which L is the label and P the prediction, # the number."""
    return header + "".join(
        ",".join(cells)
        .replace("#", str(n))
        .replace("P", "YES" if n % 5 else "NO")
        .replace("L", "YES" if n % 3 else "NO")
        + "\n"
        for n in range(30)
    )


@pytest.mark.parametrize(
    ("content", "mapped"),
    [
        (
            lines("part,inspector_says,ai_says\n", "#", "L", "P"),
            "--map label=inspector_says --map predicted=ai_says",
        ),
        (
            lines("part,model_result,operator_verdict\n", "#", "P", "L"),
            "--map label=operator_verdict",
        ),
        (
            lines("part,found,ground truth\n", "#", "P", "L"),
            "--map predicted=found",
        ),
    ],
)
def test_what_is_likely_is_proposed_and_said(inspect, content, mapped) -> None:
    said = inspect("a.csv", content).output
    assert said.endswith(f"a.csv {mapped}\n")
    assert "30 predictions, 30 with a label" in said
    assert "between 27.4 % and 77.7 %" in said
    assert "warning: " in said


@pytest.mark.parametrize(
    "header", ["part,first,second\n", "part,model_says,second,annotator_1\n"]
)
def test_what_is_not_likely_is_only_asked_for(inspect, header) -> None:
    cells = ("#", "P", "L", "L")[: header.count(",") + 1]
    said = inspect("a.csv", lines(header, *cells)).output
    assert "balanced" not in said
    assert "warning: " in said


def test_another_column_of_classes_beside_a_label_of_a_key_is_not_asked_for(
    inspect,
) -> None:
    said = inspect("a.csv", lines("key,label,other\n", "#", "L", "P")).output
    assert "warning: " not in said


def test_the_commands_that_it_prints_work(inspect, tmp_path) -> None:
    printed = inspect("rows.csv", ROWS).output.splitlines()[-2:]
    for line in printed:
        words = [word.strip("\"'") for word in line.split()[1:]]
        words = " ".join(words).replace("What is it?", "it").split()
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    assert "30 queries and 30 labels added" in done.output


def test_an_import_says_how_it_is_undone(inspect, tmp_path) -> None:
    lines = inspect("rows.csv", ROWS).output.splitlines()[-2:]
    create = shlex.split(lines[0])[1:]
    for words in (["db", "upgrade"], create, shlex.split(lines[1])[1:]):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    assert "tracker undo imp_1" in done.stderr
    undone = CliRunner().invoke(main, ["undo", "imp_1"])
    assert undone.exit_code == 0, undone.output
    assert "30 queries, 30 labels and 0 references taken back" in undone.output
    again = CliRunner().invoke(main, ["undo", "imp_1"])
    assert again.exit_code == 1
    assert "undone already" in again.output


def test_what_several_people_say_is_one_label(inspect) -> None:
    rows = "".join(
        f"k{n},YES,{label},{who}\n"
        for n in range(30)
        for who, label in (("a", "YES"), ("b", "YES"), ("c", "NO"))
    )
    done = inspect("x.csv", "key,predicted,label,labeler\n" + rows)
    assert "60 further rows of the same, counted once" in done.output


def test_what_would_be_refused_is_said_once_for_all_rows(inspect) -> None:
    answers = "pred,label\nI am not sure,NO\nI am not sure,YES\nYES,NO\n"
    done = inspect("x.csv", answers)
    assert "2 rows would be refused" in done.output
    assert "row 1 and 1 more, predicted: 'I am not sure'" in done.output
    assert "--skip-bad-rows" in done.output
    done = inspect("x.csv", answers, "--no-answer", "I am not sure")
    assert "would be refused" not in done.output
    assert "x.csv --no-answer 'I am not sure'\n" in done.output


def test_classes_that_the_file_does_not_tell_may_be_said(inspect) -> None:
    content = "filename,yes,no\na.png,0,1\nb.png,1,0\n"
    assert "--classes YES,NO" in inspect("x.csv", content).output
    done = inspect("x.csv", content, "--classes", "yes,no")
    assert "2 labels of inputs without a prediction" in done.output


def test_versions_and_groups_are_counted(inspect) -> None:
    rows = [
        {"id": n % 4, "epoch": n, "version": f"v{n % 2}", "pred": "a", "label": "b"}
        for n in range(8)
    ]
    done = inspect("x.jsonl", "\n".join(map(json.dumps, rows)))
    assert "versions: 'v0', 'v1'" in done.output
    assert "4 groups" in done.output
    assert "classes: a, b" in done.output


def test_what_cannot_be_read_is_an_error(inspect) -> None:
    done = inspect("x.json", "{")
    assert done.exit_code != 0


def test_verdicts_of_judges_are_counted(inspect) -> None:
    rows = "id,pred,judge:llm-3\n" + "".join(
        f"{n},YES,NO\n{n}b,NO,\n" for n in range(4)
    )
    done = inspect("rows.csv", rows)
    assert "column 'judge:llm-3': judge:llm-3" in done.output
    assert "4 verdicts of the judge 'llm-3'" in done.output
