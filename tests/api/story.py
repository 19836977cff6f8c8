"""A walk through the API whose bodies and answers are the examples of its document."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flask import Flask
from flask_openapi3.openapi import OpenAPI
from sqlalchemy import update
from werkzeug.test import TestResponse

from tests.api.conftest import Api
from tests.api.published import published_rows
from tests.api.test_otlp import body as evaluations
from tests.api.test_otlp import record as evaluation
from tests.conftest import Clock, by
from tracker.api.openapi import build_document
from tracker.services.people.accounts import create_account
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.people import ApiKey

# The bytes are those of the text that counts to 31.
SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
TOKEN = "01234567890123456789012345678901"
_MOST_ITEMS = 2
NDJSON = "application/x-ndjson"


class Recorder(Api):
    """Keeps the longest body or answer of each schema."""

    def __init__(self, app: Flask, keys: dict[str, str]) -> None:
        super().__init__(app, keys)
        assert isinstance(app, OpenAPI)
        self._app, self._paths = app, build_document(app)["paths"]
        self.examples: dict[str, Any] = {}

    def call(self, method: str, path: str, **options: Any) -> TestResponse:
        response = super().call(method, path, **options)
        assert response.status_code < 500, response.text
        adapter = self._app.url_map.bind("localhost")
        whole = f"/api/v1{path}".partition("?")[0]
        rule, _ = adapter.match(whole, method, return_rule=True)
        template = rule.rule.replace("<path:", "<").replace("<", "{").replace(">", "}")
        call = self._paths[template][method.lower()]
        said = call["responses"][str(response.status_code)]
        if response.is_json:
            self._keep(said, response.content_type, response.json)
        if "json" in options:
            self._keep(call.get("requestBody", {}), "application/json", options["json"])
        return response

    def _keep(self, part: dict[str, Any], media_type: str, value: Any) -> None:
        reference = part.get("content", {}).get(media_type, {}).get("schema", {})
        name = reference.get("$ref", "").rpartition("/")[2]
        if name:
            found = [self.examples.get(name, {}), _shortened(value)]
            self.examples[name] = max(found, key=lambda one: len(json.dumps(one)))


def _shortened(value: Any) -> Any:
    """Return *value* with short lists, whole minutes and no secrets."""
    if isinstance(value, dict):
        return {name: _shortened(part) for name, part in value.items()}
    if isinstance(value, list):
        is_long = len(value) > _MOST_ITEMS and isinstance(value[0], dict)
        return [
            _shortened(part) for part in (value[:_MOST_ITEMS] if is_long else value)
        ]
    if isinstance(value, str):
        # The clock of the tests moves on each time that it is asked.
        value = re.sub(r"(T\d\d:\d\d):\d\d(\.\d+)?Z", r"\1:00Z", value)
        value = re.sub(r"whsec_[A-Za-z0-9+/=]+", SECRET, value)
        return re.sub(r"(?<![\w-])[\w-]{32}(?![\w-])", TOKEN, value)
    return value


def tell(
    api: Recorder, database: Database, recompute: Callable[[], None], clock: Clock
) -> None:
    """Make each call that has a body or an answer in JSON, with what would be sent."""
    door = "/detectors/door"
    _create(api, door)
    with database.write() as session:
        # Else what is drawn at random would differ each time.
        session.execute(update(Detector).values(queue_seed="0" * 32))
    _log(api, door)
    recompute()
    clock.at += timedelta(hours=1)
    _read(api, door)
    _label(api, door)
    _audit(api, door)
    _notify(api, door)
    _keep_own(api, database)
    _attribute(api, door)
    api.get("/detectors?limit=1")
    wrong = api.post(f"{door}/queries", {"predicted": "MAYBE"})
    assert wrong.status_code == 422


def _create(api: Recorder, door: str) -> None:
    body = {
        "name": "door",
        "question": "Is the door closed?",
        "classes": ["YES", "NO"],
        "confidence_level": 0.95,
        "target": 0.9,
        "label_sampling": "random",
    }
    assert api.post("/detectors", body).status_code == 201
    settings = {
        "guideline": "YES if you see no gap.",
        "slices": ["camera"],
        "gold_rate": 0.05,
        "stalled_after_hours": 48,
    }
    changed = api.patch(door, settings)
    assert changed.status_code == 200, changed.text


def _log(api: Recorder, door: str) -> None:
    """Log queries of two versions by each way in."""
    api.send_file("/inspect", _rows("v2"), NDJSON)
    api.send_file(f"{door}/import", _rows("v2"), NDJSON)
    query = {
        "key": "frame-0001",
        "input": "frame-0001.jpg",
        "predicted": "YES",
        "confidence": 0.97,
        "version": "v3",
        "asked_at": "2026-01-31T11:45:00Z",
        "metadata": {"camera": "north"},
        "label": "NO",
        "sampling": "random",
    }
    logged = api.post(f"{door}/queries", query).json
    api.get(f"{door}/queries?limit=1")
    api.put(f"/queries/{logged['id']}/tags", {"tags": ["blurry"]})
    row = {"key": "frame-0002", "predicted": "YES", "label": "YES", "version": "v3"}
    rows = {"items": [row, {"key": "frame-0001", "label": "NO"}]}
    sent = api.post(f"{door}/import", rows)
    assert sent.status_code == 200, sent.text
    later = {"Prefer": "respond-async"}
    made = api.send_file(f"{door}/import", _rows("v2"), NDJSON, headers=later).json
    api.get(f"/imports/{made['id']}")
    api.get(f"{door}/imports")
    api.send_file(f"{door}/import", _rows("v3"), NDJSON)
    api.patch(door, {"production_version": "v3"})
    mapping = {
        "columns": {"predicted": "answer", "asked_at": "when"},
        "classes": {"closed": "YES", "open": "NO"},
        "extra": "metadata",
        "time_zone": "Europe/Berlin",
    }
    assert api.put(f"{door}/import/mapping", mapping).status_code == 200
    api.get(f"{door}/import/mapping")
    bare = api.post(f"{door}/queries", {"predicted": "NO", "version": "v3"}).json
    given = api.patch(f"/queries/{bare['id']}", {"input": "frame-0003.jpg"})
    assert given.status_code == 200, given.text


def _rows(version: str) -> str:
    """Return the published rows; the older version is wrong more often."""
    rows = published_rows()
    for number, row in enumerate(rows):
        if version == "v2" and number % 9 == 0:
            row["predicted"] = "NO" if row["label"] == "YES" else "YES"
        row |= {
            "key": f"{version}-{row['key']}",
            "input": f"{row['key']}.jpg",
            "version": version,
            "confidence": 0.6 + number % 5 / 12,
            "metadata": {"camera": "north" if number % 2 else "south"},
        }
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _read(api: Recorder, door: str) -> None:
    """Read estimates, plans and comparisons."""
    api.get(f"{door}/estimate?version=v3")
    api.post(f"{door}/recompute")
    api.get(f"{door}/history?version=v3&method=joint&limit=2")
    for part in ("cohorts", "repeats", "weeks", "thresholds", "calibration"):
        api.get(f"{door}/{part}?version=v3")
    api.get(f"{door}/slices?by=metadata.camera&version=v3")
    api.get(f"{door}/comparison?old=v2&new=v3")
    api.get(f"{door}/replay?version=v2&n=3")
    api.patch(f"{door}/versions/v3", {"unseen": True})
    api.post(f"{door}/gate", {"target": 0.6, "not_worse_than": "v2"})
    api.get(f"{door}/plan?width=0.1&power=0.8&more=200&version=v3")
    api.get(f"{door}/labels?format=json")
    rounds = [
        {"validation": 0.8958, "training": 0.9606, "no_information": 0.3333},
        {"validation": 0.8696, "training": 0.9528, "no_information": 0.3333},
    ]
    study = {
        "name": "bootstrap of the tree",
        "kind": "bootstrap",
        "version": "v3",
        "note": "200 rounds, seed 12345",
        "rounds": rounds,
    }
    made = api.post(f"{door}/studies", study)
    assert made.status_code == 201, made.text
    api.get(f"{door}/studies")
    api.get(f"/studies/{made.json['id']}/rounds")


def _label(api: Recorder, door: str) -> None:
    """Label, mark gold queries, draw labels again, and see who labels."""
    waiting = {"key": "frame-0004", "predicted": "YES", "version": "v3"}
    logged = api.post(f"{door}/queries", waiting)
    assert logged.status_code == 201, logged.text
    new = api.get(f"{door}/next", role="labeler").json
    label = {"label": "NO", "sampling": "random", "note": "A hand is in the way."}
    assert api.post(f"/queries/{new['id']}/labels", label).status_code == 201
    api.get(f"/queries/{new['id']}/labels")
    known = api.post(f"{door}/queries", {"predicted": "NO", "version": "v3"}).json
    assert api.put(f"/queries/{known['id']}/gold", {"label": "NO"}).status_code == 200
    api.get(f"{door}/gold")
    assignment = {"labeler": "alice", "labels": 200}
    assert api.put(f"{door}/assignments", assignment).status_code == 200
    api.get(f"{door}/assignments")
    drawn = api.post(f"{door}/rechecks", {"count": 20, "version": "v3"})
    assert drawn.status_code == 201, drawn.text
    again = api.get(f"{door}/next?queue=recheck", role="labeler").json
    body = {"label": "NO", "labeler": "house", "trusted": True}
    given = api.post(f"/queries/{again['id']}/recheck", body, role="editor")
    assert given.status_code == 201, given.text
    api.get(f"{door}/rechecks?version=v3")
    judged = api.post("/otlp/v1/logs", evaluations(evaluation("YES", "v3-frame-1")))
    assert judged.status_code == 200, judged.text
    found = api.get(f"{door}/queries?key=v3-frame-1").json["items"][0]
    body = {"judge": "llm-3", "verdict": "YES", "explanation": "A gap is seen."}
    assert api.post(f"/queries/{found['id']}/judgements", body).status_code == 201
    api.get(f"/queries/{found['id']}/judgements")
    api.get(f"{door}/judges")
    api.get(f"{door}/labelers")


def _audit(api: Recorder, door: str) -> None:
    """Begin an audit, label two draws, narrow it and close it."""
    wanted = {
        "name": "November, all lines",
        "version": "v3",
        "where": ["metadata.camera:north"],
        "aim": "balanced",
        "half_width": 0.05,
        "seed": "November",
    }
    for number in range(9):
        query = {"key": f"line-{number}", "predicted": "YES", "confidence": 0.9}
        query |= {"version": "v3", "metadata": {"camera": "north"}}
        api.post(f"{door}/queries", query)
    audit = api.post(f"{door}/audits", wanted)
    assert audit.status_code == 201, audit.text
    path = f"/audits/{audit.json['id']}"
    for draw in api.get(f"{path}/next?count=2").json["items"]:
        api.post(f"/queries/{draw['id']}/labels", {"label": "YES"})
    for part in ("/estimate", "/history", "/savings", "/record"):
        api.get(f"{path}{part}")
    assert api.patch(path, {"half_width": 0.025}).status_code == 200
    api.get(f"{door}/audits")
    weekly = {"name": "Weekly", "every": "week", "half_width": 0.03, "target": 0.9}
    schedule = api.post(f"{door}/audits", weekly)
    assert schedule.status_code == 201, schedule.text
    api.get(f"{door}/audit-schedules")
    api.get(f"/audit-schedules/{schedule.json['id']}")
    api.post(f"/audit-schedules/{schedule.json['id']}/stop", {})


def _notify(api: Recorder, door: str) -> None:
    """Add a webhook and a badge, and read what happened."""
    api.get(f"{door}/events?limit=2")
    events = ["verdict.changed", "labels.stalled"]
    hook = {"url": "https://example.org/hook", "events": events, "detectors": ["door"]}
    made = api.post("/webhooks", hook)
    assert made.status_code == 201, made.text
    path = f"/webhooks/{made.json['id']}"
    api.get("/webhooks")
    api.patch(path, {"is_enabled": True})
    assert api.post(f"{path}/test").status_code == 202
    api.get(f"{path}/deliveries")
    api.post(f"{path}/secret")
    assert api.post(f"{door}/badges").status_code == 201
    api.get(f"{door}/badges")


def _attribute(api: Recorder, door: str) -> None:
    """Ask what moved a judged rate from one week to the next."""
    for version, day, judge in (("v2", 6, "llm-3"), ("v3", 13, "llm-4")):
        query = {"key": f"asked-{day}", "input": f"frame of {day} January"}
        query |= {"version": version, "predicted": "YES"}
        query |= {"asked_at": f"2026-01-{day:02}T12:00:00Z"}
        made = api.post(f"{door}/queries", query)
        body = {"judge": judge, "verdict": "YES"}
        assert api.post(f"/queries/{made.json['id']}/judgements", body).is_json
    weeks = {"since": "2026-01-05T00:00:00Z", "until": "2026-01-12T00:00:00Z"}
    weeks |= {"now_since": "2026-01-12T00:00:00Z", "now_until": "2026-01-19T00:00:00Z"}
    between = {"old_version": "v2", "new_version": "v3"}
    between |= {"old_judge": "llm-3", "new_judge": "llm-4", "anchors": 200}
    begun = api.post(f"{door}/attribution", between | weeks)
    assert begun.status_code == 201, begun.text
    api.get(f"{door}/attribution")
    assert api.get(f"{door}/attribution/anchors").json["items"]


def _keep_own(api: Recorder, database: Database) -> None:
    """Pin a detector and save a view, as the person who owns the key."""
    with database.write() as session:
        session.execute(update(ApiKey).values(owner="maria"))
        create_account(session, "maria", "editor", by())
    view = {"name": "Dropped docks", "query": "state=dropped&tag=dock"}
    change = {"pins": ["door"], "views": [view], "has_looked": True}
    assert api.patch("/account", change).status_code == 200
