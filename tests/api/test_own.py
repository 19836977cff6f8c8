"""What a person keeps for themselves, by the key that they own."""

import pytest

from tests.api.problems import assert_problem
from tests.conftest import START, by
from tracker.services.people.accounts import create_account
from tracker.services.people.keys import create_key

PATH = "/api/v1/account"


@pytest.fixture
def call(app, database):
    """Calls as a key that maria owns, who sees every detector."""
    with database.write() as session:
        create_account(session, "maria", "viewer", by())
        text = create_key(session, "own", "viewer", by(), owner="maria")
    client = app.test_client()

    def send(**change):
        headers = {"Authorization": f"Bearer {text}"}
        if change:
            return client.patch(PATH, json=change, headers=headers)
        return client.get(PATH, headers=headers)

    return send


def test_pins_and_views_are_set_and_read(call, door):
    view = {"name": "Dropped docks", "query": "state=dropped&tag=dock"}
    assert call(pins=["door"], views=[view]).status_code == 200
    assert call().json == {
        "name": "maria",
        "role": "viewer",
        "pins": ["det_1"],
        "views": [view],
        "last_looked_at": None,
    }
    # What is left out stays; what is given is all there is.
    assert call(pins=[]).json["views"] == [view]
    assert call().json["pins"] == []


def test_the_inbox_is_said_to_be_seen(call, clock):
    assert call(has_looked=True).json["last_looked_at"].startswith(f"{START:%Y-%m-%d}")


def test_an_unknown_detector_and_a_view_without_a_name_are_refused(call):
    assert_problem(call(pins=["nothing"]), 404)
    assert_problem(call(views=[{"name": "", "query": ""}]), 422)
    assert call().json["pins"] == []


def test_a_key_whose_owner_has_no_account_keeps_nothing(api):
    detail = assert_problem(api.get("/account"), 409)["detail"]
    assert "owner of this key has no account" in detail


def test_tags_and_owner_are_fields_of_a_detector(api, door):
    sent = {"tags": ["dock", "night", "dock"], "owner": "Maria's team"}
    said = api.patch("/detectors/door", sent).json
    assert (said["tags"], said["owner"]) == (["dock", "night"], "Maria's team")
    cleared = api.patch("/detectors/door", {"tags": [], "owner": None}).json
    assert (cleared["tags"], cleared["owner"]) == ([], None)
    made = api.post("/detectors", {"name": "b", "question": "?", "owner": "x"}).json
    assert (made["tags"], made["owner"]) == ([], "x")
    assert_problem(api.patch("/detectors/door", {"tags": [""]}), 422)
