"""What holds of every page: who may see it, what it may load, what it never says."""

import html
import io
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.conftest import signed_in
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, read
from tracker.http import PUBLIC, required_role
from tracker.settings import Settings
from tracker.storage.base import list_rows
from tracker.storage.database import Database
from tracker.storage.people import ApiKey
from tracker.words import ROLES

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"
# No slash can stand in the name of a detector.
HOSTILE_NAME = HOSTILE.replace("</script>", "")
PER_DETECTOR = (
    "",
    "?version=*",
    "?all=1",
    "/changes",
    "/changes?order=oldest",
    "/labelling",
    "/label",
    "/label/progress",
    "/queries",
    "/queries?show=wrong",
    "/import",
    "/studies",
    "/setup",
    "/mistakes",
)


def _paths(detector_id: str, query_id: str) -> list[str]:
    paths = ["/", "/detectors/new", "/keys", f"/queries/{query_id}", "/nowhere"]
    return paths + [f"/detectors/{detector_id}{end}" for end in PER_DETECTOR]


def _a_query(visitor: Visitor, detector_id: str) -> str:
    listed = visitor.get(f"/detectors/{detector_id}/queries").html
    found = re.search(r"/queries/(iq_\d+)", listed)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("/", "Detectors"),
        ("/detectors/new", "Detectors"),
        ("/activity", "Activity"),
        ("/alerts", "Alerts"),
        ("/account/mail", "Alerts"),
        ("/api/v1/docs", "API"),
    ],
)
def test_the_navigation_says_where_one_is(
    visitor: Visitor, path: str, area: str
) -> None:
    links = visitor.get(path).find("a", **{"aria-current": "true"})
    current = [link.text for link in links]
    # On a wide page in the rail, on a phone below it.
    assert dict.fromkeys(current) == {area: None}


def test_the_page_for_all_shows_who_is_signed_in(
    app: Flask, visitor: Visitor, settings: Settings
) -> None:
    def links(client: FlaskClient) -> list[str]:
        answer = client.get("/api/v1/docs")
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in answer.headers
        navs = read(answer).find("nav", **{"aria-label": "Main"})
        return [word for nav in navs for word in nav.text.split()]

    first = ["Tracker", "Close", "the", "menu", "Find", "/", "Inbox", "Detectors"]
    first += ["Label", "Alerts", "Workspace"]
    all_of_them = [*first, "People", "Keys", "Activity", "API", "web"]
    assert links(visitor.client) == all_of_them
    labeler = signed_in(app, "ann", "labeler")
    assert links(labeler) == [*first, "API", "ann"]
    assert links(app.test_client()) == []
    # Not before their second step is set up, where they need one.
    wanted = settings.model_copy(update={"second_factor_roles": ("labeler",)})
    app.extensions["tracker"] = replace(app.extensions["tracker"], settings=wanted)
    assert links(labeler) == []
    visitor.send("/sign-out")
    assert links(visitor.client) == []


def test_every_page_declares_who_may_see_it(app: Flask) -> None:
    roles = {
        rule.endpoint: required_role(app, rule.endpoint)
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith("pages.")
    }
    assert len(roles) > 25
    assert set(roles.values()) <= {PUBLIC, *ROLES}
    assert {e for e, role in roles.items() if role == PUBLIC} == {
        "pages.alive",
        "pages.ask_for_passkey",
        "pages.come_from_provider",
        "pages.go_to_provider",
        "pages.ready",
        "pages.show_badge",
        "pages.show_code",
        "pages.show_embed",
        "pages.show_security_contact",
        "pages.show_sign_in",
        "pages.show_unsubscribe",
        "pages.sign_in_by_code",
        "pages.sign_in_by_link",
        "pages.sign_in_by_passkey",
        "pages.sign_in_by_password",
        "pages.unsubscribe",
    }
    for endpoint in ("pages.show_settings", "pages.make_key", "pages.revoke"):
        assert roles[endpoint] == "admin"


