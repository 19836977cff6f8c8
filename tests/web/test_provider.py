"""Signing in at a real provider on this machine."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient
from joserfc.jwk import RSAKey
from sqlalchemy import select

from tests.conftest import START, Clock, by
from tests.web.openid import CLIENT_ID, CLIENT_SECRET, Provider, started
from tests.web.reading import read
from tracker.app import create_app
from tracker.errors import ConfigurationError
from tracker.services.people.accounts import (
    create_account,
    disable_account,
    get_account,
)
from tracker.services.people.sign_ins import choose_role
from tracker.settings import Settings
from tracker.storage.base import list_rows
from tracker.storage.database import Database
from tracker.storage.people import Account, AuditEvent

MARIA = {"sub": "42", "preferred_username": "maria", "roles": ["labeler"]}


@pytest.fixture
def provider() -> Iterator[Provider]:
    with started() as running:
        running.claims = dict(MARIA)
        yield running


@pytest.fixture
def app(
    settings: Settings, database: Database, clock: Clock, provider: Provider
) -> Flask:
    """The application, whose people sign in at the provider."""
    told = {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
        "oidc_roles": ("editor:staff",),
    }
    return create_app(settings.model_copy(update=told), database, clock=clock)


def go(client: FlaskClient, onward: str = "") -> str:
    """Go to the provider; return the address at which it sends one back."""
    sent = client.get("/sign-in/provider", query_string={"next": onward})
    assert sent.status_code == 302
    at_provider = requests.get(
        sent.headers["Location"], allow_redirects=False, timeout=10
    )
    back = at_provider.headers["Location"]
    assert back.startswith("http://localhost/sign-in/provider/back?")
    return back.removeprefix("http://localhost")


def arrive(client: FlaskClient, onward: str = "") -> Any:
    return client.get(go(client, onward))


def names_and_roles(database: Database) -> list[tuple[str, str]]:
    with database.read() as session:
        return [(row.name, row.role) for row in list_rows(session, Account)]


@pytest.mark.thorough
def test_signing_in_makes_an_account_once(
    app: Flask, database: Database, provider: Provider
) -> None:
    client = app.test_client()
    assert "Sign in at 127.0.0.1" in read(client.get("/sign-in")).text
    arrived = arrive(client, "/account")
    assert (arrived.status_code, arrived.headers["Location"]) == (303, "/account")
    page = read(client.get("/account"))
    assert "Your role is labeler" in page.text
    assert "You were given no detector yet" in page.text

    provider.claims["roles"] = "staff"
    provider.claims["preferred_username"] = "renamed"
    again = app.test_client()
    assert arrive(again).status_code == 303
    assert names_and_roles(database) == [("maria", "editor")]
    with database.read() as session:
        (change,) = session.scalars(
            select(AuditEvent).where(AuditEvent.action == "account changed")
        )
    assert change.details == {"role": {"old": "labeler", "new": "editor"}}
    with again.session_transaction() as cookie:
        assert set(cookie) == {"sign_in", "_permanent"}


@pytest.mark.thorough
def test_an_equal_name_gives_nothing_of_another_account(
    app: Flask, database: Database, provider: Provider
) -> None:
    with database.write() as session:
        create_account(session, "maria", "admin", by(at=START))
    arrive(app.test_client())
    assert names_and_roles(database) == [("maria", "admin"), ("maria 2", "labeler")]
    for number, said in enumerate((None, 7, "", "a\nb", "x" * 101, "MARIA")):
        provider.claims |= {"sub": f"s{number}", "preferred_username": said}
        assert arrive(app.test_client()).status_code == 303
    names = [name for name, _ in names_and_roles(database)]
    assert names[2:] == [*(f"person s{number}" for number in range(5)), "MARIA 3"]


@pytest.mark.thorough
def test_who_has_no_role_is_not_let_in(
    app: Flask, database: Database, provider: Provider
) -> None:
    for roles in ([], ["boss"], "editor", None, 7, {"admin": 1}):
        provider.claims["roles"] = roles
        answer = read(arrive(app.test_client()))
        assert answer.status == 403, roles
        assert "gives you no role here" in answer.text
    assert names_and_roles(database) == []


@pytest.mark.thorough
def test_who_loses_the_role_is_out_in_every_browser(
    app: Flask, provider: Provider
) -> None:
    old, new = app.test_client(), app.test_client()
    arrive(old)
    assert old.get("/account").status_code == 200
    provider.claims["roles"] = []
    assert arrive(new).status_code == 403
    assert old.get("/account").status_code == 303


def test_arriving_from_the_provider_ends_the_session_before(app: Flask) -> None:
    client, copy = app.test_client(), app.test_client()
    arrive(client)
    shown_before = client.get_cookie("tracker")
    assert shown_before is not None
    copy.set_cookie("tracker", shown_before.value)
    assert copy.get("/account").status_code == 200

    arrive(client)

    assert client.get("/account").status_code == 200
    assert copy.get("/account").status_code == 303


@pytest.mark.thorough
def test_after_half_a_day_the_provider_is_asked_again(app: Flask, clock: Clock) -> None:
    client = app.test_client()
    arrive(client)
    clock.at += timedelta(hours=11)
    assert client.get("/account").status_code == 200
    clock.at += timedelta(hours=2)
    assert client.get("/account").status_code == 303


@pytest.mark.slow
def test_who_is_disabled_is_not_let_in(
    app: Flask, database: Database, clock: Clock
) -> None:
    client = app.test_client()
    arrive(client)
    with database.write() as session:
        maria = get_account(session, "maria")
        disable_account(session, maria, by(at=clock()))
    assert client.get("/account").status_code == 303
    assert arrive(client).status_code == 403


@pytest.mark.thorough
def test_what_another_signed_is_refused(
    app: Flask, database: Database, provider: Provider
) -> None:
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "k1"})
    assert arrive(app.test_client()).status_code == 403
    assert names_and_roles(database) == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "wrong",
    [
        {"aud": "another"},
        {"iss": "https://evil.example"},
        {"nonce": "another"},
        {"exp": 1_000_000_000},
    ],
)
def test_a_wrong_claim_is_refused(
    app: Flask, database: Database, provider: Provider, wrong: dict[str, Any]
) -> None:
    provider.claims |= wrong
    assert arrive(app.test_client()).status_code == 403
    assert names_and_roles(database) == []


@pytest.mark.thorough
def test_what_was_not_asked_for_is_refused(
    app: Flask, database: Database, provider: Provider
) -> None:
    client = app.test_client()
    back = go(client)
    # Somebody else's browser, another state, an answer that comes twice.
    assert app.test_client().get(back).status_code == 403
    assert client.get(back.replace("state=", "state=x")).status_code == 403
    assert client.get(back).status_code == 303
    assert client.get(back).status_code == 403
    provider.refuses = True
    assert arrive(app.test_client()).status_code == 403
    assert client.get("/sign-in/provider/back").status_code == 403
    assert names_and_roles(database) == [("maria", "labeler")]


@pytest.mark.thorough
def test_one_stays_on_this_server(app: Flask) -> None:
    assert arrive(app.test_client(), "//evil.example").headers["Location"] == "/"


def test_a_provider_that_is_away(
    settings: Settings, database: Database, clock: Clock
) -> None:
    told = {
        "oidc_issuer": "http://127.0.0.1:1",
        "oidc_client_id": CLIENT_ID,
        "oidc_client_secret": CLIENT_SECRET,
    }
    away = create_app(settings.model_copy(update=told), database, clock=clock)
    answer = read(away.test_client().get("/sign-in/provider"))
    assert answer.status == 503
    assert "The provider did not respond" in answer.text


def test_without_a_provider_there_is_no_such_way(
    settings: Settings, database: Database, clock: Clock
) -> None:
    client = create_app(settings, database, clock=clock).test_client()
    assert client.get("/sign-in/provider").status_code == 404
    assert client.get("/sign-in/provider/back").status_code == 404
    half = settings.model_copy(update={"oidc_issuer": "https://a.example"})
    with pytest.raises(ConfigurationError, match="TRACKER_OIDC_CLIENT_SECRET"):
        create_app(half, database, clock=clock)


@pytest.mark.parametrize(
    ("said", "role"),
    [
        ("admin", "admin"),
        (["viewer", "admin"], "admin"),
        (["staff"], "editor"),
        (["editor"], None),
        ("Admin", None),
        (None, None),
        ([None, 3], None),
    ],
)
def test_the_strongest_role_counts(said: object, role: str | None) -> None:
    assert choose_role({"groups": said}, "groups", {"editor": "staff"}) == role
