"""Signing in and out, and who is kept out."""

import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select, text, update

from tests.conftest import START, Clock, by, signed_in
from tests.links import fields_of, use_link
from tests.web.conftest import PASSWORD, Visitor, try_password
from tests.web.reading import read
from tracker.app import create_app
from tracker.services.people.accounts import (
    create_account,
    disable_account,
    get_account,
)
from tracker.services.people.sign_ins import create_link
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.people import Account, AuditEvent, SignIn


def actions(database: Database) -> list[tuple[str, str, str]]:
    with database.read() as session:
        return [
            (event.actor, event.action, event.subject)
            for event in session.scalars(select(AuditEvent).order_by(AuditEvent.id))
        ]


def test_pages_are_for_those_who_signed_in(app: Flask, maria: str) -> None:
    client = app.test_client()
    sent = client.get("/detectors/new?x=1")
    assert sent.status_code == 303
    assert sent.headers["Location"] == "/sign-in?next=/detectors/new?x%3D1"
    assert client.get("/").headers["Location"] == "/sign-in"
    polled = client.get("/", headers={"HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Redirect"]) == (401, "/sign-in")
    metrics = client.get("/metrics")
    assert (metrics.status_code, metrics.mimetype) == (401, "text/plain")
    for public in ("/healthz", "/sign-in", "/static/tracker.css"):
        with client.get(public) as answer:
            assert answer.status_code == 200

    entered = try_password(client, PASSWORD, next="/account")
    assert entered.status == 303
    assert entered.headers["Location"] == "/account"
    assert "maria" in read(client.get("/account")).text


@pytest.mark.thorough
def test_a_cookie_is_kept_from_scripts_and_other_sites(
    app: Flask, settings: Settings, database: Database, clock: Clock, maria: str
) -> None:
    plain = try_password(app.test_client(), PASSWORD).headers["Set-Cookie"]
    assert plain.startswith("tracker=")
    assert "HttpOnly" in plain
    assert "SameSite=Lax" in plain
    assert "Secure" not in plain

    secure = settings.model_copy(update={"public_url": "https://tracker.example.org"})
    client = create_app(secure, database, clock=clock).test_client()
    base = "https://tracker.example.org"
    form = read(client.get("/sign-in", base_url=base)).form("/sign-in")
    fields = {"name": maria, "password": PASSWORD, "csrf_token": form["csrf_token"]}
    # A form of another site would come without this.
    answer = client.post(
        "/sign-in", data=fields, base_url=base, headers={"Referer": f"{base}/sign-in"}
    )
    [cookie] = answer.headers.getlist("Set-Cookie")
    assert cookie.startswith("__Host-tracker=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def test_an_old_cookie_is_dead_after_signing_out(
    app: Flask, database: Database
) -> None:
    visitor = Visitor(app)
    stolen = visitor.client.get_cookie("tracker")
    assert stolen is not None
    assert visitor.post("/sign-out").headers["Location"] == "/sign-in"
    assert visitor.client.get_cookie("tracker") is None

    thief = app.test_client()
    thief.set_cookie("tracker", stolen.value)
    assert thief.get("/account").headers["Location"] == "/sign-in?next=/account"
    with database.read() as session:
        assert session.scalars(select(SignIn)).all() == []
    assert actions(database)[-1] == ("web", "signed out", "web")


def test_signing_in_leaves_nothing_of_before_in_the_cookie(
    app: Flask, maria: str
) -> None:
    client = app.test_client()
    with client.session_transaction() as cookie:
        cookie["planted"] = "by somebody else"
    try_password(client, PASSWORD)
    with client.session_transaction() as cookie:
        assert set(cookie) == {"sign_in", "_permanent"}


def test_out_at_once(app: Flask, database: Database, clock: Clock) -> None:
    visitor, other = Visitor(app, "rosa", "editor"), Visitor(app, "rosa")
    assert visitor.get("/").status == 200
    with database.write() as session:
        rosa = get_account(session, "rosa")
        create_account(session, "boss", "admin", by(at=START))
        disable_account(session, rosa, by(at=clock()))
    for browser in (visitor, other):
        assert browser.client.get("/account").status_code == 303
    with database.write() as session:
        # Even if its row were still there.
        get_account(session, "rosa").disabled_at = None
    third = Visitor(app, "rosa")
    with database.write() as session:
        session.execute(update(Account).values(disabled_at=clock()))
    assert third.client.get("/account").status_code == 303


