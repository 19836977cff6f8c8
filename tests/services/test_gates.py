"""The gate of the server and the gate of the client say the same, in the same words."""

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from tracker_client import gate as client_gate
from tracker_client import reports as client_reports

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.cli import deciding
from tracker.errors import ConflictError, TrackerError
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.estimates.replays import list_replay
from tracker.services.fields import parse_input
from tracker.stats import family_level
from tracker.storage.detectors import list_versions


class Asked:
    """The API of an application, asked as the client asks a server."""

    def __init__(self, client: FlaskClient, key: str) -> None:
        self._client = client
        self._headers = {"Authorization": f"Bearer {key}"}

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self._client.post(f"/api/v1{path}", json=body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        return answer


@pytest.fixture
def two_versions(bench: Bench) -> Bench:
    """v1 is right about 2 of 10 inputs of each class, v2 about all of them."""
    for version, right in (("v1", 2), ("v2", 10)):
        bench.log_all(
            {
                "version": version,
                "input": f"{label}{number}",
                "predicted": label if number < right else other,
                "label": label,
            }
            for number in range(10)
            for label, other in (("YES", "NO"), ("NO", "YES"))
        )
    with bench.database.write() as session:
        bench.attached(session).production_version = "v2"
    return bench


def ask(bench: Bench, role: str = "editor", **choices: Any) -> Gate:
    with bench.database.write() as session:
        choice = parse_input(GateChoice, choices)
        asker = by("carol", bench.clock(), role=role)
        return ask_gate(session, bench.attached(session), choice, asker)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("choices", "verdict"),
    [
        ({"target": 0.5}, "met"),
        ({"target": 0.95}, "undecided"),
        ({"target": 0.9, "version": "v1"}, "missed"),
        ({"max_width": 0.9}, "met"),
        ({"max_width": 0.01}, "undecided"),
        ({"not_worse_than": "v1"}, "met"),
        ({"version": "v1", "not_worse_than": "v2"}, "missed"),
        ({"target": 0.9, "version": "v1", "max_width": 0.01}, "missed"),
        ({"target": 0.5, "max_width": 0.01}, "undecided"),
        ({"target": 0.5, "family": True}, "met"),
    ],
)
def test_the_client_says_the_same_in_the_same_words(
    two_versions: Bench,
    app: Flask,
    keys: dict[str, str],
    choices: dict[str, Any],
    verdict: str,
) -> None:
    server: Any = Asked(app.test_client(), keys["viewer"])
    mine = ask(two_versions, **choices)

    assert mine.verdict == verdict
    assert client_gate.measure(server, "door", **choices).dump() == {
        **mine.dump(),
        "checks": tuple(one.dump() for one in mine.checks),
    }
    version = choices.get("version")
    level = mine.confidence_level
    balanced = two_versions.estimate(
        version=version, method="anytime", confidence_level=level
    ).balanced
    assert (mine.low, mine.high) == (balanced.low, balanced.high)


@pytest.mark.parametrize(
    ("measure", "labels"),
    [("balanced", 21), ("overall", 21), ("recall:NO", 10), ("precision:NO", 11)],
)
def test_labels_are_those_that_the_interval_counts(
    two_versions: Bench, measure: str, labels: int
) -> None:
    two_versions.log("NO", "YES", version="v2", input="more")
    with two_versions.database.write() as session:
        two_versions.attached(session).measure = measure
    for choices in ({"target": 0.5}, {"max_width": 0.9}):
        assert ask(two_versions, **choices).labels == labels
    with two_versions.database.write() as session:
        two_versions.attached(session).target = 0.5
    decision = two_versions.estimate(version="v2").decision
    assert decision is not None
    assert decision.labels == labels


def test_versions_without_a_common_input_are_undecided(bench: Bench) -> None:
    for version in ("v1", "v2"):
        bench.log("YES", "YES", version=version)
    found = ask(bench, not_worse_than="v1")

    assert found.verdict == "undecided"
    assert found.checks[0].message == "v2 and v1 have no labelled input in common"


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"version": "*", "target": 0.5},
        {"version": "none", "target": 0.5},
        {"not_worse_than": "none"},
        {"not_worse_than": "v2"},
    ],
)
def test_what_cannot_be_measured_is_an_error(
    two_versions: Bench, choices: dict[str, Any]
) -> None:
    with pytest.raises(TrackerError):
        ask(two_versions, **choices)


def test_without_a_label_nothing_is_decided(bench: Bench) -> None:
    found = ask(bench, target=0.9, max_width=0.5)

    assert (found.version, found.labels, found.verdict) == (None, 0, "undecided")
    assert (found.low, found.high) == (0, 1)


HOSTILE = "a<b>&\"'\x00\n::error::100 %, [x](y) | `z` \x1b\ufffe\U0001f600"


