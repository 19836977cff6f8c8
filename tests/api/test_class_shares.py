"""How frequent the classes are: what the deciding interval bets on, and when."""

import json
import math
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.conftest import START, WHOLE
from tracker.stats import balanced_anytime
from tracker.storage.detectors import Detector
from tracker.storage.imports import RUNNING, FileImport


@pytest.fixture
def rare(api: Api) -> None:
    """A detector of a rare class."""
    api.post(
        "/detectors",
        {
            "name": "rare",
            "question": "?",
            "classes": ["FINE", "CRACK"],
            "label_sampling": "random",
            "target": 0.9,
        },
    )


def label(api: Api, fine: int, cracks: int, *, version: str = "v1") -> None:
    """Log labelled queries, of which the first crack is missed."""
    rows = [{"predicted": "FINE", "label": "FINE", "version": version}] * fine
    rows += [{"predicted": "CRACK", "label": "CRACK", "version": version}] * cracks
    if cracks:
        rows[fine] = {"predicted": "FINE", "label": "CRACK", "version": version}
    send(api, rows)


def send(api: Api, rows: list[dict[str, str]]) -> None:
    content = "\n".join(json.dumps(row) for row in rows).encode()
    answer = api.send_file("/detectors/rare/import", content, "application/x-ndjson")
    assert answer.status_code == 200, answer.text


def estimate(api: Api, **chosen: str) -> Any:
    text = "&".join(f"{name}={value}" for name, value in chosen.items())
    return api.get(f"/detectors/rare/estimate?method=anytime&{text}").json


def expect(correct: list[int], labelled: list[int], shares: list[float] | None) -> Any:
    whole = None if shares is None else math.fsum(shares)
    parts = None if shares is None or whole is None else [s / whole for s in shares]
    low, high = balanced_anytime(correct, labelled, WHOLE, shares=parts)
    return float(low), float(high)


def bounds(found: Any) -> Any:
    assert found["balanced"]["low"] == found["decision"]["low"]
    assert found["balanced"]["high"] == found["decision"]["high"]
    return found["balanced"]["low"], found["balanced"]["high"]


@pytest.mark.usefixtures("rare")
def test_the_first_labels_say_how_frequent_the_classes_are(api, recompute):
    label(api, 80, 10)
    recompute()
    found = estimate(api)
    assert found["class_shares"] is None
    assert bounds(found) == expect([80, 9], [80, 10], None)

    # More than are missing: all are taken that came by then.
    label(api, 60, 0)
    found = estimate(api)
    assert found["class_shares"] is None
    recompute()
    found = estimate(api)
    parts = [141 / 152, 11 / 152]
    assert found["class_shares"]["source"] == "first_labels"
    assert [*found["class_shares"]["shares"].values()] == pytest.approx(parts)
    frozen = found["class_shares"]
    assert bounds(found) == expect([140, 9], [140, 10], [141, 11])
    wide = expect([140, 9], [140, 10], None)
    assert found["balanced"]["high"] - found["balanced"]["low"] < wide[1] - wide[0]

    # They stay as they are, whatever comes.
    label(api, 0, 50)
    recompute()
    found = estimate(api)
    assert found["class_shares"] == frozen
    assert bounds(found) == expect([140, 58], [140, 60], [141, 11])


@pytest.mark.usefixtures("rare")
def test_the_history_has_the_intervals_that_decided(api, recompute):
    label(api, 120, 30)
    recompute()
    rows = [
        row
        for row in api.walk("/detectors/rare/history?method=anytime&limit=1000")
        if row["scope"] == "balanced"
    ]
    found = {row["labels"]: (row["low"], row["high"]) for row in rows}
    # One file, and one time to take the shares.
    assert found[99] == expect([99, 0], [99, 0], [121, 31])
    last = max(found)
    assert found[last] == expect([120, last - 121], [120, last - 120], [121, 31])


@pytest.mark.usefixtures("rare")
def test_nothing_is_taken_from_half_a_file(api, recompute, database):
    label(api, 120, 0)
    with database.write() as session:
        session.add(running(session))
    recompute()
    assert estimate(api)["class_shares"] is None
    label(api, 0, 30)
    with database.write() as session:
        running_ones = select(FileImport).where(FileImport.state == RUNNING)
        session.delete(session.scalars(running_ones).one())
    recompute()
    shares = estimate(api)["class_shares"]["shares"]
    assert [*shares.values()] == pytest.approx([121 / 152, 31 / 152])


