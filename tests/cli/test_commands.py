"""The commands, run as a user runs them, on both databases."""

import csv
import io
import json
import re
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from tests.conftest import WHOLE
from tests.databases import downgrade
from tests.services.conftest import PUBLISHED
from tracker.cli import main
from tracker.stats import balanced_anytime, class_intervals


class Shell:
    """Runs commands against one database."""

    def __init__(self, database_url: str, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "TRACKER_DATABASE_URL": database_url,
            "TRACKER_DATA_DIR": str(folder / "data"),
        }

    def __call__(
        self,
        *words: str,
        status: int = 0,
        typed: str = "",
        environ: dict[str, str] | None = None,
    ) -> Result:
        runner = CliRunner(env=self.environ | (environ or {}))
        result = runner.invoke(main, list(words), typed, catch_exceptions=False)

        assert result.exit_code == status, result.output
        return result

    def file(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    return Shell(database_url, tmp_path)


@pytest.fixture
def door(shell: Shell) -> Shell:
    shell("detectors", "create", "door", "--question", "Is the door closed?")
    return shell


def published_csv() -> str:
    lines = [
        f"q{predicted}{label}{number},{predicted},{label}"
        for predicted, label, count in PUBLISHED
        for number in range(count)
    ]
    return "\n".join(["key,predicted,label", *lines]) + "\n"


def test_the_history_of_another_measure_is_exported(door: Shell) -> None:
    door("import", "door", door.file("labels.csv", published_csv()))
    door("recompute", "--all")

    overall = door("export", "door", "--measure", "overall").stdout
    last = list(csv.DictReader(io.StringIO(overall)))[-1]

    assert overall.splitlines()[0].endswith(",method,measure,population")
    assert (last["scope"], last["measure"]) == ("overall", "overall")
    assert (last["correct"], last["labelled"]) == ("64", "72")
    low, high = class_intervals("exact", 64, 72, 0.95)
    assert (float(last["low"]), float(last["high"])) == (low, high)
    wrong = door("export", "door", "--measure", "kappa", status=2)
    assert "kappa" in wrong.stderr


def test_the_published_example_comes_back_from_the_exported_csv(door: Shell) -> None:
    door("import", "door", door.file("labels.csv", published_csv()))
    door("recompute", "--all")

    output = door("export", "door").stdout
    last = list(csv.DictReader(io.StringIO(output)))[-3:]

    assert output.splitlines()[0] == (
        "computed_at,detector,version,labels,scope,correct,labelled,accuracy,low,high,"
        "confidence_level,method,population"
    )
    assert {row["scope"]: (row["correct"], row["labelled"]) for row in last} == {
        "balanced": ("64", "72"),
        "YES": ("23", "28"),
        "NO": ("41", "44"),
    }
    bounds = {
        row["scope"]: (
            round(100 * float(row["low"]), 2),
            round(100 * float(row["high"]), 2),
        )
        for row in last
    }
    assert bounds == {
        "balanced": (69.96, 96.91),
        "YES": (63.11, 93.94),
        "NO": (81.34, 98.57),
    }


def test_an_imported_file_adds_nothing_the_second_time(door: Shell) -> None:
    file = door.file("labels.csv", published_csv())

    first = door("import", "door", file).stdout
    second = door("import", "door", file).stdout

    assert (
        first
        == "72 queries and 72 labels added, 0 rows unchanged, 0 bad rows skipped.\n"
    )
    assert (
        second
        == "0 queries and 0 labels added, 72 rows unchanged, 0 bad rows skipped.\n"
    )


def test_rows_without_a_key_are_known_again_by_their_file(door: Shell) -> None:
    file = door.file("labels.jsonl", '{"predicted":"YES","label":"NO"}\n' * 5)

    door("import", "door", file)
    second = door("import", "door", file).stdout

    assert second.startswith("0 queries and 0 labels added, 5 rows unchanged")


def test_one_bad_row_keeps_the_whole_file_out(door: Shell) -> None:
    file = door.file("labels.csv", published_csv() + "last,MAYBE,YES\n")

    result = door("import", "door", file, status=1)

    assert (
        "row 73, predicted: 'MAYBE' is not right: it must be one of YES, NO"
        in result.stderr
    )
    assert "nothing was written" in result.stderr
    assert door("export", "door", "--what", "labels").stdout.count("\n") == 1


def test_skipping_bad_rows_writes_the_others(door: Shell) -> None:
    file = door.file("labels.csv", published_csv() + "last,MAYBE,YES\n")

    result = door("import", "door", file, "--skip-bad-rows")

    assert result.stdout.startswith("72 queries and 72 labels added")
    assert "1 bad rows skipped" in result.stdout


def test_parquet_goes_in_and_out(door: Shell) -> None:
    path = door.folder / "labels.parquet"
    rows = [{"key": f"k{i}", "predicted": "YES", "label": "YES"} for i in range(20)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    door("import", "door", str(path))
    door("recompute")
    output = door.folder / "history.parquet"
    door("export", "door", "--format", "parquet", "--output", str(output))

    table = pq.read_table(output)
    exported = [
        json.loads(x)
        for x in door("export", "door", "--format", "jsonl").stdout.split("\n")
        if x
    ]

    assert table.to_pylist() == [
        {name: row[name] for name in table.column_names} for row in exported
    ]
    assert len(exported) == 60


def in_a_cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, list | dict) else value


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["history", "labels"])
def test_excel_holds_what_json_lines_hold(door: Shell, what: str) -> None:
    door("import", "door", door.file("labels.csv", published_csv()))
    door("recompute")
    output = door.folder / "out.xlsx"
    options = ["export", "door", "--what", what]
    door(*options, "--format", "xlsx", "--output", str(output))

    names, *lines = openpyxl.load_workbook(output).active.values
    exported = door(*options, "--format", "jsonl").stdout.splitlines()

    rows = [json.loads(line) for line in exported]
    assert [dict(zip(names, line, strict=True)) for line in lines] == [
        {name: in_a_cell(row[name]) for name in names} for row in rows
    ]