def test_no_page_has_a_script_or_style_of_its_own(
    visitor: Visitor, published: str
) -> None:
    for path in _paths(published, _a_query(visitor, published)):
        page = visitor.get(path)
        assert page.find("style") == [], path
        for script in page.find("script"):
            assert script.attributes["src"].startswith("/static/")
            assert script.text == ""
        for element in page.elements:
            wrong = [
                n for n in element.attributes if n == "style" or n.startswith("on")
            ]
            assert wrong == [], (path, element)
            for name in ("src", "href", "action", "hx-get", "hx-post"):
                address = element.attributes.get(name, "/")
                assert address.startswith(("/", "#", "data:")), (path, address)


def test_every_id_on_a_page_is_unique_and_every_label_has_its_field(
    visitor: Visitor, published: str
) -> None:
    for path in _paths(published, _a_query(visitor, published)):
        page = visitor.get(path)
        ids = [e.attributes["id"] for e in page.elements if "id" in e.attributes]
        assert len(ids) == len(set(ids)), path
        for label in page.find("label"):
            if "for" in label.attributes:
                assert label.attributes["for"] in ids


def test_every_page_is_named_and_strict(visitor: Visitor, published: str) -> None:
    for path in _paths(published, _a_query(visitor, published)):
        page = visitor.get(path)
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert page.headers["Cache-Control"] == "no-store"
        if "/progress" not in path:
            assert len(page.find("h1")) == 1, path
            assert page.find("title")[0].text.endswith("Tracker")
            assert page.find("main", id="main")


