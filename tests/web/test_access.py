"""Every role on every page, and detectors that do not exist for some."""

import io
import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from tests.conftest import START, by, signed_in
from tests.services.irises import SEEDS
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import read
from tracker.http import PUBLIC, required_role
from tracker.services.detectors import get_detector
from tracker.services.imports.background import add_import
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order
from tracker.services.labelling.auditing.audit_lifecycle import create_schedule
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.services.labelling.studies import add_study, parse_study
from tracker.services.people.accounts import change_account, get_account
from tracker.services.people.keys import create_key
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.queries.queries import Query
from tracker.words import ROLES

FIXED = {"filename": "tracker.css", "suffix": "svg"}
OWNERS = {
    "detectors": "det",
    "queries": "iq",
    "studies": "stu",
    "imports": "imp",
    "audits": "aud",
    "audit-schedules": "sch",
}


def list_routes(app: Flask, **values: Any) -> Iterator[tuple[str, str, str, str]]:
    """Yield method, rule, path and role of every route outside the API."""
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith(("/api/", "/device-api/")):
            continue
        role = required_role(app, rule.endpoint)
        assert role is not None, rule.rule
        known = {
            name: values.get(name, FIXED.get(name, "404")) for name in rule.arguments
        }
        # One path for each word of a rule such as <any(disable, enable):change>.
        words: list[dict[str, str]] = [{}]
        either = re.search(r"<any\(([^)]+)\):(\w+)>", rule.rule)
        if either and either[2] not in FIXED:
            words = [{either[2]: one} for one in either[1].split(", ")]
        for word in words:
            path = rule.build(known | word)
            assert path is not None, rule.rule
            for method in sorted(rule.methods - {"HEAD", "OPTIONS"}):
                yield method, rule.rule, path[1], role


def call(client: Any, method: str, path: str, token: str = "") -> int:
    data = {"csrf_token": token, "image": (io.BytesIO(b""), "")}
    with client.open(path, method=method, data=data if method == "POST" else None) as a:
        return int(a.status_code)


@pytest.mark.slow
def test_every_role_on_every_page(app: Flask) -> None:
    visitors = {role: Visitor(app, f"the {role}", role) for role in ROLES}
    nobody = app.test_client()
    seen = 0
    for method, rule, path, role in list_routes(app, account_id=404):
        if rule in {"/sign-out", "/account/sign-out-everywhere"}:
            continue
        if role == PUBLIC:
            # Without a provider in the settings its pages are not there.
            # Passkeys and codes are nothing without a first step before them.
            is_absent = re.search("provider|<token>|security.txt", rule)
            expected = {404} if is_absent else {200, 303, 400, 401, 503}
            assert call(nobody, method, path) in expected, rule
            continue
        assert call(nobody, method, path) in {303, 400, 401}, rule
        for other, visitor in visitors.items():
            status = call(visitor.client, method, path, visitor.token)
            is_refused = ROLES.index(other) < ROLES.index(role)
            assert (status == 403) is is_refused, (method, rule, other, status)
            assert status not in {401, 500}, (method, rule, other)
            seen += 1
    assert seen > 150


@pytest.fixture
def two(shelf: Shelf, database: Database) -> dict[str, dict[str, str]]:
    """Two detectors with a query, a study and an import each: the ids by noun."""
    found: dict[str, dict[str, str]] = {}
    for name in ("given", "secret"):
        detector_id = shelf.add_detector(name=name)
        shelf.add_queries(detector_id, [{"predicted": "YES", "label": "NO"}])
        with database.write() as session:
            detector = get_detector(session, detector_id)
            said = {"name": "seeds", "kind": "seeds", "rounds": SEEDS}
            study, _ = add_study(session, detector, parse_study(said), by("a", START))
            query = session.scalars(
                select(Query).where(Query.detector_id == detector.id)
            ).one()
            file = RowFile("csv", "0", io.BytesIO(b"predicted\n"))
            file_import = add_import(session, Order(detector_id, file, by("a")))
            audit = create_audit(session, detector, NewAudit(name="all"), by("a"))
            weekly = NewAudit(name="weekly", every="week")
            schedule = create_schedule(session, detector, weekly, by("a"))
            found[name] = {
                "audit-schedules": dump_id("sch", schedule.id),
                "audits": dump_id("aud", audit.id),
                "imports": dump_id("imp", file_import.id),
                "detectors": detector_id,
                "queries": dump_id("iq", query.id),
                "studies": dump_id("stu", study.id),
            }
    return found


def limited(app: Flask, database: Database, role: str) -> Visitor:
    signed_in(app, f"limited {role}", role, sees_all=False)
    with database.write() as session:
        account = get_account(session, f"limited {role}")
        change_account(session, account, by(), detectors=["given"])
    return Visitor(app, f"limited {role}")


def values_for(ids: dict[str, str]) -> dict[str, str]:
    return {
        "detector_id": ids["detectors"],
        "query_id": ids["queries"],
        "study_id": ids["studies"],
        "import_id": ids["imports"],
        "audit_id": ids["audits"],
        "schedule_id": ids["audit-schedules"],
    }


