"""A second step to sign in: an app, recovery codes, and who needs one."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from click.testing import CliRunner
from flask import Flask
from flask.testing import FlaskClient

from tests.conftest import Clock, by, signed_in
from tests.databases import url_of
from tests.links import use_link
from tests.web.conftest import PASSWORD, Visitor, try_password
from tests.web.reading import Page, read
from tests.web.test_sign_in import actions
from tracker.cli import main
from tracker.services.people.accounts import get_account, set_password
from tracker.services.people.second_factors import step_of, totp_code
from tracker.services.people.sign_ins import create_link
from tracker.storage.base import count_rows
from tracker.storage.database import Database
from tracker.storage.people import RecoveryCode, has_second_factor

PAGE = "/account/second-step"
# RFC 6238, appendix B, for SHA-1: the last six of its eight digits.
PUBLISHED = {
    59: "287082",
    1111111109: "081804",
    1111111111: "050471",
    1234567890: "005924",
    2000000000: "279037",
    20000000000: "353130",
}


@pytest.mark.parametrize("seconds", PUBLISHED)
def test_a_code_is_that_of_the_standard(seconds: int) -> None:
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    assert totp_code(secret, seconds // 30) == PUBLISHED[seconds]


class Person:
    """Somebody with a password and an app."""

    def __init__(self, app: Flask, clock: Clock, name: str = "maria") -> None:
        self.app, self.clock = app, clock
        self.visitor = Visitor(app, name)
        page = self.visitor.post(f"{PAGE}/app")
        self.secret = page.by_id("secret").text
        shown = self.visitor.post(f"{PAGE}/app/confirm", {"code": self.code()})
        self.codes = shown.by_id("new-codes").text.split()

    def code(self, steps: int = 0) -> str:
        return totp_code(self.secret, step_of(self.clock.at) + steps)

    def later(self, seconds: int = 60) -> None:
        self.clock.at += timedelta(seconds=seconds)

    def enter(self) -> FlaskClient:
        client = self.app.test_client()
        entered = try_password(client, PASSWORD, next="/account")
        assert entered.headers["Location"] == "/sign-in/code?next=/account"
        return client


def send_code(client: FlaskClient, code: str) -> Page:
    page = read(client.get("/sign-in/code?next=/account"))
    token = page.form("/sign-in/code")["csrf_token"]
    fields = {"csrf_token": token, "code": code, "next": "/account"}
    return read(client.post("/sign-in/code", data=fields))


@pytest.fixture
def person(app: Flask, clock: Clock, maria: str) -> Person:
    found = Person(app, clock)
    found.later()
    return found


def test_a_password_alone_lets_nobody_in_any_more(
    person: Person, database: Database
) -> None:
    client = person.enter()
    assert client.get("/account").status_code == 303
    assert send_code(client, "000000").status == 401
    assert client.get("/account").status_code == 303
    entered = send_code(client, person.code())
    assert (entered.status, entered.headers["Location"]) == (303, "/account")
    assert client.get("/account").status_code == 200
    told = [(action, who) for who, action, _ in actions(database)]
    assert ("second step added", "maria") in told
    assert ("recovery codes made", "maria") in told
    assert told[-1] == ("signed in and a code", "maria")


def test_each_code_is_taken_once(person: Person) -> None:
    code = person.code()
    assert send_code(person.enter(), code).status == 303
    client = person.enter()
    assert send_code(client, code).status == 401
    # Nor one of before it, which a window of time would let in.
    assert send_code(client, person.code(-1)).status == 401
    person.later()
    assert send_code(client, person.code()).status == 303


def test_a_clock_may_be_off_by_half_a_minute_and_no_more(person: Person) -> None:
    client = person.enter()
    assert send_code(client, person.code(-2)).status == 401
    assert send_code(client, person.code(2)).status == 401
    assert send_code(client, person.code(1)).status == 303


def test_codes_are_tried_five_times_and_no_more(person: Person) -> None:
    client = person.enter()
    tried = [send_code(client, "000000").status for _ in range(5)]
    # The password was the first try.
    assert tried == [401] * 4 + [429]
    assert send_code(client, person.code()).status == 429
    person.later(16 * 60)
    assert send_code(person.enter(), person.code()).status == 303


def test_a_recovery_code_signs_in_once(person: Person, database: Database) -> None:
    assert len(set(person.codes)) == 10
    typed = person.codes[3].upper().replace("-", " ")
    assert send_code(person.enter(), typed).status == 303
    assert send_code(person.enter(), person.codes[3]).status == 401
    with database.read() as session:
        assert count_rows(session, RecoveryCode) == 9
    assert actions(database)[-2][1] == "signed in and a recovery code"


def test_a_link_does_not_pass_by_the_second_step(
    person: Person, database: Database
) -> None:
    with database.write() as session:
        made = create_link(
            session, get_account(session, "maria"), by(at=person.clock.at)
        )
    client = person.app.test_client()
    answer = use_link(client, made)
    assert answer.headers["Location"].startswith("/sign-in/code")
    assert client.get("/account").status_code == 303


def test_the_first_step_ends_with_time_and_with_a_new_password(
    person: Person, database: Database
) -> None:
    client = person.enter()
    person.later(11 * 60)
    assert client.get("/sign-in/code").headers["Location"].startswith("/sign-in")
    client = person.enter()
    with database.write() as session:
        own = get_account(session, "maria")
        set_password(session, own, "another violin tuesday", by(at=person.clock.at))
    assert client.get("/sign-in/code").status_code == 303


def test_a_secret_is_used_only_after_its_first_code(
    app: Flask, clock: Clock, maria: str
) -> None:
    visitor = Visitor(app, "maria")
    visitor.post(f"{PAGE}/app")
    wrong = visitor.post(f"{PAGE}/app/confirm", {"code": "000000"})
    assert (wrong.status, "check the clock" in wrong.text) == (422, True)
    entered = try_password(app.test_client(), PASSWORD, next="/account")
    assert entered.headers["Location"] == "/account"


def test_a_secret_that_was_begun_earlier_is_not_shown_again(
    app: Flask, maria: str
) -> None:
    visitor = Visitor(app, "maria")
    first = visitor.post(f"{PAGE}/app").by_id("secret").text
    wrong = visitor.post(f"{PAGE}/app/confirm", {"code": "000000"})
    assert wrong.by_id("secret").text == first
    assert visitor.post(f"{PAGE}/app").by_id("secret").text != first


def test_an_open_browser_is_not_enough_to_change_the_way_in(person: Person) -> None:
    person.later(3_700)
    visitor = person.visitor
    assert "more than an hour ago" in visitor.get(PAGE).text
    for path in ("app/remove", "codes", "app"):
        assert visitor.post(f"{PAGE}/{path}").headers["Location"].startswith("/sign-in")
    assert "Your authenticator app was set up" in visitor.get(PAGE).text


def test_without_app_and_passkey_there_are_no_recovery_codes(
    person: Person, database: Database
) -> None:
    assert person.visitor.post(f"{PAGE}/app/remove").status == 303
    with database.read() as session:
        assert count_rows(session, RecoveryCode) == 0
    entered = try_password(person.app.test_client(), PASSWORD, next="/account")
    assert entered.headers["Location"] == "/account"


def test_an_admin_resets_it_by_page(person: Person, database: Database) -> None:
    with database.read() as session:
        number = get_account(session, "maria").id
    admin = Visitor(person.app, "boss")
    page = f"/people/{number}"
    assert admin.post(f"{page}/second-step/reset").status == 303
    assert actions(database)[-1] == ("boss", "second step reset", "maria")
    assert "Reset the second step" not in admin.get(page).text
    assert admin.post(f"{page}/second-step/reset").status == 404


def test_an_admin_resets_it_by_command(
    person: Person, database: Database, tmp_path
) -> None:
    environ = {"TRACKER_DATABASE_URL": url_of(database), "TRACKER_DATA_DIR": tmp_path}
    said = CliRunner().invoke(
        main,
        ["accounts", "reset-second-step", "maria"],
        env={name: str(value) for name, value in environ.items()},
    )
    assert said.exit_code == 0, said.output
    with database.read() as session:
        assert not has_second_factor(session, get_account(session, "maria").id)


def test_a_role_that_needs_it_can_do_nothing_before(
    app: Flask, settings, clock: Clock, maria: str
) -> None:
    wanted = settings.model_copy(update={"second_factor_roles": ("viewer",)})
    app.extensions["tracker"] = replace(app.extensions["tracker"], settings=wanted)
    client = signed_in(app, "maria", "viewer")
    assert client.get("/").headers["Location"] == PAGE
    polled = client.get("/", headers={"HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Redirect"]) == (401, PAGE)
    assert "need a second step here" in read(client.get(PAGE)).text
    Person(app, clock)
    assert client.get("/").status_code == 200
    other = signed_in(app, "boss", "admin")
    assert other.get("/").status_code == 200


def test_a_passkey_that_is_made_up_signs_nobody_in(app: Flask) -> None:
    client = app.test_client()
    token = read(client.get("/sign-in")).form("/sign-in")["csrf_token"]
    headers = {"X-CSRFToken": token}
    options = client.post("/sign-in/passkey/options", headers=headers)
    assert re.fullmatch(r"[\w-]{40,}", options.get_json()["challenge"])
    for credential in (None, [], {}, {"id": 7}, {"id": "x"}, {"id": "\0"}, {"id": "é"}):
        sent = client.post(
            "/sign-in/passkey", headers=headers, json={"credential": credential}
        )
        assert sent.status_code == 401
    assert client.post("/sign-in/passkey", json={}).status_code == 400