def running(session: Session) -> FileImport:
    """An import that a worker is at."""
    detector = session.scalars(select(Detector)).one()
    return FileImport(
        detector_id=detector.id,
        format="csv",
        on_error="reject",
        sha256="0" * 64,
        bytes=1,
        actor="alice",
        actor_kind="account",
        address="::1",
        created_at=START,
        started_at=START,
        state=RUNNING,
    )


@pytest.mark.usefixtures("rare")
def test_a_correction_counts_no_label_a_second_time(api, recompute):
    label(api, 99, 0)
    recompute()
    query = api.get("/detectors/rare/queries?limit=1").json["items"][0]["id"]
    for name in ("CRACK", "FINE", "CRACK"):
        api.post(f"/queries/{query}/labels", {"label": name})
        recompute()
    assert estimate(api)["class_shares"] is None
    label(api, 1, 0)
    recompute()
    shares = estimate(api)["class_shares"]["shares"]
    assert [*shares.values()] == pytest.approx([101 / 102, 1 / 102])


@pytest.mark.usefixtures("rare")
def test_stated_shares_count_from_the_first_label_of_a_later_version(
    api, recompute, clock
):
    label(api, 10, 0)
    clock.at += timedelta(seconds=1)
    changed = api.patch("/detectors/rare", {"class_shares": {"FINE": 97, "CRACK": 3}})
    assert changed.json["class_shares"] == {"FINE": 97, "CRACK": 3}
    # The first version had a label before.
    recompute()
    assert estimate(api, version="v1")["class_shares"] is None

    clock.at += timedelta(seconds=1)
    label(api, 20, 2, version="v2")
    recompute()
    found = estimate(api, version="v2")
    assert found["class_shares"]["source"] == "stated"
    assert [*found["class_shares"]["shares"].values()] == pytest.approx([0.97, 0.03])
    assert bounds(found) == expect([20, 1], [20, 2], [97, 3])

    # What is stated later is for the next version.
    clock.at += timedelta(seconds=1)
    api.patch("/detectors/rare", {"class_shares": {"FINE": 1, "CRACK": 1}})
    label(api, 1, 0, version="v2")
    recompute()
    assert estimate(api, version="v2")["class_shares"] == found["class_shares"]


@pytest.mark.usefixtures("rare")
def test_labels_that_do_not_count_say_nothing(api, recompute):
    rows = [{"predicted": "FINE", "label": "FINE", "sampling": "targeted"}] * 150
    send(api, rows)
    recompute()
    assert estimate(api)["class_shares"] is None
    targeted = estimate(api, include_targeted="true")
    assert targeted["labels"] == 150
    assert targeted["class_shares"] is None


@pytest.mark.usefixtures("rare")
def test_what_was_known_once_had_the_shares_of_then(api, recompute, clock):
    label(api, 60, 10)
    recompute()
    early = clock().isoformat().replace("+00:00", "Z")
    before = estimate(api)["balanced"]
    clock.at += timedelta(seconds=60)
    label(api, 60, 10)
    recompute()
    late = clock().isoformat().replace("+00:00", "Z")
    assert estimate(api, as_known_at=early)["balanced"] == before
    assert estimate(api, as_known_at=early)["class_shares"] is None
    assert estimate(api, as_known_at=late)["balanced"] == estimate(api)["balanced"]


@pytest.mark.parametrize(
    "shares",
    [
        {"FINE": 1},
        {"FINE": 1, "CRACK": 1, "DENT": 1},
        {"FINE": 1, "CRACK": 0},
        {"FINE": 1, "CRACK": -1},
        {"FINE": 1, "CRACK": 1e10},
        {},
    ],
)
@pytest.mark.usefixtures("rare")
def test_each_class_has_a_positive_share(api, shares):
    wrong = api.patch("/detectors/rare", {"class_shares": shares})
    assert wrong.status_code == 422
    assert wrong.json["errors"][0]["field"].startswith("class_shares")
    new = {"name": "n", "question": "?", "classes": ["FINE", "CRACK"]}
    assert_problem(api.post("/detectors", {**new, "class_shares": shares}), 422)
