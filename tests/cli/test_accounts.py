"""Accounts at the command line, and the link of the first start."""

import http.cookiejar
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.test_commands import Shell
from tests.links import fields_of
from tests.processes import Process, clean_environ, free_port
from tracker.services.people.accounts import get_account, is_right
from tracker.storage.base import list_newest
from tracker.storage.database import Database
from tracker.storage.people import Account, AuditEvent

TRACKER = [sys.executable, "-m", "tracker"]
PASSWORD = "violin anchor tuesday"


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    return Shell(database_url, tmp_path)


def stored(database: Database, name: str) -> Account:
    with database.read() as session:
        return get_account(session, name)


def done(database: Database) -> list[tuple[str, str, str]]:
    with database.read() as session:
        found = list_newest(session, AuditEvent)
        return [(e.actor_kind, e.action, e.subject) for e in reversed(found)]


def test_an_account_from_its_making_to_its_end(
    shell: Shell, database: Database
) -> None:
    shell("detectors", "create", "door", "--question", "Is it closed?")
    made = shell(
        "accounts", "create", "maria", "--role", "labeler", "--detector", "door"
    )
    assert re.fullmatch(
        r"http://127\.0\.0\.1:8000/sign-in\?token=[\w-]{43}\n", made.stdout
    )
    assert "TRACKER_PUBLIC_URL is not set" in made.stderr
    listed = shell("accounts", "list").stdout
    assert "maria" in listed
    assert "det_1" in listed
    assert "no password yet" in listed
    shell("accounts", "change", "maria", "--role", "editor", "--all-detectors")
    assert stored(database, "maria").role == "editor"
    assert stored(database, "maria").has_all_detectors
    before = done(database)
    shell("accounts", "change", "maria", "--role", "editor")
    assert done(database) == before
    shell("accounts", "change", "maria", "--no-detectors")
    assert "none" in shell("accounts", "list").stdout
    shell("accounts", "sign-out", "maria")
    shell("accounts", "disable", "maria")
    assert "is disabled" in shell("accounts", "link", "maria", status=1).stderr
    assert "disabled" in shell("accounts", "list").stdout
    shell("accounts", "enable", "maria")
    shell.environ["TRACKER_PUBLIC_URL"] = "http://127.0.0.1:9000"
    linked = shell("accounts", "link", "maria")
    assert linked.stdout.startswith("http://127.0.0.1:9000/sign-in?token=")
    assert "TRACKER_PUBLIC_URL" not in linked.stderr
    assert done(database)[-1] == ("command", "link made", "maria")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["create", "a", "--role", "boss"], 2, "'boss' is not one of"),
        (["create", "", "--role", "viewer"], 1, "must not be empty"),
        (["create", "a", "--role", "viewer", "--detector", "x"], 1, "no detector 'x'"),
        (["disable", "nobody"], 1, "there is no account 'nobody'"),
        (["password", "nobody"], 1, "there is no account 'nobody'"),
    ],
)
def test_what_cannot_be_is_refused(
    shell: Shell, database: Database, words: list[str], status: int, said: str
) -> None:
    assert said in shell("accounts", *words, status=status).stderr
    assert done(database) == []
    assert "viewer" not in shell("accounts", "list").stdout


def test_a_password_comes_from_the_standard_input(
    shell: Shell, database: Database
) -> None:
    def run(*words: str, typed: str, status: int = 0) -> Result:
        return shell("accounts", *words, typed=typed, status=status)

    new = run("create", "ann", "--role", "admin", "--password", typed=f"{PASSWORD}\n")
    assert new.stdout == ""
    assert is_right(PASSWORD, stored(database, "ann").password_hash)
    weak = run("password", "ann", typed="password1\n", status=1)
    assert "very common password" in weak.stderr
    assert is_right(PASSWORD, stored(database, "ann").password_hash)
    run("password", "ann", typed="lantern gravel 17")
    assert is_right("lantern gravel 17", stored(database, "ann").password_hash)


@pytest.fixture
def served(shell: Shell) -> Iterator["Served"]:
    started = Served(shell)
    yield started
    started.stop()


class Served:
    """``tracker serve``, and what it printed."""

    def __init__(self, shell: Shell) -> None:
        self.environ = clean_environ(**shell.environ)
        self.lines: list[str] = []
        self.start()

    def start(self, lines: int = 3) -> None:
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.process = Process([*TRACKER, "serve", "--port", str(port)], self.environ)
        self.lines = [self.process.line() for _ in range(lines)]

    def stop(self) -> None:
        self.process.stop()

    def open_link(self) -> str:
        """Follow the link with cookies, as a browser does; return where it ends."""
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        opener = urllib.request.build_opener(jar)
        with opener.open(self.lines[2].strip()) as opened:
            fields = urllib.parse.urlencode(fields_of(opened.read().decode()))
        with opener.open(f"{self.url}/sign-in/link", fields.encode()) as page:
            return str(page.url)


@pytest.mark.slow
@pytest.mark.chaos_on("postgresql")
def test_the_first_start_prints_a_link_until_there_is_a_password(
    served: Served, shell: Shell, database: Database
) -> None:
    assert served.lines[0] == f"Tracker is at {served.url}\n"
    assert served.lines[2].startswith(f"  {served.url}/sign-in?token=")
    assert served.open_link() == f"{served.url}/"
    with pytest.raises(urllib.error.HTTPError, match="404"):
        served.open_link()
    assert stored(database, "admin").role == "admin"
    served.stop()
    served.start()
    assert served.open_link() == f"{served.url}/"
    served.stop()
    shell("accounts", "create", "boss", "--role", "admin")
    subprocess.run(
        [*TRACKER, "accounts", "password", "boss"],
        env=served.environ,
        input=PASSWORD,
        check=True,
        capture_output=True,
        text=True,
    )
    served.start(lines=1)
    served.process.popen.terminate()
    assert served.process.popen.communicate(timeout=60)[0] == ""