@pytest.mark.parametrize("target", [None, 0.001, 0.5, 0.999])
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (0.7, 0.9), (0.999, 1.0), (0.0, 0.001), (0.3, 0.4)]
)
@pytest.mark.parametrize("text", ["door", HOSTILE])
def test_both_report_it_in_the_same_text(
    tmp_path, monkeypatch, text: str, low: float, high: float, target: float | None
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    checks = [
        {"name": text, "verdict": verdict, "message": text}
        for verdict in ("met", "missed", "undecided")
    ]
    one = {
        "basis": text,
        "confidence_level": 0.95,
        "detector": text,
        "version": None,
        "verdict": "missed",
        "target": target,
        "measure": "balanced",
        "population": "live",
        "method": "anytime",
        "low": low,
        "high": high,
        "labels": 3,
    }
    mine = Gate.model_validate({**one, "checks": checks})
    theirs = client_gate.Result(
        **one, checks=tuple(client_gate.Check(**check) for check in checks)
    )

    assert deciding.FORMATS.keys() == client_reports.FORMATS.keys()
    for name, report in deciding.FORMATS.items():
        assert report(mine) == client_reports.FORMATS[name](theirs)
    assert deciding.markdown(mine) == summary.read_text()


def test_an_interval_is_drawn_where_it_lies() -> None:
    line = deciding.picture(0.5, 0.6, 0.9)

    assert line == f"0 % {'─' * 25}{'█' * 5}{'─' * 15}┃{'─' * 4} 100 %"


def add_version(bench: Bench, name: str, right: int, rows: int = 60) -> None:
    """Log queries of their own for a version, of each class so many right."""
    bench.log_all(
        {
            "version": name,
            "predicted": label if number < right else other,
            "label": label,
        }
        for number in range(rows)
        for label, other in (("YES", "NO"), ("NO", "YES"))
    )


def family_of(bench: Bench) -> list[list[Any]]:
    with bench.database.read() as session:
        return [one.family for one in list_versions(session, bench.detector.id)]


def test_a_family_gives_each_version_a_part_of_the_error(bench: Bench) -> None:
    names = ["good", "poor", "best", "late"]
    for name, right in zip(names, (58, 30, 60, 58), strict=True):
        add_version(bench, name, right)
    found = [ask(bench, version=one, target=0.8, family=True) for one in names]

    assert [one.verdict for one in found] == ["met", "missed", "met", "met"]
    # Of those that had passed, each leaves more for the next.
    levels = [family_level(0.95, *of) for of in ((1, 0), (2, 1), (3, 1), (4, 2))]
    assert [one.confidence_level for one in found] == levels
    assert "As version 3 of the family, 1 passed." in found[2].basis
    asked = ["live", None, "balanced"]
    assert family_of(bench) == [
        [1, 0, asked, True],
        [2, 1, asked, False],
        [3, 1, asked, True],
        [4, 2, asked, True],
    ]
    alone = ask(bench, version="good", target=0.8)
    assert alone.confidence_level == 0.95
    assert found[0].low < alone.low
    # The first place is kept, and so is a pass.
    add_version(bench, "good", 0)
    again = ask(bench, version="good", target=0.8, family=True)
    assert (again.verdict, again.confidence_level) == ("missed", levels[0])
    assert family_of(bench)[0] == [1, 0, asked, True]


def test_a_family_asks_one_question_of_a_version(two_versions: Bench) -> None:
    ask(two_versions, target=0.5, family=True)
    # Another target is the same question: the interval is that of all of them.
    ask(two_versions, target=0.6, family=True)
    with pytest.raises(ConflictError, match="asked about v2 by live labels, measure"):
        ask(two_versions, target=0.5, not_worse_than="v1", family=True)
    for choices in ({"max_width": 0.5}, {"target": 0.5, "version": "*"}):
        with pytest.raises(TrackerError):
            ask(two_versions, family=True, **choices)
    assert family_of(two_versions)[0] == []


def test_a_family_takes_a_whole_replay(bench: Bench) -> None:
    bench.log_all(
        {"version": "v1", "input": f"{number}", "predicted": label, "label": label}
        | {"sampling": "random"}
        for number, label in enumerate(["YES", "NO"] * 60)
    )
    with bench.database.read() as session:
        detector = bench.attached(session)
        order = [
            one.input
            for one in list_replay(session, detector, version="v1", n=120).items
        ]

    def replay(version: str, inputs: list[str]) -> None:
        for one in inputs:
            said = "NO" if int(one) % 2 else "YES"
            bench.log(said, version=version, input=one)
        bench.say(version)

    # Of those behind a wide gap none counts, because they may be picked.
    replay("v2", [*order[:90], *order[115:]])
    gap = ask(bench, version="v2", target=0.6)
    assert (gap.verdict, gap.labels) == ("met", 90)
    with pytest.raises(ConflictError, match="in a family"):
        ask(bench, version="v2", target=0.6, family=True)
    replay("v3", order)
    found = ask(bench, version="v3", target=0.6, family=True)
    assert (found.verdict, found.population) == ("met", "replayed")
