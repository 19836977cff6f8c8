"""The command: what it prints, and the status by which a build stops."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from tracker_client import gate, reports
from tracker_client.cli import main
from tracker_client.estimates import Estimate
from tracker_client.server import path_of

from client.tests.service import Service


@pytest.fixture
def run(service: Service, monkeypatch, capsys):
    monkeypatch.setenv("TRACKER_URL", service.url)
    monkeypatch.setenv("TRACKER_KEY", service.key)

    def call(*words: str) -> tuple[int, str, str]:
        status = main(words)
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


@pytest.fixture(scope="module")
def detector(service: Service, tmp_path_factory) -> str:
    """196 of 200 right by v1 in each class, 120 of 200 by v2, on the same inputs."""
    name = service.new_name()
    body = {"name": name, "question": "?", "classes": ["YES", "NO"], "target": 0.9}
    body |= {"label_sampling": "random"}
    service.server.ask(
        "POST",
        "/detectors",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    other = {"YES": "NO", "NO": "YES"}
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with file.open("w") as lines:
        for version, right in (("v1", 196), ("v2", 120)):
            for truth in ("YES", "NO"):
                for number in range(200):
                    row = {
                        "key": f"{version}-{truth}-{number}",
                        "input": f"{truth}-{number}",
                        "predicted": truth if number < right else other[truth],
                        "label": truth,
                        "version": version,
                    }
                    lines.write(json.dumps(row) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRACKER_URL", service.url)
        patch.setenv("TRACKER_KEY", service.key)
        assert main(["import", name, str(file)]) == 0
    return name


def test_the_server_and_its_key_stand_on_either_side_of_the_command(
    run, detector, service, monkeypatch
) -> None:
    monkeypatch.delenv("TRACKER_URL")
    monkeypatch.delenv("TRACKER_KEY")
    named = ["--url", service.url, "--key", service.key]
    words = ["gate", detector, "--format", "json"]
    for given in ([*named, *words], [*words, *named], [*named[:2], *words, *named[2:]]):
        status, said, _ = run(*given)
        assert (status, json.loads(said)["verdict"]) == (0, "met")
    assert run(*words)[0] == 2


@pytest.mark.parametrize(
    ("words", "verdict", "status"),
    [
        ([], "met", 0),
        (["--target", "0.99"], "undecided", 3),
        (["--target", "0.9999"], "missed", 1),
        (["--version", "v2"], "missed", 1),
        (["--version", "v2", "--target", "0.45"], "met", 0),
        (["--max-width", "0.5"], "met", 0),
        (["--max-width", "0.001"], "undecided", 3),
        (["--target", "0.9999", "--max-width", "0.001"], "missed", 1),
    ],
)
def test_the_status_says_the_verdict(run, detector, words, verdict, status) -> None:
    found, said, _ = run("gate", detector, *words, "--format", "json")
    result = json.loads(said)

    assert (result["verdict"], found) == (verdict, status)
    assert {"detector", "version", "target", "low", "high"} <= set(result)
    assert result["detector"] == detector
    assert (result["measure"], result["population"]) == ("balanced", "live")
    assert result["method"] == "anytime"
    assert result["labels"] == 400


def test_the_detector_is_named_however_it_was_asked_for(run, detector, service) -> None:
    identifier = service.server.get(path_of(detector)).json["id"]

    by_id, by_name = (
        run("gate", asked, "--format", "json") for asked in (identifier, detector)
    )
    assert by_id == by_name
    assert json.loads(by_id[1])["detector"] == detector


def test_the_bounds_are_those_that_hold_at_every_look(run, detector, service) -> None:
    path = f"{path_of(detector)}/estimate"
    balanced = service.server.get(path, method="anytime").json["balanced"]
    result = json.loads(run("gate", detector, "--format", "json")[1])

    assert (result["low"], result["high"]) == (balanced["low"], balanced["high"])


def test_an_estimate_says_since_which_day_its_verdict_is(detector, service) -> None:
    found = service.server.get(f"{path_of(detector)}/estimate").json
    assert ", since" not in str(Estimate(found, detector, service.server))
    warned = {**found, "warnings": [{"message": "Mistakes come in bursts"}]}
    said = str(Estimate(warned, detector, service.server))
    assert "warning: Mistakes come in bursts\n" in said
    found["decision"]["span"]["since"] = "2026-11-09"
    said = str(Estimate(found, detector, service.server))
    assert said.endswith("] at every look, since 9 Nov 2026")


@pytest.mark.parametrize(
    "words",
    [
        ["nothing of this name"],
        ["{}", "--version", "none"],
        ["{}", "--version", "*"],
        ["{}", "--not-worse-than", "none"],
    ],
)
def test_what_cannot_be_measured_has_a_status_of_its_own(run, detector, words) -> None:
    status, said, error = run("gate", *(word.format(detector) for word in words))

    assert status == 2
    assert said == ""
    assert error.startswith("tracker-client: ")


@pytest.mark.parametrize("words", [["--target", "0.5"], ["--max-width", "0.9"]])
def test_labels_that_do_not_say_how_they_came_have_no_verdict(
    run, service, tmp_path, words
) -> None:
    name = service.new_name()
    body = {"name": name, "question": "?"}
    service.server.ask(
        "POST",
        "/detectors",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    file = tmp_path / "rows.csv"
    rows = [
        f"{truth}{n},{truth},{truth}\n" for truth in ("YES", "NO") for n in range(9)
    ]
    file.write_text("key,predicted,label\n" + "".join(rows))
    assert run("import", name, str(file))[0] == 0

    status, said, error = run("gate", name, *words)

    assert (status, said) == (2, "")
    assert "no verdict: 18 labels do not say how they were chosen" in error


def test_no_server_cannot_be_measured(run, monkeypatch) -> None:
    monkeypatch.setenv("TRACKER_URL", "http://127.0.0.1:9")
    assert run("gate", "door")[0] == 2


@pytest.mark.parametrize("words", [[], ["gate"], ["gate", "d", "--target", "2"]])
def test_wrong_usage_has_the_status_of_what_cannot_be_measured(words) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)


HOSTILE = gate.Result(
    basis="3 labels | <b>\x00",
    confidence_level=0.95,
    detector="a<b>&\"'\x00\n::error::100 %, x",
    version="v|1",
    verdict="missed",
    target=0.9,
    measure="balanced",
    population="live",
    method="anytime",
    low=0.1,
    high=0.2,
    labels=3,
    checks=(
        gate.Check("target", "missed", "50 %\n::warning::<&>"),
        gate.Check("max-width", "met", "\x1b fine"),
        gate.Check("not-worse-than", "undecided", "|"),
    ),
)


def test_junit_is_well_formed_and_fails_what_is_not_met() -> None:
    suite = ET.fromstring(reports.junit(HOSTILE))[0]
    cases = list(suite)

    assert (suite.get("tests"), suite.get("failures")) == ("3", "2")
    assert [case.find("failure") is None for case in cases] == [False, True, False]
    failure = cases[0].find("failure")
    assert failure is not None
    assert "<&>" in failure.get("message", "")
    assert "<&>" in (failure.text or "")
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 3


def test_no_text_of_others_begins_a_workflow_command(tmp_path, monkeypatch) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = reports.github(HOSTILE).splitlines()

    assert [line.split(" ")[0] for line in lines] == [
        "::error",
        "::notice",
        "::warning",
    ]
    assert "100 %25%2C x" in lines[0]
    assert "50 %25%0A%3A" not in lines[0]
    assert "\\|" in summary.read_text()
    assert "<b>" not in summary.read_text()


@pytest.mark.slow
def test_import_reports_every_bad_row(run, service, tmp_path) -> None:
    detector = service.new_name()
    service.run("detectors", "create", detector, "--question", "?")
    file = tmp_path / "rows.csv"
    file.write_text("key,predicted\na,YES\nb,MAYBE\n")
    status, said, errors = run("import", detector, str(file))
    assert (status, said) == (1, "")
    assert errors.startswith("row 2, predicted: 'MAYBE' is not right")

    status, said, errors = run("import", detector, str(file), "--skip-bad-rows")
    assert (status, said.splitlines()) == (
        1,
        ["1 queries and 0 labels added, 0 rows unchanged"],
    )


def test_inspect_says_what_a_file_is_before_there_is_a_detector(run, tmp_path) -> None:
    file = tmp_path / "rows.odd"
    file.write_text("id,guess,truth,judge:llm,h\na,YES,YES,NO,1\nb,NO,YES,,2\n")
    status, said, errors = run("inspect", str(file), "--set", "version=v1")
    assert (status, errors) == (0, "")
    assert said.startswith(f"{file}: csv, 2 rows\n")
    assert "column 'id': input" in said
    assert "column 'h': metadata" in said
    assert "1 verdicts of the judge 'llm'" in said
    file.write_text("id,guess\na,YES\nb,NO\n,\n")
    status, said, _ = run("inspect", str(file), "--map", "predicted=guess")
    assert status == 1
    assert "row 3, predicted: is required" in said


@pytest.mark.thorough
def test_export_gives_the_very_file(run, detector, service, tmp_path) -> None:
    service.server.ask("POST", f"{path_of(detector)}/recompute")
    file = tmp_path / "history.csv"
    assert run("export", detector, "--output", str(file))[0] == 0
    said = run("export", detector, "--format", "jsonl")[1]

    assert file.read_text().startswith("computed_at,detector,version,labels,scope")
    assert {"scope", "low"} <= set(json.loads(said.splitlines()[0]))


@pytest.mark.thorough
def test_estimate_and_compare_print_what_the_server_says(run, detector) -> None:
    assert "YES       196/200  98.0 %" in run("estimate", detector)[1]
    assert json.loads(run("estimate", detector, "--format", "json")[1])["labels"] == 400
    assert run("compare", detector, "--old", "v2", "--new", "v1")[1].endswith(
        "v1 against v2: better\n"
    )


def test_the_command_loads_nothing_heavy() -> None:
    code = "import sys, tracker_client.cli; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {
        "asyncio",
        "numpy",
        "pandas",
        "matplotlib",
        "requests",
        "tracker",
    }


@pytest.mark.slow
def test_a_file_is_read_as_the_options_say(run, service, tmp_path) -> None:
    name = service.new_name()
    service.run("detectors", "create", name, "--question", "?")
    file = tmp_path / "rows.csv"
    file.write_text(
        "id;Antwort;p;wann;truth;site\n"
        "a;zu;0,97;31.01.2026 13:45;YES;north\n"
        "b;auf;0,61;31.01.2026 13:46;yes ;north\n"
    )
    words = ["import", name, str(file), "--map", "predicted=Antwort"]
    words += ["--map", "confidence=p", "--map", "asked_at=wann"]
    words += ["--class", "zu=YES", "--class", "auf=NO", "--labeler", "alice"]
    words += ["--time-format", "%d.%m.%Y %H:%M", "--time-zone", "Europe/Berlin"]
    status, said, errors = run(*words, "--extra", "refuse")
    assert (status, said) == (1, "")
    assert "site: is not a known column" in errors
    status, said, errors = run(*words)
    assert (status, said) == (0, "2 queries and 2 labels added, 0 rows unchanged\n")
    assert "read: the column 'Antwort' as predicted" in errors
    assert "read: label `yes ` as YES, 1 row" in errors
    found = service.queries(name)["b"]
    wanted = ("predicted", "confidence", "asked_at", "label", "metadata")
    assert [found[field] for field in wanted] == [
        *("NO", 0.61, "2026-01-31T12:46:00Z", "YES"),
        {"site": "north"},
    ]
    given = service.server.get(f"/queries/{found['id']}/labels").json["items"]
    assert [one["labeler"] for one in given] == ["alice"]


@pytest.mark.slow
def test_mistakes_are_said_once(run, service, tmp_path) -> None:
    name = service.new_name()
    service.run("detectors", "create", name, "--question", "?")
    file = tmp_path / "rows"
    file.write_text("predicted\nMAYBE\nYES\nMAYBE\n")
    status, _, errors = run("import", name, str(file), "--type", "csv")
    assert status == 1
    assert errors.startswith("row 1 and 1 more, predicted: 'MAYBE' is not right")
    assert errors.endswith("nothing was written\n")
