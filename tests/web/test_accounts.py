"""One's own account, those of others, and the log of what was done."""

import csv
import io

import pytest
from flask import Flask

from tests.conftest import START, by
from tests.links import use_link
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, read
from tracker.services.people.accounts import get_account, set_password
from tracker.storage.base import list_detector_ids
from tracker.storage.database import Database
from tracker.storage.people import AccountDetector

PASSWORD = "violin anchor tuesday"
OTHER = "lantern gravel seventeen"


def events(visitor: Visitor) -> list[dict[str, str]]:
    text = visitor.client.get("/activity.csv").text
    return list(csv.DictReader(io.StringIO(text, newline="")))


def token_on(page: Page) -> str:
    link = page.by_id("new-link").text
    assert link.startswith("http://localhost/sign-in?token=")
    return link.partition("token=")[2]


def make(visitor: Visitor, **fields: str | list[str]) -> Page:
    filled = {"name": "maria", "role": "labeler", "sees": "some"} | fields
    return visitor.post("/people", filled)


def test_an_admin_makes_an_account_and_its_owner_gets_in(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    door, _window = shelf.add_detector(name="door"), shelf.add_detector(name="window")
    page = make(visitor, detectors=[door])
    assert page.status == 200
    owner = app.test_client()
    assert use_link(owner, token_on(page)).status_code == 303
    listed = read(owner.get("/")).text
    assert "door" in listed
    assert "window" not in listed
    assert read(owner.get("/account")).text.count("You see 1 detector: door.") == 1
    with database.read() as session:
        maria = get_account(session, "maria")
        assert list(
            list_detector_ids(session, AccountDetector, account_id=maria.id)
        ) == [1]
    # The link is shown once and stands nowhere.
    assert "token=" not in visitor.get("/people").html


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "must not be empty"),
        ({"name": "a" * 101}, "at most 100 characters"),
        ({"name": "a\nb"}, "control characters"),
        ({"name": "web"}, "there is an account named 'web' already; choose another"),
        ({"name": "WEB"}, "'web' already, and 'WEB' is too similar; choose"),
        (
            {"name": "we\u202eb"},
            "'we\\u202eb' is not right: invisible characters",
        ),
        ({"name": "we\u200bb"}, "'we\\u200bb' is not right"),
        ({"name": "we\u00adb"}, "'we\\xadb' is not right"),
        ({"name": "we\ue000b"}, "'we\\ue000b' is not right"),
        ({"role": "boss"}, "must be one of viewer, labeler, editor, admin"),
    ],
)
def test_an_account_that_cannot_be(
    visitor: Visitor, fields: dict[str, str], said: str
) -> None:
    page = make(visitor, **fields)
    assert page.status == 422
    assert said in page.text
    assert "maria" not in [e["subject"] for e in events(visitor)]


def test_a_name_is_of_an_account_or_of_a_key(visitor: Visitor) -> None:
    visitor.post("/keys", {"name": "camera", "role": "editor"})
    assert "there is an API key named 'camera'" in make(visitor, name="camera").text
    assert "there is an API key named 'camera'" in make(visitor, name="Camera").text
    for name in ("web", "Web"):
        page = visitor.post("/keys", {"name": name, "role": "editor"})
        assert page.status == 422
        assert "there is an account named 'web'" in page.text
    page = visitor.post("/keys", {"name": "CAMERA", "role": "editor"})
    assert "'camera' already, and 'CAMERA' is too similar" in page.text
    page = visitor.post("/keys", {"name": "cam\u2066era", "role": "editor"})
    assert "invisible" in page.by_id("name-error").text


def test_role_and_detectors_change(app: Flask, visitor: Visitor, shelf: Shelf) -> None:
    door = shelf.add_detector(name="door")
    make(visitor)
    maria = Visitor(app, "maria")
    assert maria.get(f"/detectors/{door}").status == 404
    changed = {"role": "editor", "sees": "all"}
    assert visitor.post("/people/2", changed).status == 303
    assert maria.get(f"/detectors/{door}/setup").find("div", class_="side-left setup")
    changed = {"role": "viewer", "sees": "some", "detectors": door}
    visitor.post("/people/2", changed)
    shown = maria.get(f"/detectors/{door}/setup")
    assert "Only an editor can change this" in shown.text
    assert shown.find("textarea") == []
    assert maria.post(f"/detectors/{door}/setup", {}).status == 403
    assert maria.get(f"/detectors/{door}").status == 200
    wrong = visitor.post("/people/2", {**changed, "role": "boss"})
    assert wrong.status == 422
    assert visitor.post("/people/9", changed).status == 404