@pytest.mark.thorough
def test_what_was_not_given_looks_as_if_it_did_not_exist(
    app: Flask, database: Database, two: dict[str, dict[str, str]]
) -> None:
    visitor = limited(app, database, "editor")
    hidden = values_for(two["secret"])
    never = {name: value.split("_")[0] + "_9999" for name, value in hidden.items()}
    seen = 0
    routes = zip(list_routes(app, **hidden), list_routes(app, **never), strict=True)
    for (method, rule, path, role), (_, _, other, _) in routes:
        if role in {PUBLIC, "admin"} or "_id>" not in rule:
            continue
        first, second = (
            visitor.client.open(
                address,
                method=method,
                data={"csrf_token": visitor.token} if method == "POST" else None,
            )
            for address in (path, other)
        )
        assert (first.status_code, second.status_code) == (404, 404), (method, rule)
        pages = [
            read(answer).text.replace(two["secret"][noun], "X")
            for answer in (first, second)
            for noun in ("detectors",)
        ]
        for prefix, value in zip(OWNERS.values(), hidden.values(), strict=True):
            pages = [p.replace(value, "X") for p in pages]
            pages = [p.replace(f"{prefix}_9999", "X") for p in pages]
        assert pages[0] == pages[1]
        seen += 1
    assert seen > 20


def test_an_editor_of_some_detectors_opens_the_webhook_that_they_added(
    app: Flask, database: Database, two: dict[str, dict[str, str]]
) -> None:
    visitor = limited(app, database, "editor")
    hook = {
        "url": "https://example.org/hook",
        "format": "slack",
        "events": "labels.stalled",
        "sees": "some",
        "detectors": two["given"]["detectors"],
    }
    assert visitor.post("/alerts", hook).status == 200
    assert visitor.get("/alerts/whk_1").status == 200


@pytest.mark.thorough
def test_what_was_given_is_there(
    app: Flask, database: Database, two: dict[str, dict[str, str]]
) -> None:
    visitor = limited(app, database, "viewer")
    listed = visitor.get("/")
    assert "given" in listed.text
    assert "secret" not in listed.text
    assert visitor.get("/detectors/given").status == 200
    assert visitor.get("/detectors/secret").status == 404
    assert visitor.get(f"/queries/{two['given']['queries']}").status == 200
    assert visitor.get(f"/studies/{two['given']['studies']}").status == 200
    assert 'detector="secret"' not in visitor.client.get("/metrics").text


def test_who_makes_a_detector_sees_it(app: Flask, database: Database) -> None:
    signed_in(app, "eve", "editor", sees_all=False)
    visitor = Visitor(app, "eve")
    fields = {"name": "mine", "question": "Is it?", "classes": "YES\nNO"}
    made = visitor.post("/detectors/new", {**fields, "confidence_level": "95"})
    assert made.status == 303
    assert visitor.get("/detectors/mine").status == 200
    other = Visitor(app, "boss")
    assert other.get("/detectors/mine").status == 200


def test_a_key_for_one_detector_sees_no_other(
    app: Flask, database: Database, two: dict[str, dict[str, str]]
) -> None:
    with database.write() as session:
        key = create_key(session, "camera", "editor", by(at=START), detectors=["given"])
    client = app.test_client()
    headers = {"Authorization": f"Bearer {key}"}

    def status(path: str, **options: Any) -> int:
        return client.get(f"/api/v1{path}", headers=headers, **options).status_code

    for noun in OWNERS:
        assert status(f"/{noun}/{two['given'][noun]}") == 200
        assert status(f"/{noun}/{two['secret'][noun]}") == 404
    assert status("/detectors/secret/estimate") == 404
    listed = client.get("/api/v1/detectors", headers=headers).get_json()["items"]
    assert [found["name"] for found in listed] == ["given"]
    assert 'detector="secret"' not in client.get("/metrics", headers=headers).text
    new = {"name": "third", "question": "Is it?"}
    made = client.post("/api/v1/detectors", headers=headers, json=new)
    assert made.status_code == 201
    assert status("/detectors/third") == 200


def test_a_key_opens_no_page(app: Flask, database: Database) -> None:
    with database.write() as session:
        key = create_key(session, "camera", "admin", by(at=START))
    headers = {"Authorization": f"Bearer {key}"}
    for path in ("/keys", "/people", "/activity", "/account"):
        assert app.test_client().get(path, headers=headers).status_code == 303


@pytest.mark.thorough
@pytest.mark.parametrize("role", ROLES)
def test_a_page_offers_only_what_one_may_do(
    app: Flask, shelf: Shelf, role: str
) -> None:
    shelf.add_detector()
    shelf.add_queries("det_1", [{"predicted": "YES"}])
    visitor = Visitor(app, "somebody", role)
    offered = {
        link.attributes["href"]
        for path in ("/", "/detectors/det_1", "/detectors/det_1/queries")
        for link in visitor.get(path).find("a")
    }
    for path in offered:
        if path.startswith("/") and not path.startswith("/api/"):
            assert call(visitor.client, "GET", path) == 200, (role, path)