@pytest.fixture
def hostile(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> tuple[str, str]:
    """A detector with hostile text wherever text can stand, and one of its queries."""
    detector_id = shelf.add_detector(
        name=HOSTILE_NAME,
        question=HOSTILE,
        classes=[HOSTILE, "NO", f"{HOSTILE}2"],
        target=0.9,
    )
    row = {
        "key": HOSTILE,
        "input": HOSTILE,
        "predicted": HOSTILE,
        "version": HOSTILE,
        "label": HOSTILE,
        "note": HOSTILE,
        "metadata": {HOSTILE: HOSTILE, "inner": [HOSTILE]},
        "image_url": "https://x.example/" + HOSTILE.replace(" ", ""),
    }
    unlabelled = {
        k: v for k, v in row.items() if k in {"predicted", "metadata", "version"}
    }
    wrong = {"predicted": "NO", "label": HOSTILE, "version": HOSTILE}
    shelf.add_queries(detector_id, [unlabelled, unlabelled, wrong, row])
    recompute()
    visitor.send("/keys", {"name": HOSTILE, "role": "viewer"})
    return detector_id, _a_query(visitor, detector_id)


def _assert_tame(page: Page, where: str) -> None:
    assert "<script>alert" not in page.html, where
    assert "<img src=x" not in page.html, where
    kept = re.sub(r"test_[0-9a-f]{12}", "", page.text)
    assert "49" not in re.sub(r"\d\d+\.\d|\d{3,}|\.\d+", "", kept), where
    for element in page.elements:
        assert not [name for name in element.attributes if name.startswith("onerror")]


@pytest.mark.thorough
def test_hostile_text_is_only_ever_shown(
    visitor: Visitor, hostile: tuple[str, str]
) -> None:
    for path in _paths(*hostile):
        page = visitor.get(path)
        assert page.status == (404 if path == "/nowhere" else 200), path
        _assert_tame(page, path)
    shown = visitor.get(f"/detectors/{hostile[0]}")
    assert HOSTILE in html.unescape(shown.html)


@pytest.mark.thorough
def test_hostile_text_in_addresses_and_forms_is_only_ever_shown(
    visitor: Visitor, hostile: tuple[str, str]
) -> None:
    detector = f"/detectors/{hostile[0]}"
    asked = {
        "version": HOSTILE,
        "show": HOSTILE,
        "predicted": HOSTILE,
        "label": HOSTILE,
    }
    asked |= {"scope": HOSTILE, "order": HOSTILE, "within": HOSTILE, "seen": HOSTILE}
    for path in (
        detector,
        f"{detector}/changes",
        f"{detector}/queries",
        f"{detector}/labelling",
    ):
        _assert_tame(visitor.get(path, query_string=asked), path)
        bad = asked | {"version": f"{HOSTILE}!", "method": HOSTILE}
        _assert_tame(visitor.get(path, query_string=bad), path)
    _assert_tame(visitor.get(f"/detectors/{HOSTILE}x"), "unknown detector")
    _assert_tame(visitor.get(f"/queries/{HOSTILE}"), "unknown query")
    fields = dict.fromkeys(("name", "question", "classes", "confidence_level"), HOSTILE)
    fields |= dict.fromkeys(("target", "label", "note", "role", "sampling"), HOSTILE)
    for path in ("/detectors/new", f"{detector}/setup", f"/queries/{hostile[1]}"):
        page = visitor.post(path, fields)
        assert page.status == 422, path
        _assert_tame(page, path)
    _assert_tame(visitor.post("/keys", fields), "keys")
    named = {"file": (io.BytesIO(f"{HOSTILE}\n1\n".encode()), f"{HOSTILE}.csv")}
    _assert_tame(visitor.post(f"{detector}/import", named), "import")


def test_hostile_names_do_not_reach_headers(
    visitor: Visitor, hostile: tuple[str, str]
) -> None:
    for name in ("history.csv", "labels.csv", "chart.json"):
        answer = visitor.client.get(f"/detectors/{hostile[0]}/{name}")
        assert answer.status_code == 200
        assert "alert" not in str(answer.headers)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path",
    [
        "/detectors/new",
        "/detectors/{}/setup",
        "/detectors/{}/archive",
        "/detectors/{}/label",
        "/detectors/{}/import",
        "/keys",
        "/keys/revoke",
        "/queries/iq_16777216",
    ],
)
def test_a_form_without_its_token_is_refused(
    visitor: Visitor, published: str, path: str, database: Database
) -> None:
    fields = {"name": "x", "role": "admin", "sure": "yes", "label": "YES"}
    page = visitor.get("/")
    for token in (None, "forged"):
        data = fields | ({"csrf_token": token} if token else {})
        answer = visitor.client.post(path.format(published), data=data)
        assert answer.status_code == 400
        assert "CSRF" in answer.text
    with database.read() as session:
        assert list_rows(session, ApiKey) == []
    assert visitor.get("/").text == page.text


def test_no_form_of_a_page_lacks_its_token(visitor: Visitor, published: str) -> None:
    for path in _paths(published, _a_query(visitor, published)):
        page = visitor.get(path)
        forms = [f for f in page.find("form") if f.attributes.get("method") == "post"]
        assert len(page.find("input", name="csrf_token")) == len(forms)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path",
    [
        "/nowhere",
        "/detectors/det_99",
        "/detectors/nobody",
        "/detectors/det_99/changes",
        "/detectors/det_99/label",
        "/detectors/det_99/queries",
        "/detectors/det_99/import",
        "/detectors/det_99/setup",
        "/detectors/det_99/labelling",
        "/detectors/det_99/studies",
        "/studies/stu_1",
        "/studies/1",
        "/detectors/det_99/chart.json",
        "/detectors/det_99/history.csv",
        "/detectors/det_99/labels.csv",
        "/queries/iq_1",
        "/queries/1",
        "/queries/iq_1/image",
        "/queries/iq_99999999999999999999999",
    ],
)
def test_what_is_not_there_is_a_404_page(visitor: Visitor, path: str) -> None:
    page = visitor.get(path)
    assert page.status == 404
    assert "404" in page.text
    assert page.find("a", href="/")


def test_a_name_leads_to_its_detector(visitor: Visitor, published: str) -> None:
    assert "87.7 %" in visitor.get("/detectors/door").text
