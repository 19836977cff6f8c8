"""Webhooks and events by the API."""

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.conftest import by
from tests.telling.conftest import webhook_loop
from tests.telling.receiver import receiving
from tracker.services.people.keys import create_key
from tracker.storage.telling import Webhook
from tracker.words import EVENTS

URL = "https://example.org/hook"


def make(api, **said):
    answer = api.post("/webhooks", {"url": URL, **said})
    assert answer.status_code == 201, answer.text
    return answer.json


def test_a_webhook_is_made_and_its_secret_shown_once(api, door):
    made = make(api, events=["verdict.changed"], detectors=["door"])
    assert made["secret"].startswith("whsec_")
    assert made["detectors"] == [door["id"]]
    known = {name: value for name, value in made.items() if name != "secret"}
    assert api.get(f"/webhooks/{made['id']}").json == known
    assert api.get("/webhooks").json == {"items": [known], "next": None}
    everything = make(api)
    assert everything["detectors"] is None
    assert everything["events"] == list(EVENTS)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, "url"),
        ({"events": ["no.such"]}, "events"),
        ({"events": []}, "events"),
        ({"detectors": []}, "detectors"),
        ({"format": "pigeon"}, "format"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_what_is_wrong_is_named(api, door, said, field):
    problem = assert_problem(api.post("/webhooks", {"url": URL, **said}), 422)
    assert problem["errors"][0]["field"].startswith(field)
    assert api.get("/webhooks").json["items"] == []


def test_an_unknown_detector_is_not_found(api):
    assert_problem(api.post("/webhooks", {"url": URL, "detectors": ["x"]}), 404)


def test_a_webhook_is_changed_and_deleted(api, door):
    made = make(api)
    path = f"/webhooks/{made['id']}"
    change = {"events": ["labels.stalled"], "detectors": ["door"], "is_enabled": False}
    changed = api.patch(path, change).json
    assert changed["events"] == ["labels.stalled"]
    assert changed["detectors"] == [door["id"]]
    assert changed["disabled_because"] == "by admin-key"
    assert_problem(api.post(f"{path}/test"), 409)
    enabled = api.patch(path, {"is_enabled": True, "detectors": None}).json
    assert enabled["is_enabled"]
    assert enabled["detectors"] is None
    assert_problem(api.patch(path, {"url": None}), 422)
    assert_problem(api.patch(path, {"url": "http://10.0.0.1/"}), 422)
    assert api.post(f"{path}/test").status_code == 202
    assert api.delete(path).status_code == 204
    assert_problem(api.get(path), 404)
    assert_problem(api.get(f"{path}/deliveries"), 404)


def test_a_secret_is_replaced(api):
    made = make(api)
    new = api.post(f"/webhooks/{made['id']}/secret").json
    assert new["secret"].startswith("whsec_")
    assert new["secret"] != made["secret"]
    assert new["old_secret_until"].startswith("2026-02-01T12:00:00")


@pytest.mark.thorough
def test_a_test_is_delivered_and_reported(api, database, clock):
    made = make(api)
    path = f"/webhooks/{made['id']}"
    queued = api.post(f"{path}/test").json
    assert queued["state"] == "waiting"
    with receiving() as receiver:
        # The address is changed below the service, which would refuse this one.
        with database.write() as session:
            session.get_one(Webhook, int(made["id"][4:])).url = receiver.url
        assert webhook_loop(database, clock=clock).run() == 1
        (message,) = receiver.messages
    assert message.json["type"] == "webhook.test"
    assert message.json["data"] == {"webhook": made["id"]}
    (delivery,) = api.walk(f"{path}/deliveries")
    assert delivery["state"] == "delivered"
    assert delivery["message"] == message.id
    assert delivery["status"] == 204
    assert delivery["next_try_at"] is None


def test_events_are_listed_in_pages_and_by_type(api, door, recompute):
    api.patch("/detectors/door", {"target": 0.5})
    for label in ("YES", "NO") * 40:
        api.post(
            "/detectors/door/queries",
            {"predicted": label, "label": label, "version": "v1"},
        )
    recompute()
    events = api.walk("/detectors/door/events?limit=1")
    kinds = [event["type"] for event in events]
    assert kinds == ["verdict.changed", "version.first_seen"]
    assert events[0]["version"] == "v1"
    assert events[0]["data"]["verdict"] == "met"
    found = api.walk("/detectors/door/events?type=version.first_seen")
    assert found == events[1:]
    assert_problem(api.get("/detectors/door/events?type=x"), 400)
    assert_problem(api.get("/detectors/nobody/events"), 404)


def test_who_sees_some_detectors_hears_of_those_alone(app, api, database, door, keys):
    api.post("/detectors", {"name": "secret", "question": "?"})
    whole = make(api)
    with database.write() as session:
        limited = create_key(session, "limited", "editor", by(), detectors=["door"])
    mine = Api(app, {"admin": limited})
    assert make(mine)["detectors"] == [door["id"]]
    assert_problem(mine.post("/webhooks", {"url": URL, "detectors": ["secret"]}), 404)
    assert len(mine.get("/webhooks").json["items"]) == 1
    for path in ("", "/deliveries"):
        assert_problem(mine.get(f"/webhooks/{whole['id']}{path}"), 404)
    assert_problem(mine.delete(f"/webhooks/{whole['id']}"), 404)


def test_a_hundred_webhooks_are_the_most(api):
    for _ in range(100):
        make(api)
    assert_problem(api.post("/webhooks", {"url": URL}), 409)