def test_an_answer_that_was_lost_is_reported(app: Flask, door: str) -> None:
    path = f"/detectors/{door}/label"
    visitor = Visitor(app)
    query = visitor.get(path).form(path)["query"]
    visitor.send("/sign-out")
    here = f"http://localhost{path}?queue=targeted"
    for headers in ({"HX-Request": "true", "HX-Current-URL": here}, {"Referer": here}):
        sent = visitor.client.post(
            path, data={"query": query, "label": "YES"}, headers=headers
        )
        address = sent.headers.get("HX-Redirect") or sent.headers["Location"]
        assert address == f"/sign-in?next={path}?queue%3Dtargeted&lost=answer"
        page = visitor.get(address)
        assert (
            "You were signed out; your last answer was not saved. Sign in to go on."
            in page.text
        )
        assert page.form("/sign-in")["next"] == f"{path}?queue=targeted"
    # What asks by itself loses nothing.
    polled = visitor.client.get(
        f"{path}/progress", headers={"HX-Request": "true", "HX-Current-URL": here}
    )
    assert polled.headers["HX-Redirect"] == f"/sign-in?next={path}?queue%3Dtargeted"
    assert "not saved" not in visitor.get(polled.headers["HX-Redirect"]).text


@pytest.mark.parametrize(
    "before",
    [
        "http://evil.example/detectors/det_1/label",
        "http://[",
        "//evil.example/",
        "nonsense",
        "",
    ],
)
def test_only_a_page_of_ours_is_come_back_to(app: Flask, before: str) -> None:
    sent = app.test_client().post(
        "/detectors/det_1/label",
        headers={"HX-Request": "true", "HX-Current-URL": before},
    )
    assert sent.headers["HX-Redirect"] == "/sign-in?lost=answer"


def test_a_role_that_is_taken_away_is_gone_at_once(
    app: Flask, database: Database
) -> None:
    visitor = Visitor(app, "rosa", "editor")
    assert visitor.get("/detectors/new").status == 200
    with database.write() as session:
        get_account(session, "rosa").role = "viewer"
    assert visitor.get("/detectors/new").status == 403


@pytest.mark.parametrize(
    ("after", "is_in"),
    [
        ([timedelta(days=6)], True),
        ([timedelta(days=8)], False),
        ([timedelta(days=6)] * 4, True),
        ([timedelta(days=6)] * 5 + [timedelta(minutes=1)], False),
    ],
)
def test_a_browser_that_is_not_seen_is_signed_out(
    app: Flask, clock: Clock, after: list[timedelta], is_in: bool
) -> None:
    visitor = Visitor(app)
    for pause in after:
        clock.at += pause
        answer = visitor.client.get("/account")
    assert (answer.status_code == 200) is is_in


def test_a_link_signs_in_once_and_for_a_while(
    app: Flask, database: Database, clock: Clock
) -> None:
    with database.write() as session:
        made = create_account(session, "nora", "labeler", by(at=START))
        used, late = (create_link(session, made, by(at=clock())) for _ in "ab")
    first, second = app.test_client(), app.test_client()
    assert use_link(first, used, next="/account").headers["Location"] == "/account"
    assert "choose a password under your name" in read(first.get("/account")).text
    again = read(second.get(f"/sign-in?token={used}"))
    assert again.status == 404
    assert "already used" in again.text
    clock.at += timedelta(hours=1)
    assert second.get(f"/sign-in?token={late}").status_code == 404
    assert second.get("/sign-in?token=").status_code == 404
    assert second.get("/account").status_code == 303
    assert ("nora", "signed in by a link", "nora") in actions(database)


def test_looking_at_a_link_does_not_spend_it(app: Flask, database: Database) -> None:
    with database.write() as session:
        made = create_account(session, "nora", "labeler", by(at=START))
        token = create_link(session, made, by(at=START + timedelta(minutes=1)))
    scanner, client = app.test_client(), app.test_client()
    for method in ("HEAD", "GET", "GET"):
        opened = scanner.open(f"/sign-in?token={token}", method=method)
        assert opened.status_code == 200
    assert scanner.get("/account").status_code == 303
    assert use_link(client, token).status_code == 303


def test_a_link_of_another_account_asks_first_and_ends_the_session_before(
    app: Flask, database: Database
) -> None:
    with database.write() as session:
        made = create_account(session, "nora", "labeler", by(at=START))
        token = create_link(session, made, by(at=START + timedelta(minutes=1)))
    visitor = Visitor(app, "maria")
    shown_before = visitor.client.get_cookie("tracker")
    opened = visitor.get(f"/sign-in?token={token}")
    assert "You are signed in as maria. Continuing signs you out." in opened.text
    assert "nora" not in visitor.get("/account").text

    assert use_link(visitor.client, token).status_code == 303

    assert "nora" in visitor.get("/account").text
    assert shown_before is not None
    copy = app.test_client()
    copy.set_cookie("tracker", shown_before.value)
    assert copy.get("/account").status_code == 303


