"""Every door states population, unit, measure and span beside a number.

The detector counts groups once and has a target on the overall accuracy, so that none
of the words is the default.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from tracker_client.estimates import Estimate as ClientEstimate

from tests.cli.test_commands import Shell
from tests.conftest import START, Clock, by, signed_in
from tests.web.reading import read
from tracker.mcp.server import Desk
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.people.keys import create_key
from tracker.services.queries.queries import NewQuery, log_query
from tracker.services.telling.badges import create_badge
from tracker.services.telling.deliveries import say_in_full
from tracker.storage.database import Database

LABELS = "60 labels of its own queries, chosen at random; each group counts once"
NEW = NewDetector(
    name="door",
    question="Closed?",
    target=0.7,
    measure="overall",
    label_sampling="random",
    slices=["camera"],
)


@pytest.fixture
def door(database: Database, recompute: Callable[[], None], clock: Clock) -> str:
    """Fill two versions with 60 groups of two queries; return a key."""
    with database.write() as session:
        detector = create_detector(session, NEW, by(at=START))
        for version in ("v1", "v2"):
            for number in range(120):
                query = NewQuery(
                    predicted="YES" if number % 3 else "NO",
                    label="YES" if number % 3 else "NO",
                    input=f"{number}",
                    group=f"event {number // 2}",
                    version=version,
                    confidence=0.9,
                    metadata={"camera": "north" if number % 5 else "south"},
                )
                log_query(session, detector, query, by("a", clock()))
        key = create_key(session, "all", "admin", by(at=START))
    recompute()
    return key


@pytest.fixture
def ask(app: Flask, door: str) -> Callable[..., Any]:
    def get(path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {door}"}
        method = options.pop("method", "GET")
        answer = app.test_client().open(
            f"/api/v1/detectors/door{path}", method=method, headers=headers, **options
        )
        assert answer.status_code == 200, answer.text
        return answer.json

    return get


def states(found: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: found[name] for name in names}


def test_answers_of_the_api_have_the_fields(ask: Callable[..., Any]) -> None:
    found = ask("/estimate?version=v1&method=anytime")
    assert found["population"] == {"kind": "live", "queries": 60, "of": 120}
    assert found["unit"] == "group"
    assert found["basis"] == f"{LABELS}."
    assert found["decision"]["measure"] == "overall"
    assert found["decision"]["span"] == found["span"] == {"since": None, "until": None}
    gate = ask("/gate", method="POST", json={"version": "v1"})
    assert states(gate, "population", "measure") == {
        "population": "live",
        "measure": "overall",
    }
    assert gate["basis"] == f"{LABELS}."
    slices = ask("/slices?by=metadata.camera&version=v1")
    assert states(slices, "population", "unit", "measure") == {
        "population": "live",
        "unit": "group",
        "measure": "overall",
    }
    compared = ask("/comparison?old=v1&new=v2")
    assert states(compared, "population", "unit") == {
        "population": None,
        "unit": "group",
    }
    assert compared["decision"]["measure"] == "overall"
    for path in ("/thresholds", "/calibration"):
        found = ask(f"{path}?version=v1")
        wanted = {"population": "live", "unit": "group", "measure": "overall"}
        assert states(found, *wanted) == wanted
        assert found["basis"] == f"{LABELS}."
    judges = ask("/judges?version=v1")
    assert states(judges, "population", "unit") == {
        "population": "live",
        "unit": "group",
    }
    assert ask("/repeats?version=v1")["population"] == "live"
    assert ask("/history?version=v1&limit=1")["items"][0]["population"] == "live"


def test_events_have_the_fields_and_letters_the_words(
    app: Flask, ask: Callable[..., Any]
) -> None:
    (event,) = [
        one["data"]
        for one in ask("/events")["items"]
        if one["type"] == "verdict.changed" and one["version"] == "v1"
    ]
    wanted = {"population": "live", "unit": "group", "measure": "overall"}
    assert states(event, *wanted, "since") == wanted | {"since": None}
    said = say_in_full("verdict.changed", event)
    overview = read(signed_in(app, "ann", "viewer").get("/detectors/door?version=v1"))
    headline = " ".join(overview.by_id("answer-title").text.split())
    assert " ".join(event["sentence"].split()) == headline
    assert said.endswith(f"{event['sentence']} It rests on {LABELS}.")


def test_pages_metrics_and_badges_have_the_words(
    app: Flask, database: Database, door: str
) -> None:
    with database.write() as session:
        shown = get_detector(session, "door")
        token = create_badge(session, shown, "", by(at=START)).token
    badge = app.test_client().get(f"/badge/{token}.svg").text
    assert f"Overall accuracy, by {LABELS}." in badge
    frame = app.test_client().get(f"/embed/{token}").text
    assert f"Overall accuracy, by {LABELS}." in frame
    assert "Balanced accuracy:" not in frame
    browser = signed_in(app, "ann", "viewer")
    above = read(browser.get("/detectors/door/thresholds?version=v1")).text
    assert f"Overall accuracy, by {LABELS}." in above
    judges = read(browser.get("/detectors/door/judges?version=v1")).text
    assert "compared with the live labels of version v1; each group counts" in judges
    overview = read(browser.get("/detectors/door")).text
    assert "overall accuracy" in overview
    assert "All 60 labels were drawn at random" in overview
    assert "60 of groups that count by another query" in overview
    headers = {"Authorization": f"Bearer {door}"}
    metrics = app.test_client().get("/metrics", headers=headers).text
    assert (
        'tracker_basis_info{detector="door",measure="overall",unit="group",'
        'population="live",version="v1"} 1.0'
    ) in metrics


def test_commands_have_a_line(door: str, database_url: str, tmp_path: Path) -> None:
    shell = Shell(database_url, tmp_path)
    for words in (
        "estimate door --version v1",
        "gate door --version v1",
        "plan door --version v1",
    ):
        said = " ".join(shell(*words.split()).stdout.split())
        assert f"{LABELS}." in said, words
    for words, line in {
        "slices door --by metadata.camera --version v1": "60 live labels of 120 "
        "queries; each group counts once",
        "compare door --old v1 --new v2": "by the groups of both that were labelled "
        "at random",
        "estimate door": "Each interval of a class is 0.95 by itself.",
        "detectors list": "60 live",
    }.items():
        assert line in " ".join(shell(*words.split()).stdout.split()), words


def test_models_and_programs_read_the_words(
    database: Database, door: str, clock: Clock, ask: Callable[..., Any]
) -> None:
    desk = Desk(database, door, clock)
    for said in (desk.estimate("door", "v1"), desk.explain("door", "v1")):
        assert f"It rests on {LABELS}." in said["sentence"]
        assert said["sentence"].startswith("door, version v1: ")
        assert "the overall accuracy" in said["sentence"]
    cut = desk.slices("door", "metadata.camera", "v1")["sentence"]
    assert cut.endswith("chosen at random; each group counts once.")
    pairs = desk.compare("door", "v1", "v2")["sentence"]
    assert "On 60 groups that both answered and that were labelled at random" in pairs
    found = ClientEstimate(ask("/estimate?version=v1"), "door", None)
    assert f"{LABELS}." in str(found)
    assert f"{LABELS}." in found._repr_html_()
    for said in (str(found), found._repr_html_()):
        assert "target 70 % of overall: met, [" in said


@pytest.fixture
def uneven(database: Database, recompute: Callable[[], None], clock: Clock) -> str:
    """Ninety labels of one class that are right and ten of another that are not."""
    new = NEW.model_copy(update={"target": None, "slices": []})
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        for number in range(100):
            label = "NO" if number < 90 else "YES"
            query = NewQuery(predicted="NO", label=label, version="v1")
            log_query(session, detector, query, by("a", clock()))
        key = create_key(session, "all", "admin", by(at=START))
    recompute()
    return key


def test_without_a_target_every_door_shows_the_measure_too(
    app: Flask, database: Database, uneven: str, database_url: str, tmp_path: Path
) -> None:
    with database.write() as session:
        shown = get_detector(session, "door")
        token = create_badge(session, shown, "", by(at=START)).token
    badge = app.test_client().get(f"/badge/{token}.json").json
    assert badge is not None
    assert badge["message"].startswith("overall accuracy 90.0% (")
    browser = signed_in(app, "ann", "viewer")
    overview = read(browser.get("/detectors/door")).text
    assert "Best estimate 90.0 % from 100 random labels" in overview
    assert "counting the same" not in overview
    assert "of all answers" in read(browser.get("/")).text
    listed = " ".join(Shell(database_url, tmp_path)("detectors", "list").stdout.split())
    assert "overall" in listed
    assert "0.9000" in listed


def test_the_client_goes_by_the_interval_that_decides(
    app: Flask, database: Database, uneven: str
) -> None:
    def asked(**settings: Any) -> ClientEstimate:
        client, headers = app.test_client(), {"Authorization": f"Bearer {uneven}"}
        path = "/api/v1/detectors/door"
        assert client.patch(path, json=settings, headers=headers).status_code == 200
        answer = client.get(f"{path}/estimate?method=anytime", headers=headers)
        return ClientEstimate(answer.json, "door", None)

    # Of the balanced accuracy it would be missed.
    assert asked(target=0.75).verdict(0.75) == "met"
    picked = asked(label_sampling=None)
    assert picked.verdict(0.75) == "undecided"
    assert "no verdict: " in str(picked)
    assert asked(target=None).verdict(0.75) == "undecided"
