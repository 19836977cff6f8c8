"""The settings of a detector, API keys, and what the server runs with."""

import re

import pytest

from tests.conftest import SECRET_KEY, Clock
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database

FIELDS = {
    "name": "gate",
    "question": "Is it shut?",
    "confidence_level": "99",
    "target": "97.5",
    "queue_rate": "12.5",
}


def test_a_detector_is_changed(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/setup"
    answer = visitor.send(path, FIELDS)
    assert answer.status_code == 303
    page = visitor.get(path)
    assert "Saved." in page.text
    assert {name: page.form(path)[name] for name in FIELDS} == FIELDS
    assert "99 % sure, however often" in visitor.get(f"/detectors/{published}").text


def test_the_measure_is_chosen_by_what_it_says(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/setup"
    promised = visitor.get(path).by_id("measure-precision-today").text
    assert promised.startswith("“When it says YES, it is right ")
    choice = {"measure": "precision", "precision_of": "NO", "recall_of": "YES"}
    assert visitor.send(path, choice).status_code == 303
    page = visitor.get(path)
    promised = page.by_id("measure-precision-today").text
    assert page.by_id("measure-precision").attributes["checked"] == ""
    title = visitor.get(f"/detectors/{published}").by_id("answer-title").text
    assert title.startswith("When it says NO, it is right ")
    assert promised.strip("“”.") in title


def test_each_measure_is_shown_with_what_it_would_be_once_it_is_chosen(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/setup"
    for measure in ("balanced", "overall", "recall", "precision"):
        shown = visitor.get(path).text
        assert visitor.send(path, {"measure": measure, f"{measure}_of": "YES"})
        title = visitor.get(f"/detectors/{published}").by_id("answer-title").text
        assert f"“{title.partition(' Target')[0]}”" in shown


def test_a_section_is_saved_by_itself(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/setup"
    visitor.send(path, FIELDS)
    answer = visitor.send(path, {"section": "data", "text_field": "body"})
    assert answer.location == f"{path}#data"
    page = visitor.get(path)
    assert page.form(path)["text_field"] == "body"
    assert {name: page.form(path)[name] for name in FIELDS} == FIELDS
    wrong = visitor.post(path, {"section": "labels", "queue_rate": "x"})
    assert wrong.status == 422
    # The token has the second in which it was made.
    typed = {"section": "", "queue_rate": "", "csrf_token": ""}
    assert wrong.form(path) | typed == page.form(path) | typed


def test_setup_shows_who_changed_it_and_what_other_levels_give(
    visitor: Visitor, published: str
) -> None:
    path = f"/detectors/{published}/setup"
    assert "changed by" not in visitor.get(path).text
    visitor.send(path, {"target": "80"})
    text = visitor.get(path).text
    assert "changed by" in text
    assert "Today 90 % gives " in text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_a_class_is_added_later(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/setup"
    before = visitor.get(f"/detectors/{published}/history.csv").html
    for wrong in ("YES", "unclear", "MAYBE\nMAYBE"):
        assert visitor.post(path, FIELDS | {"added": wrong}).status == 422
    assert visitor.send(path, FIELDS | {"added": "MAYBE\n"}).status_code == 303
    assert "MAYBE was added on 2026-01-31" in visitor.get(path).text
    page = visitor.get(f"/detectors/{published}")
    title = page.by_id("answer-title").text
    assert title == "Not measured yet: no label of MAYBE so far."
    assert "Every class needs labels first." in page.text
    # What was stored before is as it was, and says of which classes it is.
    after = visitor.get(f"/detectors/{published}/history.csv").html
    assert after.replace("gate", "door") == before
    assert "MAYBE was added on 2026-01-31" in (
        visitor.get(f"/detectors/{published}/changes?by=labels").text
    )


def test_a_target_is_taken_away(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/setup"
    visitor.send(path, FIELDS | {"target": ""})
    assert visitor.get(path).form(path)["target"] == ""
    listed = visitor.get("/").text
    assert "Set a target for gate" in listed
    assert "decide it" not in listed


def test_a_text_field_is_set_and_taken_away(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/setup"
    for typed, stored in ((" body ", "body"), ("", "")):
        assert visitor.send(path, FIELDS | {"text_field": typed}).status_code == 303
        assert visitor.get(path).form(path)["text_field"] == stored


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ("name", ""),
        ("question", ""),
        ("confidence_level", "0"),
        ("target", "x"),
        ("queue_rate", ""),
        ("queue_rate", "101"),
        ("text_field", "x" * 101),
    ],
)
def test_a_wrong_change_changes_nothing(
    visitor: Visitor, published: str, field: str, typed: str
) -> None:
    path = f"/detectors/{published}/setup"
    page = visitor.post(path, FIELDS | {field: typed})
    assert page.status == 422
    assert page.by_id(f"{field}-error").text
    assert page.form(path)["name"] == (FIELDS | {field: typed})["name"]
    assert visitor.get(path).form(path)["name"] == "door"


def test_a_taken_name_is_refused(
    visitor: Visitor, shelf: Shelf, published: str
) -> None:
    shelf.add_detector(name="gate")
    page = visitor.post(f"/detectors/{published}/setup", FIELDS)
    assert page.status == 422
    assert "exists already" in page.by_id("name-error").text


def test_archiving_asks_first(visitor: Visitor, published: str) -> None:
    path = f"/detectors/{published}/archive"
    assert visitor.post(path).status == 422
    assert "door" in visitor.get("/").text
    assert visitor.send(path, {"sure": "yes"}).status_code == 303
    page = visitor.get("/")
    assert "door is archived." in page.text
    assert "No detector yet" in page.text
    page = visitor.get(f"/detectors/{published}")
    assert "was archived on" in page.text
    assert "87.7 %" in page.text
    assert visitor.post(f"/detectors/{published}/setup", FIELDS).status == 422


def test_a_key_is_shown_once_and_works(visitor: Visitor, door: str) -> None:
    page = visitor.post("/keys", {"name": "line-3", "role": "viewer"})
    key = page.by_id("new-key").text
    assert re.fullmatch(r"trk_[A-Za-z0-9]{32}", key)
    assert page.headers["Cache-Control"] == "no-store"
    assert key not in visitor.get("/keys").html
    assert "line-3" in visitor.get("/keys").text
    call = {"Authorization": f"Bearer {key}"}
    assert visitor.get("/api/v1/detectors", headers=call).status == 200
    answer = visitor.send("/keys/revoke", {"name": "line-3"})
    assert answer.status_code == 303
    assert "revoked" in visitor.get("/keys").text
    assert visitor.get("/api/v1/detectors", headers=call).status == 401


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "", "role": "viewer"}, "name"),
        ({"name": "line-3", "role": "owner"}, "role"),
        ({"name": "line-3", "role": ""}, "role"),
    ],
)
def test_a_wrong_key_is_not_made(
    visitor: Visitor, fields: dict[str, str], field: str
) -> None:
    page = visitor.post("/keys", fields)
    assert page.status == 422
    assert page.by_id(f"{field}-error").text
    assert "Programs need a key" in page.text


def test_two_keys_cannot_have_one_name(visitor: Visitor) -> None:
    visitor.send("/keys", {"name": "line-3", "role": "viewer"})
    page = visitor.post("/keys", {"name": "line-3", "role": "admin"})
    assert page.status == 422
    assert "already" in page.by_id("name-error").text


def test_revoking_an_unknown_key_is_a_404(visitor: Visitor) -> None:
    assert visitor.post("/keys/revoke", {"name": "nobody"}).status == 404


def test_the_settings_are_shown_without_secrets(
    settings: Settings, database: Database, clock: Clock
) -> None:
    secrets = ("secret_key", "oidc_client_secret", "s3_secret_access_key")
    told = dict.fromkeys(secrets, f"s3cr3t{SECRET_KEY}")
    secret = settings.model_copy(update=told)
    assert "s3cr3t" not in repr(secret)
    page = Visitor(create_app(secret, database, clock=clock)).get("/activity/server")
    for name in Settings.model_fields:
        assert f"TRACKER_{name.upper()}" in page.text
    assert "s3cr3t" not in page.html
    password = database.engine.url.password
    if isinstance(password, str) and password:
        assert password not in page.html


def test_how_frequent_the_classes_are_is_typed_by_line(
    visitor: Visitor, shelf: Shelf
) -> None:
    path = f"/detectors/{shelf.add_detector()}/setup"

    def type_in(shares: str) -> Page:
        fields = {"name": "door", "question": "?", "confidence_level": "95"}
        fields |= {"queue_rate": "100", "class_shares": shares}
        sent = visitor.post(path, fields)
        return visitor.get(path) if sent.status == 303 else sent

    assert "YES 97 %\nNO 3 %" in type_in("YES 97 %\r\nNO 3%\r\n").html
    assert (
        "must have a share too" in type_in("YES 97 %").by_id("class_shares-error").text
    )
    assert type_in("often").status == 422
    assert "97" not in type_in("").by_id("class_shares").text


def test_the_accuracy_to_be_told_below_is_typed_in_percent(
    visitor: Visitor, shelf: Shelf
) -> None:
    path = f"/detectors/{shelf.add_detector()}/setup"

    def type_in(reference: str) -> Page:
        fields = {"name": "door", "question": "?", "confidence_level": "95"}
        fields |= {"queue_rate": "100", "reference": reference}
        sent = visitor.post(path, fields)
        return visitor.get(path) if sent.status == 303 else sent

    assert type_in("93 %").by_id("reference").attributes["value"] == "93"
    wrong = type_in("930")
    assert "is not a percentage" in wrong.by_id("reference-error").text
    assert type_in("").by_id("reference").attributes["value"] == ""
