"""Who may call what: every role on every route."""

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.conftest import by
from tracker.app import create_app
from tracker.http import PUBLIC, required_role
from tracker.services.people.keys import revoke_key
from tracker.words import KEY_ROLES, ROLES

VALUES = {"id": "det_404", "name": "v1", "file": "swagger-ui.css"}
EXPECTED = {
    "POST /api/v1/detectors": "logger",
    "GET /api/v1/detectors": "viewer",
    "GET /api/v1/detectors/{id}": "viewer",
    "PATCH /api/v1/detectors/{id}": "editor",
    "DELETE /api/v1/detectors/{id}": "admin",
    "POST /api/v1/detectors/{id}/queries": "logger",
    "GET /api/v1/detectors/{id}/queries": "viewer",
    "GET /api/v1/detectors/{id}/next": "labeler",
    "GET /api/v1/queries/{id}": "viewer",
    "PATCH /api/v1/queries/{id}": "editor",
    "GET /api/v1/queries/{id}/image": "viewer",
    "DELETE /api/v1/queries/{id}": "admin",
    "DELETE /api/v1/queries/{id}/image": "admin",
    "POST /api/v1/queries/{id}/labels": "labeler",
    "GET /api/v1/queries/{id}/labels": "viewer",
    "PUT /api/v1/queries/{id}/tags": "labeler",
    "POST /api/v1/detectors/{id}/import": "logger",
    "GET /api/v1/detectors/{id}/imports": "editor",
    "GET /api/v1/imports/{id}": "editor",
    "GET /api/v1/detectors/{id}/estimate": "viewer",
    "GET /api/v1/detectors/{id}/attribution": "viewer",
    "GET /api/v1/detectors/{id}/attribution/anchors": "viewer",
    "POST /api/v1/detectors/{id}/attribution": "editor",
    "GET /api/v1/detectors/{id}/comparison": "viewer",
    "GET /api/v1/detectors/{id}/replay": "viewer",
    "POST /api/v1/detectors/{id}/gate": "viewer",
    "PATCH /api/v1/detectors/{id}/versions/{name}": "editor",
    "POST /api/v1/detectors/{id}/recompute": "editor",
    "GET /api/v1/detectors/{id}/history": "viewer",
    "GET /api/v1/detectors/{id}/chart.svg": "viewer",
    "GET /api/v1/detectors/{id}/chart.png": "viewer",
    "GET /api/v1/detectors/{id}/chart.json": "viewer",
    "POST /api/v1/detectors/{id}/studies": "editor",
    "GET /api/v1/detectors/{id}/studies": "viewer",
    "GET /api/v1/studies/{id}": "viewer",
    "GET /api/v1/studies/{id}/rounds": "viewer",
    "POST /api/v1/detectors/{id}/audits": "editor",
    "GET /api/v1/detectors/{id}/audits": "viewer",
    "GET /api/v1/audits/{id}": "viewer",
    "GET /api/v1/audits/{id}/next": "labeler",
    "GET /api/v1/audits/{id}/estimate": "viewer",
    "GET /api/v1/audits/{id}/history": "viewer",
    "GET /api/v1/audits/{id}/savings": "viewer",
    "GET /api/v1/audits/{id}/record": "viewer",
    "PATCH /api/v1/audits/{id}": "editor",
    "POST /api/v1/audits/{id}/pause": "editor",
    "POST /api/v1/audits/{id}/resume": "editor",
    "POST /api/v1/audits/{id}/close": "editor",
    "POST /api/v1/detectors/{id}/rechecks": "editor",
    "GET /api/v1/detectors/{id}/rechecks": "viewer",
    "POST /api/v1/queries/{id}/recheck": "labeler",
    "GET /api/v1/queries/{id}/recheck": "viewer",
    "GET /api/v1/detectors/{id}/labelers": "editor",
    "GET /api/v1/detectors/{id}/assignments": "labeler",
    "PUT /api/v1/detectors/{id}/assignments": "editor",
    "DELETE /api/v1/detectors/{id}/assignments": "editor",
    "GET /api/v1/detectors/{id}/gold": "editor",
    "PUT /api/v1/queries/{id}/gold": "editor",
    "GET /api/v1/queries/{id}/gold": "editor",
    "DELETE /api/v1/queries/{id}/gold": "editor",
    "POST /api/v1/otlp/v1/logs": "editor",
    "GET /api/v1/detectors/{id}/judges": "viewer",
    "GET /api/v1/queries/{id}/judgements": "viewer",
    "POST /api/v1/queries/{id}/judgements": "editor",
    "GET /api/v1/detectors/{id}/plan": "viewer",
    "GET /api/v1/openapi.json": PUBLIC,
    "GET /api/v1/docs": PUBLIC,
    "GET /api/v1/docs/{file}": PUBLIC,
}


