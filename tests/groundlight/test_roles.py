"""Who may call what of the device API: every role on every route."""

import pytest

from tests.groundlight.conftest import encode, jpeg
from tracker.http import required_role
from tracker.words import KEY_ROLES

EXPECTED = {
    "GET /me": "viewer",
    "GET /api-tokens/by-snippet/{snippet}": "viewer",
    "GET /month-to-date-account-info": "viewer",
    "POST /detectors": "editor",
    "GET /detectors": "viewer",
    "GET /detectors/{id}": "viewer",
    "PATCH /detectors/{id}": "editor",
    "DELETE /detectors/{id}": "admin",
    "DELETE /detector-reset/{id}": "admin",
    "GET /detector-groups": "viewer",
    "POST /detector-groups": "editor",
    "GET /detectors/{id}/evaluation": "viewer",
    "GET /detectors/{id}/metrics": "viewer",
    "POST /image-queries": "editor",
    "GET /image-queries": "viewer",
    "GET /image-queries/{id}": "viewer",
    "GET /image-queries/{id}/image": "viewer",
    "POST /labels": "labeler",
}


def list_calls(app):
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/device-api/v1"):
            for method in sorted(rule.methods - {"HEAD", "OPTIONS"}):
                path = rule.rule.removeprefix("/device-api/v1")
                path = path.replace("<", "{").replace(">", "}")
                yield f"{method} {path}", required_role(app, rule.endpoint)


def test_every_call_declares_the_role_that_is_agreed(app):
    assert dict(list_calls(app)) == EXPECTED


@pytest.mark.thorough
@pytest.mark.parametrize("call", EXPECTED)
def test_nobody_and_too_weak_a_role_are_refused(device, call, tables):
    method, path = call.split()
    path = path.format(id="det_404", snippet="trk_")
    before = tables()
    for role in (None, *KEY_ROLES):
        answer = device.call(method, path, role=role)
        if role is None:
            assert answer.status_code == 401
            assert answer.json["detail"].startswith("Authentication credentials")
        elif KEY_ROLES.index(role) < KEY_ROLES.index(EXPECTED[call]):
            assert answer.status_code == 403
            assert EXPECTED[call] in answer.json["detail"]
        else:
            assert answer.status_code not in {401, 403, 500}
    after = tables()
    after.pop("audit_events")
    before.pop("audit_events")
    assert after == before


def test_a_key_counts_only_in_its_own_header(device):
    bearer = {"Authorization": f"Bearer {device.keys['admin']}"}
    assert device.call("GET", "/me", role=None, headers=bearer).status_code == 401
    for key in ("", " ", "trk_unknown", "\u00e9"):
        wrong = device.call("GET", "/me", role=None, headers={"x-api-token": key})
        assert wrong.status_code == 401


@pytest.fixture
def given(app, database, device, clock):
    """A key of one detector, with a detector and a query that it must not see."""
    from tests.conftest import by
    from tracker.services.people.keys import create_key

    mine, other = device.make("mine")["id"], device.make("other")["id"]
    hidden = device.log(other, {"prediction": "YES"})["id"]
    alone = device.log(other)["id"]
    with database.write() as session:
        device.keys["given"] = create_key(
            session, "given", "admin", by(at=clock()), detectors=[mine]
        )
    return mine, other, hidden, alone


def test_what_a_key_was_not_given_does_not_exist_for_it(device, given):
    mine, other, hidden, alone = given
    listed = device.call("GET", "/detectors", role="given").json
    assert [one["id"] for one in listed["results"]] == [mine]
    assert device.call("GET", "/image-queries", role="given").json["count"] == 0
    assert device.call("GET", "/me", role="given").status_code == 200
    snippet = device.keys["given"][:20]
    token = device.call("GET", f"/api-tokens/by-snippet/{snippet}", role="given")
    assert token.json["token_ttl"] is None
    for call in EXPECTED:
        method, path = call.split()
        if "{id}" not in path:
            continue
        for query in (hidden, alone):
            found = path.format(id=query if "image-queries" in path else other)
            assert device.call(method, found, role="given").status_code == 404, call
    for query in (hidden, alone):
        body = {"label": "YES", "image_query_id": query, "rois": None}
        assert device.call("POST", "/labels", body, role="given").status_code == 404
    sent = device.call(
        "POST",
        "/image-queries",
        role="given",
        query_string={"detector_id": other, "metadata": encode({"prediction": "YES"})},
        data=jpeg(),
        content_type="image/jpeg",
    )
    assert sent.status_code == 404
    path = f"/image-queries?detector_id={other}"
    assert device.call("GET", path, role="given").status_code == 404
