"""The page of badges, and the commands."""

import re
from urllib.parse import urlsplit

import pytest
from flask import Flask

from tests.cli.test_commands import Shell
from tests.web.conftest import Shelf, Visitor


def addresses(html: str) -> list[str]:
    return re.findall(r"<code>(http[^<]+)</code>", html)


@pytest.mark.thorough
def test_a_badge_is_made_shown_once_and_revoked(
    app: Flask, visitor: Visitor, shelf: Shelf
) -> None:
    shelf.add_detector()
    shelf.add_detector(name="vault")
    assert "None yet" in visitor.get("/detectors/door/badges").text
    made = visitor.post("/detectors/door/badges")
    assert made.status == 200
    picture, _, frame = addresses(made.html)
    anybody = app.test_client()
    for address in (picture, frame):
        answer = anybody.get(urlsplit(address).path)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=60"
        assert "Set-Cookie" not in answer.headers
    assert "bdg_1" in visitor.get("/detectors/door/badges").text
    assert urlsplit(picture).path not in visitor.get("/detectors/door/badges").html
    other = visitor.post("/detectors/vault/badges/revoke", {"badge": "bdg_1"})
    assert other.status == 404
    gone = visitor.post("/detectors/door/badges/revoke", {"badge": "bdg_1"})
    assert gone.status == 303
    assert anybody.get(urlsplit(picture).path).status_code == 404


def test_the_commands_make_list_and_revoke(
    app: Flask, database_url: str, tmp_path, shelf: Shelf
) -> None:
    shelf.add_detector()
    shell = Shell(database_url, tmp_path)
    shell.environ["TRACKER_PUBLIC_URL"] = "https://tracker.example.org"
    badge, *made = shell("badges", "create", "door").stdout.split()
    assert badge == "bdg_1"
    assert all(one.startswith("https://tracker.example.org/") for one in made)
    path = urlsplit(made[0]).path
    assert app.test_client().get(path).status_code == 200
    assert "bdg_1" in shell("badges", "list", "door").stdout
    shell("badges", "revoke", "bdg_1", "--yes")
    assert app.test_client().get(path).status_code == 404
    assert (
        "there is no badge" in shell("badges", "revoke", "x", "--yes", status=1).stderr
    )