@pytest.mark.thorough
def test_json_and_json_lines_say_the_same_as_csv(door: Shell) -> None:
    door("import", "door", door.file("labels.csv", published_csv()))
    door("recompute")

    rows = list(csv.DictReader(io.StringIO(door("export", "door").stdout)))
    items = json.loads(door("export", "door", "--format", "json").stdout)["items"]
    lines = door("export", "door", "--format", "jsonl").stdout.splitlines()

    assert [json.loads(line) for line in lines] == items
    assert [float(row["low"]) for row in rows] == [item["low"] for item in items]


def test_a_text_that_a_spreadsheet_would_run_is_quoted_and_comes_back(
    shell: Shell,
) -> None:
    shell("detectors", "create", "=1+1", "--question", "Q?", "--classes", "=A,'-B")
    file = shell.file("labels.csv", "key,predicted,label\n=k,=A,'-B\n")
    shell("import", "=1+1", file, status=1)
    file = shell.file("labels.csv", "key,predicted,label\n'=k,=A,''-B\n")
    shell("import", "=1+1", file)

    [row] = csv.DictReader(
        io.StringIO(shell("export", "=1+1", "--what", "labels").stdout)
    )

    assert (row["key"], row["predicted"], row["label"]) == ("'=k", "'=A", "''-B")


def test_a_key_is_printed_alone_and_never_again(shell: Shell) -> None:
    result = shell("keys", "create", "ci", "--role", "editor")
    key = result.stdout.strip()

    assert result.stdout == f"{key}\n"
    assert len(key) >= 20
    assert key.replace("_", "").isalnum()
    assert key not in shell("keys", "list").output
    shell("keys", "create", "ci", "--role", "editor", status=1)
    # A script has nobody to ask.
    shell("keys", "revoke", "ci")
    assert "ci" in shell("keys", "list").output


def test_a_table_is_whole_where_it_goes_to_a_file(shell: Shell) -> None:
    name = "a-door-with-a-very-long-name-" + "x" * 100
    shell("detectors", "create", name, "--question", "Is it?")
    assert name in shell("detectors", "list").stdout