def test_somebody_is_disabled_and_comes_back(app: Flask, visitor: Visitor) -> None:
    page = make(visitor)
    maria = Visitor(app, "maria")
    visitor.post("/people/2/disable")
    assert maria.client.get("/account").status_code == 303
    assert use_link(app.test_client(), token_on(page)).status_code == 404
    assert visitor.post("/people/2/link").status == 409
    visitor.post("/people/2/enable")
    token = token_on(visitor.post("/people/2/link"))
    assert use_link(app.test_client(), token).status_code == 303


def test_the_last_admin_stays(visitor: Visitor) -> None:
    refused = visitor.post("/people/1/disable")
    assert refused.status == 409
    assert "the only admin" in refused.text
    demoted = visitor.post("/people/1", {"role": "viewer", "sees": "all"})
    assert demoted.status == 422
    assert "the only admin" in demoted.text
    make(visitor, name="second", role="admin")
    assert visitor.post("/people/1/disable").status == 303


def test_a_password_is_chosen_and_changed(app: Flask, visitor: Visitor) -> None:
    other = Visitor(app, "web")
    page = visitor.get("/account")
    assert page.find("input", name="old") == []
    chosen = {"password": PASSWORD, "again": PASSWORD}
    assert visitor.post("/account/password", chosen).status == 303
    assert other.client.get("/account").status_code == 303
    assert len(visitor.get("/account").find("input", name_="old")) == 1

    changed = {"password": OTHER, "again": OTHER}
    refused = visitor.post("/account/password", changed)
    assert refused.status == 422
    assert "is not the password you have now" in refused.text
    assert PASSWORD not in refused.html
    assert visitor.post("/account/password", {**changed, "old": PASSWORD}).status == 303
    done = [event["action"] for event in events(visitor)]
    assert done.count("password changed") == 2


@pytest.mark.parametrize(
    ("password", "again", "said"),
    [
        ("short", "short", "it must have 8 to 1,000"),
        ("x" * 1001, "x" * 1001, "it has 1001 characters"),
        ("password1", "password1", "very common password"),
        ("webwebweb", "webwebweb", "only slightly harder to guess"),
        (PASSWORD, OTHER, "does not match the password above"),
        ("", "", "it has 0 characters"),
    ],
)
def test_a_password_that_is_not_taken(
    visitor: Visitor, password: str, again: str, said: str
) -> None:
    page = visitor.post("/account/password", {"password": password, "again": again})
    assert page.status == 422
    assert said in page.text
    assert "password changed" not in [event["action"] for event in events(visitor)]


def test_the_password_now_cannot_be_guessed_here_either(
    visitor: Visitor, database: Database
) -> None:
    with database.write() as session:
        own = get_account(session, "web")
        own.password_hash = None
        set_password(session, own, PASSWORD, by())
    browser = Visitor(visitor.client.application, "web")
    wrong = {"old": "wrong", "password": OTHER, "again": OTHER}
    found = [browser.post("/account/password", wrong).text for _ in range(6)]
    assert ["too many tries" in text for text in found] == [False] * 5 + [True]


def test_signing_out_everywhere(app: Flask, visitor: Visitor) -> None:
    other = Visitor(app, "web")
    page = visitor.get("/account")
    assert page.text.count("(this one)") == 1
    assert len(page.find("tr")) == 3
    assert visitor.post("/account/sign-out-everywhere").status == 303
    for browser in (visitor, other):
        assert browser.client.get("/account").status_code == 303


def test_the_log_says_who_did_what(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    fields = {"name": "door", "question": "Is it?", "classes": "YES\nNO"}
    visitor.post("/detectors/new", {**fields, "confidence_level": "95"})
    visitor.post("/keys", {"name": "=camera()", "role": "editor"})
    visitor.post("/keys/revoke", {"name": "=camera()"})
    make(visitor)
    Visitor(app, "maria").get("/keys")
    visitor.post("/detectors/det_1/archive", {"sure": "yes"})
    logged = [event for event in events(visitor) if event["actor"] != "test"]
    assert [(e["actor"], e["action"], e["subject"]) for e in logged] == [
        ("web", "signed in by a link", "web"),
        ("web", "detector made", "door"),
        ("web", "key made", "'=camera()"),
        ("web", "key revoked", "'=camera()"),
        ("web", "account made", "maria"),
        ("maria", "signed in by a link", "maria"),
        ("maria", "refused", "GET /keys"),
        ("web", "detector archived", "door"),
    ]
    assert {event["address"] for event in logged} == {"127.0.0.1"}
    assert logged[4]["details"] == '{"role": "labeler"}'
    assert logged[0]["happened_at"].startswith(START.isoformat()[:10])
    shown = visitor.get("/activity").find("tbody")[0].text
    assert shown.index("exported") < shown.index("detector made")
    earlier = visitor.get("/activity?before=4").find("tbody")[0].text
    assert earlier.count("detector made") == 1
    assert "exported" not in earlier
    assert visitor.get("/activity.exe").status == 404
