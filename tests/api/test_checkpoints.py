"""However labels arrive, the history is the same, to the last bit."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.api.published import published_rows
from tracker.services.wording import dump_instant

pytestmark = pytest.mark.slow


def without_instants(rows):
    for row in rows:
        assert row.pop("computed_at")
        assert row.pop("detector")
    return rows


@pytest.fixture
def twins(api):
    """Two detectors of the same classes."""
    for name in ("one by one", "in one file"):
        body = {"name": name, "question": "?", "label_sampling": "random"}
        assert api.post("/detectors", body).status_code == 201
    return "/detectors/one by one", "/detectors/in one file"


def mixed_rows():
    chance = random.Random(72)
    rows = published_rows()
    for row in rows:
        row["sampling"] = chance.choice(["random", "random", "targeted", "unstated"])
        if chance.random() < 0.15:
            row["label"] = "UNCLEAR"
    return rows


@pytest.mark.parametrize(
    "rows", [published_rows(), mixed_rows()], ids=["plain", "mixed"]
)
def test_one_by_one_or_in_one_file(api, twins, recompute, rows):
    slowly, at_once = twins
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows = [
        {**row, "asked_at": dump_instant(noon + timedelta(minutes=number))}
        for number, row in enumerate(rows)
    ]
    for row in rows:
        label = {"label": row["label"]}
        if "sampling" in row:
            label["sampling"] = row["sampling"]
        query = {name: row[name] for name in ("predicted", "key", "asked_at")}
        made = api.post(f"{slowly}/queries", query)
        assert made.status_code == 201
        given = api.post(f"/queries/{made.json['id']}/labels", label)
        assert given.status_code == 201
        recompute()
    assert api.post(f"{at_once}/import", {"items": rows}).json["labels_added"] == 72
    recompute()
    histories = [without_instants(api.walk(f"{path}/history")) for path in twins]
    assert histories[0] == histories[1]
    assert len(histories[0]) > 100
    estimates = [api.get(f"{path}/estimate").json for path in twins]
    for estimate in estimates:
        for name in ("detector", "name", "computed_at", "last_label_at"):
            estimate.pop(name)
    assert estimates[0] == estimates[1]
    counted = [
        row["asked_at"]
        for row in rows
        if row["label"] != "UNCLEAR" and row.get("sampling") != "targeted"
    ]
    assert estimates[0]["asked_from"] == counted[0]
    assert estimates[0]["asked_to"] == counted[-1]


@pytest.mark.chaos_on("postgresql")
def test_corrections_one_by_one_or_in_one_file(api, twins, recompute):
    slowly, at_once = twins
    rows = mixed_rows()
    chance = random.Random(7)
    corrections = [
        {"key": row["key"], "label": label, "sampling": "random"}
        for row in rows
        if (label := chance.choice(["YES", "NO", "UNCLEAR"])) != row["label"]
    ]
    ids = {}
    for row in rows:
        made = api.post(f"{slowly}/queries", row)
        ids[row["key"]] = made.json["id"]
        recompute()
    for row in corrections:
        label = {"label": row["label"], "sampling": "random"}
        assert api.post(f"/queries/{ids[row['key']]}/labels", label).status_code == 201
        recompute()
    for items in (rows, corrections):
        assert api.post(f"{at_once}/import", {"items": items}).json["unchanged"] == 0
    recompute()
    histories = [without_instants(api.walk(f"{path}/history")) for path in twins]
    assert histories[0] == histories[1]
    labels = [row["labels"] for row in histories[0]]
    assert labels != sorted(labels), "a correction to UNCLEAR takes a label away"