def test_signing_in_by_password_ends_the_session_before(app: Flask, maria: str) -> None:
    client, copy = app.test_client(), app.test_client()
    try_password(client, PASSWORD)
    shown_before = client.get_cookie("tracker")
    assert shown_before is not None
    copy.set_cookie("tracker", shown_before.value)
    assert copy.get("/account").status_code == 200

    try_password(client, PASSWORD)

    assert client.get("/account").status_code == 200
    assert copy.get("/account").status_code == 303


def test_two_who_use_a_link_at_once(app: Flask, database: Database) -> None:
    with database.write() as session:
        made = create_account(session, "nora", "labeler", by(at=START))
        token = create_link(session, made, by(at=START + timedelta(minutes=1)))

    def open_it(_: int) -> int:
        client = app.test_client()
        fields = fields_of(client.get(f"/sign-in?token={token}").text)
        all_have_opened_it.wait()
        return client.post("/sign-in/link", data=fields).status_code

    all_have_opened_it = Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(open_it, range(4))) == [303, 404, 404, 404]


def test_wrong_name_and_wrong_password_look_the_same(
    app: Flask, database: Database, maria: str
) -> None:
    with database.write() as session:
        create_account(session, "nopassword", "viewer", by(at=START))
    pages = [
        try_password(app.test_client(), "wrong", name)
        for name in ("maria", "nobody", "nopassword", "m" * 3_000, "a\0b")
    ]
    assert {page.status for page in pages} == {401}
    texts = {re.sub(r'value="[^"]*"', "", page.html) for page in pages}
    assert len({re.sub(r'data-now="[^"]*"', "", text) for text in texts}) == 1
    assert "m" * 200 not in str(actions(database))


def test_wrong_name_and_wrong_password_take_the_same_time(
    app: Flask, database: Database, maria: str
) -> None:
    client = app.test_client()
    seconds: dict[str, list[float]] = {"maria": [], "nobody": []}
    for _ in range(12):
        for name, taken in seconds.items():
            with database.write() as session:
                session.execute(text("DELETE FROM sign_in_tries"))
            # Of the processor: on a busy machine one of two waits longer by chance.
            begun = time.process_time()
            try_password(client, "wrong", name)
            taken.append(time.process_time() - begun)
    known, unknown = (statistics.median(taken) for taken in seconds.values())
    # To hash takes the most of it, so one that was not hashed would take a tenth.
    assert 0.5 < known / unknown < 2


def test_behind_a_proxy_the_address_is_what_it_saw(
    settings: Settings, database: Database, clock: Clock, maria: str
) -> None:
    behind = settings.model_copy(update={"proxies": 1})
    client = create_app(behind, database, clock=clock).test_client()
    form = read(client.get("/sign-in")).form("/sign-in")
    fields = {"name": maria, "password": PASSWORD, "csrf_token": form["csrf_token"]}
    client.post(
        "/sign-in",
        data=fields,
        headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.9"},
    )
    with database.read() as session:
        assert session.scalars(select(SignIn.address)).all() == ["203.0.113.9"]


def test_a_sign_in_without_its_token_is_refused(app: Flask, maria: str) -> None:
    fields = {"name": maria, "password": PASSWORD}
    assert app.test_client().post("/sign-in", data=fields).status_code == 400
    visitor = Visitor(app)
    assert visitor.client.post("/sign-out").status_code == 400
    # The token of one browser is worth nothing in another.
    foreign = read(signed_in(app, "other", "admin").get("/account")).form("/sign-out")
    sent = visitor.client.post("/sign-out", data=foreign)
    assert sent.status_code == 400
    assert visitor.client.get("/account").status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "///evil.example",
        "https:evil.example",
        "https://evil.example",
        "\x01https://evil.example",
        "http:///evil.example",
        "/a\r\nSet-Cookie: x=1",
        "javascript:alert(1)",
        "evil.example",
        " /account",
        "/" + "a" * 3_000,
        "",
    ],
)
def test_after_signing_in_one_stays_on_this_server(
    app: Flask, maria: str, path: str
) -> None:
    entered = try_password(app.test_client(), PASSWORD, next=path)
    assert entered.status == 303
    assert entered.headers["Location"] == "/"


@pytest.mark.thorough
@pytest.mark.usefixtures("slow_hashing")
def test_a_password_stands_nowhere(
    app: Flask,
    database: Database,
    maria: str,
    tables: Callable[[], dict[str, list[Any]]],
) -> None:
    try_password(app.test_client(), PASSWORD)
    try_password(app.test_client(), "another violin", "maria")
    with database.read() as session:
        stored = session.scalars(select(Account.password_hash)).one()
    assert stored is not None
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    dump = str(tables())
    assert PASSWORD not in dump
    assert "another violin" not in dump