def test_the_list_names_population_unit_and_measure(
    shell: Shell, tmp_path: Path
) -> None:
    shell(
        "detectors", "create", "door", "--question", "Is it?", "--label-sampling=random"
    )
    rows = tmp_path / "rows.csv"
    rows.write_text("key,predicted,label\n" + "k,YES,YES\nl,NO,NO\nm,NO,YES\n")
    shell("import", "door", str(rows))
    said = shell("detectors", "list").stdout
    assert "3 live inputs" in said
    assert "balanced" in said
    # The interval that holds at every look, as pages show it.
    with_it = json.loads(shell("estimate", "door", "--format", "json").stdout)
    assert f"{with_it['balanced']['low']:.4f} to " in said


def test_the_table_has_the_bounds_where_every_query_gets_its_label(
    shell: Shell,
) -> None:
    said = ["--question=Is it?", "--label-sampling=all", "--target=0.9"]
    shell("detectors", "create", "door", *said)
    rows = [f"{one},YES,YES\n{one}n,NO,NO\n" for one in range(20)]
    rows += [f"later-{one},YES,\n" for one in range(10)]
    file = shell.file("rows.csv", "key,predicted,label\n" + "".join(rows))
    shell("import", "door", file)
    found = json.loads(shell("estimate", "door", "--format=json").stdout)
    decision = found["decision"]
    assert decision["low"] == found["balanced"]["low"]
    printed = shell("estimate", "door").stdout.splitlines()
    low, high = re.findall(r"[01]\.\d{6}", printed[-2])[-2:]
    table = {line.split()[1]: line for line in printed if line.startswith("│")}
    assert f"│ {low} │ {high} │" in table["balanced"]
    for one in found["classes"]:
        shown = float(table[one["class"]].split()[-4])
        assert shown == pytest.approx(one["low"], abs=1e-6)
    # The published method has its own: none of the ten later answers is wrong.
    once = json.loads(
        shell("estimate", "door", "--method=exact", "--format=json").stdout
    )
    for one, other in zip(found["classes"], once["classes"], strict=True):
        assert one["low"] < other["low"] - 0.1
    exact = shell("estimate", "door", "--method=exact").stdout
    assert f"│ {low} │" not in exact


def test_an_export_that_cannot_be_written_says_why(
    shell: Shell, tmp_path: Path
) -> None:
    shell("detectors", "create", "door", "--question", "Is it?")
    file = str(tmp_path / "none" / "door.csv")
    result = shell("export", "door", "--output", file, status=1)
    assert result.stderr.strip() == f"Error: {file}: No such file or directory"


def test_wrong_words_fail_and_say_what_would_be_right(shell: Shell) -> None:
    assert (
        "balanced"
        in shell(
            "detectors",
            "create",
            "d",
            "--question",
            "Q?",
            "--classes",
            "YES,Balanced",
            status=1,
        ).stderr
    )
    assert "there is no detector 'nobody'" in shell("export", "nobody", status=1).stderr
    wrong = shell("detectors", "create", "x", "--question", "", status=1).stderr
    assert wrong.startswith("Error: question: ")
    assert "role" in shell("keys", "create", "k", "--role", "boss", status=2).stderr
    shell.environ["TRACKER_SECRET"] = "x"
    assert (
        "TRACKER_SECRET is not a setting" in shell("detectors", "list", status=1).stderr
    )


@pytest.mark.slow
def test_beyond_loopback_serving_is_refused_with_the_reason(shell: Shell) -> None:
    for command in ("serve", "web"):
        without_key = shell(command, "--host", "0.0.0.0", status=1)
        assert "TRACKER_SECRET_KEY must be set" in without_key.stderr
    shell.environ["TRACKER_SECRET_KEY"] = "9f86d081884c7d659a2feaa0c55ad015"
    for command in ("serve", "web"):
        without_account = shell(command, "--host", "0.0.0.0", status=1)
        assert "tracker accounts create NAME" in without_account.stderr


def test_an_empty_database_is_refused(shell: Shell) -> None:
    from tracker.storage.database import open_database

    database = open_database(shell.environ["TRACKER_DATABASE_URL"])
    downgrade(database, "base")
    database.close()

    assert "tracker db upgrade" in shell("detectors", "list", status=1).stderr
    assert "from revision nothing to 0001" in shell("db", "upgrade").stdout
    shell("detectors", "list")


