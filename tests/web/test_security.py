"""Where to report a weakness, and sessions that are ended one by one."""

from dataclasses import replace
from datetime import datetime, timedelta

from flask import Flask
from sqlalchemy import select

from tests.conftest import START, signed_in
from tests.web.conftest import Visitor
from tests.web.test_sign_in import actions
from tracker.services.people.accounts import get_account
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.people import SignIn

PATH = "/.well-known/security.txt"


def test_a_contact_is_shown_to_everybody(app: Flask, settings: Settings) -> None:
    assert app.test_client().get(PATH).status_code == 404
    said = settings.model_copy(update={"security_contact": "mailto:a@b.example"})
    app.extensions["tracker"] = replace(app.extensions["tracker"], settings=said)
    answer = app.test_client().get(PATH)
    assert answer.mimetype == "text/plain"
    fields = dict(line.split(": ", 1) for line in answer.text.splitlines())
    assert fields["Contact"] == "mailto:a@b.example"
    # RFC 9116 wants an end, less than a year away.
    left = datetime.fromisoformat(fields["Expires"]) - START
    assert timedelta(days=90) < left < timedelta(days=365)


def list_ids(database: Database, name: str) -> list[int]:
    with database.read() as session:
        owner = get_account(session, name).id
        rows = select(SignIn.id).where(SignIn.account_id == owner).order_by(SignIn.id)
        return [*session.scalars(rows)]


def test_one_browser_is_signed_out_from_another(app: Flask, database: Database) -> None:
    signed_in(app, "rosa", "labeler", sees_all=False)
    first, second = Visitor(app, "rosa"), Visitor(app, "rosa")
    stranger = Visitor(app, "otto", "viewer")
    _, lost, kept = list_ids(database, "rosa")
    path = f"/account/browsers/{lost}/sign-out"
    # What belongs to somebody else does not exist.
    assert stranger.post(path).status == 404
    assert path in second.get("/account").html
    assert f"/account/browsers/{kept}/" not in second.get("/account").html
    assert second.post(path).status == 303
    assert first.get("/account").status == 303
    assert second.get("/account").status == 200
    assert second.post(path).status == 404
    assert actions(database)[-1] == ("rosa", "signed out of a browser", "rosa")