def list_calls(app):
    """Return (method, path with names, path with values, role) of each API call."""
    for rule in app.url_map.iter_rules():
        if not rule.rule.startswith("/api/"):
            continue
        named = rule.build({name: f"{{{name}}}" for name in rule.arguments})[1]
        path = named.replace("%7B", "{").replace("%7D", "}")
        for method in sorted(rule.methods - {"HEAD", "OPTIONS"}):
            role = required_role(app, rule.endpoint)
            yield method, path, path.format(**VALUES), role


def test_every_call_declares_the_role_that_is_agreed(app):
    declared = {f"{method} {path}": role for method, path, _, role in list_calls(app)}
    # Rooms that come later add calls of their own; each must declare a role.
    assert {call: declared.get(call) for call in EXPECTED} == EXPECTED
    assert all(role in {PUBLIC, *KEY_ROLES} for role in declared.values()), declared


def is_too_weak(role, wanted):
    """Who only logs may do nothing else, and who labels may not log."""
    if "logger" in {role, wanted}:
        return role not in {wanted, "editor", "admin"} or wanted != "logger"
    return ROLES.index(role) < ROLES.index(wanted)


@pytest.mark.thorough
def test_nobody_and_too_weak_a_role_are_refused(app, api, tables):
    before = tables()
    refused = 0
    for method, path, address, role in list_calls(app):
        if role == PUBLIC:
            assert api.call(method, address, role=None).status_code == 200, path
            continue
        assert_problem(api.call(method, address, role=None), 401)
        for other in KEY_ROLES:
            answer = api.call(method, address, role=other)
            if is_too_weak(other, role):
                problem = assert_problem(answer, 403)
                assert role in problem["detail"]
                refused += 1
            else:
                assert answer.status_code not in {401, 403}, (other, method, path)
    after = tables()
    noted = len(after.pop("audit_events")) - len(before.pop("audit_events"))
    # Ten in a minute of each of the four keys that are refused anything.
    assert 30 < noted <= 40 < refused
    assert after == before


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Bearer",
        "Bearer ",
        "Bearer trk_unknown",
        "Bearer \u00e9",
        "Basic YTpi",
        "trk_unknown",
    ],
)
def test_what_is_no_key_is_refused(api, header):
    assert_problem(
        api.get("/detectors", role=None, headers={"Authorization": header}), 401
    )


def test_a_key_that_only_logs_sees_nothing_of_what_it_sent(api):
    new = {"name": "door", "question": "Is it shut?"}
    assert api.post("/detectors", new, role="logger").status_code == 201
    row = {"predicted": "YES", "label": "NO", "key": "1"}
    logged = api.post("/detectors/door/queries", row, role="logger")
    assert logged.status_code == 201
    for path in (
        "/detectors/door",
        "/detectors/door/queries",
        "/detectors/door/labels",
    ):
        assert_problem(api.get(path, role="logger"), 403)
    answer = api.post(
        f"/queries/{logged.json['id']}/labels", {"label": "YES"}, role="logger"
    )
    assert "it takes labeler" in assert_problem(answer, 403)["detail"]


def test_a_key_in_the_address_is_no_key(api, keys):
    assert_problem(api.get(f"/detectors?key={keys['admin']}", role=None), 401)


def test_a_revoked_key_is_refused_at_once(api, database, clock):
    assert api.get("/detectors", role="viewer").status_code == 200
    with database.write() as session:
        revoke_key(session, "viewer-key", by(at=clock()))
    assert_problem(api.get("/detectors", role="viewer"), 401)
    assert api.get("/detectors", role="labeler").status_code == 200


@pytest.mark.thorough
def test_a_view_without_a_declaration_is_refused_to_all(
    settings, database, clock, keys
):
    app = create_app(settings, database, clock=clock)
    app.add_url_rule("/api/v1/undeclared", "undeclared", lambda: "secret")
    api = Api(app, keys)
    assert_problem(api.get("/undeclared"), 403)
    assert_problem(api.get("/undeclared", role=None), 401)


def test_a_browser_needs_no_token_and_gets_no_cookie(api, door):
    made = api.post("/detectors/door/queries", {"predicted": "YES"})
    assert made.status_code == 201
    assert "Set-Cookie" not in made.headers


def test_a_request_for_another_host_is_refused(api):
    assert_problem(api.get("http://evil.example/api/v1/detectors"), 400)