def test_a_count_that_differs_from_a_recount_fails_the_command(door: Shell) -> None:
    from tracker.storage.database import open_database
    from tracker.storage.estimates.projections import CELLS, Projection

    door("import", "door", door.file("labels.csv", published_csv()))
    assert "no difference" in door("recompute", "--all").stdout
    database = open_database(door.environ["TRACKER_DATABASE_URL"])
    with database.write() as session:
        [row] = session.query(Projection).where(Projection.name == CELLS)
        cells = row.state["cells"]["unstated"]
        row.state = {**row.state, "cells": {"unstated": {**cells, "NO": {"NO": 42}}}}
    database.close()

    assert "recounted 41" in door("recompute", "--all", status=1).stderr


def test_the_estimate_is_printed_and_the_same_as_json(door: Shell) -> None:
    door("import", "door", door.file("p.csv", published_csv()))

    exact = ("estimate", "door", "--method", "exact")
    table = door(*exact).output
    said = json.loads(door(*exact, "--format", "json").output)
    # Without a method it is the interval that decides.
    wider = json.loads(door("estimate", "door", "--format", "json").output)

    for number in ("0.631", "0.939", "0.813", "0.985", "0.699", "0.969", "64", "72"):
        assert number in table
    assert [round(said["balanced"][key], 4) for key in ("low", "high")] == [
        0.6996,
        0.9691,
    ]
    assert wider["balanced"]["low"] < said["balanced"]["low"]
    door("estimate", "door", "--confidence-level", "nan", status=2)
    door("estimate", "door", "--method", "wald", status=2)
    assert "no detector" in door("estimate", "gate", status=1).output.lower()


def test_queries_without_an_answer_are_said_beside_the_estimate(door: Shell) -> None:
    rows = "key,predicted,label\na,YES,YES\nb,NO,NO\n"
    door("import", "door", door.file("answered.csv", rows))
    assert "no answer" not in door("estimate", "door").stdout
    door("import", "door", door.file("refused.csv", rows + "c,,YES\n"))
    assert "no answer: 1 of 3, counted as wrong\n" in door("estimate", "door").stdout


def test_brackets_in_a_name_are_printed_as_they_are(shell: Shell) -> None:
    name = "[red] [bold]door :smile:"
    shell("detectors", "create", name, "--question", "Closed?", "--classes", "[b],[/b]")

    assert ":smile:" in shell("detectors", "list").output
    assert "[/b]" in shell("estimate", name).output


def test_a_slash_in_a_name_is_refused(shell: Shell) -> None:
    made = shell("detectors", "create", "door/slices", "--question", "?", status=1)
    assert "a name must not contain a slash (/)" in made.stderr


def test_a_queue_rate_is_a_share(shell: Shell) -> None:
    named = ("detectors", "create", "gate", "--question", "?", "--queue-rate")
    assert "queue_rate" in shell(*named, "1.5", status=1).stderr
    assert shell(*named, "0.25").stdout.startswith("det_")


def test_a_class_is_added_by_command_and_an_unclear_one_is_not(door: Shell) -> None:
    door("import", "door", door.file("labels.csv", published_csv()))
    door("recompute")
    door("detectors", "change", "door", "--add-class", "MAYBE", "--add-class", "AJAR")
    late = door.file("late.csv", "key,predicted,label\nlate,YES,MAYBE\n")
    door("import", "door", late)
    door("recompute", "--all")
    rows = list(csv.DictReader(io.StringIO(door("export", "door").stdout)))
    assert [row["scope"] for row in rows[-5:]] == [
        "balanced",
        "YES",
        "NO",
        "MAYBE",
        "AJAR",
    ]
    assert (rows[-5]["labelled"], rows[-5]["accuracy"]) == ("73", "")
    for wrong in ("YES", "unclear", "balanced"):
        refused = door("detectors", "change", "door", "--add-class", wrong, status=1)
        assert "classes" in refused.output


def test_how_frequent_the_classes_are_is_said_by_class(shell: Shell) -> None:
    stated = ("--class-share", "OK=97", "--class-share", "CRACK=3")
    shell(
        "detectors", "create", "d", "--question", "?", "--classes", "OK,CRACK", *stated
    )
    labels = "OK,OK,random\nCRACK,CRACK,random\n" * 30
    rows = shell.file("rows.csv", "predicted,label,sampling\n" + labels)
    shell("import", "d", rows)
    shell("recompute", "--all")
    low, _ = balanced_anytime([30, 30], [30, 30], WHOLE, shares=[97, 3])
    said = shell("estimate", "d", "--method", "anytime").stdout
    assert f"{low:.5f}"[:-1] in said
    wrong = shell("detectors", "change", "d", "--class-share", "CRACK=often", status=2)
    assert "is not CLASS=SHARE" in wrong.stderr
    shell("detectors", "change", "d", "--class-share", "")
    one = shell("detectors", "change", "d", "--class-share", "CRACK=3", status=1)
    assert "'OK' must have a share too" in one.stderr


def test_the_accuracy_to_be_told_below_is_stated(shell: Shell) -> None:
    make = ("detectors", "create", "d", "--question", "?", "--label-sampling", "all")
    shell(*make, "--reference", "0.95")
    shell("import", "d", shell.file("r.csv", "predicted,label\n" + "YES,NO\n" * 99))
    said = shell("estimate", "d").stdout
    assert "The mean of the classes is below the stated 95 % on average" in said
    wrong = shell("detectors", "change", "d", "--reference", "95 %", status=2)
    assert "is not a number between 0 and 1" in wrong.stderr
    shell("detectors", "change", "d", "--reference", "")
    assert "below the stated" not in shell("estimate", "d").stdout


def test_an_input_of_several_versions_counts_once_where_they_are_pooled(
    shell: Shell,
) -> None:
    shell("detectors", "create", "door", "--question", "Is it?")
    lines = ["key,predicted,label,sampling,input,version"]
    lines += [
        f"{version}-{n},YES,YES,random,{n},{version}"
        for n in range(3)
        for version in ("v1", "v2")
    ]
    shell("import", "door", shell.file("rows.csv", "\n".join(lines)))
    said = shell("estimate", "door", "--version", "*").stdout
    assert "version *: 3 labels" in said
    assert "3 labels of other versions left out" in said


def test_a_detector_says_what_names_its_groups(shell: Shell) -> None:
    make = ("detectors", "create", "door", "--question", "Is it?")
    shell(*make, "--group-by", "metadata.session")
    lines = ["key,predicted,label,metadata"]
    lines += [f'k{n},YES,YES,"{{""session"": ""s{n % 2}""}}"' for n in range(6)]
    shell("import", "door", shell.file("rows.csv", "\n".join(lines)))
    found = json.loads(shell("estimate", "door", "--format", "json").stdout)
    assert found["grouped_left_out"] == 4
    shell("detectors", "change", "door", "--group-by", "")
    shell("recompute", "--all")
    found = json.loads(shell("estimate", "door", "--format", "json").stdout)
    assert found["grouped_left_out"] == 0


def test_weeks_are_printed_and_exported(door: Shell) -> None:
    lines = [f"{n},YES,YES,2026-01-{20 + n % 2 * 7}T10:00:00Z" for n in range(6)]
    content = "\n".join(["key,predicted,label,asked_at", *lines]) + "\n"
    door("import", "door", door.file("labels.csv", content))

    table = door("weeks", "door", "--measure", "overall").stdout
    found = json.loads(door("weeks", "door", "--format", "json").stdout)
    rows = list(
        csv.DictReader(io.StringIO(door("weeks", "door", "--format", "csv").stdout))
    )

    assert "version default, overall by week, UTC" in table
    assert "2026-01-26" in table
    assert "labelled ones" in table
    assert found["measure"] == "balanced"
    assert [row["from"] for row in rows] == [one["from"] for one in found["items"]]
    assert [row["labels"] for row in rows] == ["3", "3"]
    assert "one version" in door("weeks", "door", "--version", "*", status=1).stderr
