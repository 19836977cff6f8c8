"""Mail to people: gathered, sent once an hour, to those who want it and may see it."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from tests.conftest import Clock, by
from tests.processes import free_port
from tests.telling.conftest import happen, mail_loop, rows
from tests.telling.mailbox import HEAD, Mailbox, body, choose, confirm
from tests.web.conftest import Visitor
from tracker.cli.operations.worker import _send_mail
from tracker.errors import ConfigurationError
from tracker.jobs.loop import Loop
from tracker.jobs.telling import MailServer
from tracker.services.detectors import get_detector
from tracker.services.people.accounts import (
    change_account,
    create_account,
    disable_account,
    get_account,
)
from tracker.services.telling.events import tell
from tracker.services.telling.mail import begin_digest, end_digest, mute
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.tasks import LostTaskError, Task, take
from tracker.storage.telling import Notice, delete_ended


def states(database: Database) -> list[str]:
    return sorted(one.state for one in rows(database, Notice))


@pytest.fixture
def anna(database: Database, door: Detector) -> str:
    """A labeler who sees the door, and wants mail of failures and stalls."""
    with database.write() as session:
        create_account(session, "anna", "labeler", by(), detectors=["door"])
    choose(database, "anna", events=["detector.failing", "labels.stalled"])
    return "anna"


def test_one_mail_an_hour_gathers_what_happened(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    happen(database, clock)
    assert postman.run() == 1
    (first,) = mailbox.taken
    assert first["Subject"] == "door: its intervals cannot be recomputed."
    assert (first["To"], first["From"]) == ("anna@example.org", HEAD.sender)
    assert first["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert first["List-Unsubscribe"].startswith(f"<{HEAD.public_url}/mail/unsubscribe/")
    assert f"{HEAD.public_url}/detectors/det_1" in body(first)

    for _ in range(3):
        happen(database, clock, kind="labels.stalled")
    assert postman.run() == 0
    clock.at += timedelta(minutes=58)
    assert postman.run() == 0
    clock.at += timedelta(minutes=2)
    assert postman.run() == 1
    assert mailbox.taken[1]["Subject"] == "door: 3 events"
    assert body(mailbox.taken[1]).count("door: no label for 3 hours.") == 3
    assert first["Message-ID"] != mailbox.taken[1]["Message-ID"]
    clock.at += timedelta(days=1)
    assert postman.run() == 0
    assert states(database) == ["delivered"] * 4


def test_only_those_are_told_who_chose_it_and_see_the_detector(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    with database.write() as session:
        create_account(session, "bob", "viewer", by())
        create_account(session, "carol", "viewer", by(), has_all_detectors=True)
        create_account(session, "dora", "viewer", by(), has_all_detectors=True)
        create_account(session, "erik", "admin", by())
    for name in ("bob", "carol", "erik"):
        choose(database, name)
    happen(database, clock, kind="version.first_seen")
    assert postman.run() == 2
    told = sorted(message["To"] for message in mailbox.taken)
    # Anna asked for other events, bob sees no detector, and dora gave no address.
    assert told == ["carol@example.org", "erik@example.org"]


def test_who_is_asked_by_an_audit_is_mailed_whatever_they_chose(
    database: Database,
    clock: Clock,
    door: Detector,
    anna: str,
    postman: Loop,
    mailbox: Mailbox,
) -> None:
    data = {"audit": "May", "id": "aud_3", "labels": 12, "labelers": ["bob"]}
    for asked in (["bob"], [anna, "bob"]):
        with database.write() as session:
            told = data | {"labelers": asked}
            tell(session, "audit.waiting", door, at=clock(), data=told)
        postman.run()
    (mail,) = mailbox.taken
    assert mail["To"] == "anna@example.org"
    assert mail["Subject"] == "door: the audit May waits for about 12 labels."
    said, link = body(mail).splitlines()[:2]
    assert said.endswith("waits for about 12 labels.")
    assert link.strip() == "https://tracker.example.org/audits/aud_3"


def test_who_lost_the_detector_or_the_account_meanwhile_is_not_told(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    with database.write() as session:
        create_account(session, "bob", "viewer", by(), detectors=["door"])
        create_account(session, "carol", "viewer", by(), detectors=["door"])
    choose(database, "bob")
    choose(database, "carol")
    happen(database, clock)
    with database.write() as session:
        change_account(session, get_account(session, "anna"), by(), detectors=[])
        create_account(session, "root", "admin", by())
        disable_account(session, get_account(session, "bob"), by())
    choose(database, "carol", events=["labels.stalled"])
    assert postman.run() == 0
    assert mailbox.taken == []
    assert rows(database, Notice) == []


def test_of_a_mail_only_what_is_still_wanted_was_told(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    happen(database, clock)
    happen(database, clock, kind="labels.stalled")
    choose(database, anna, events=["labels.stalled"])
    assert postman.run() == 1
    assert "no label" in mailbox.taken[0]["Subject"]
    [notice] = rows(database, Notice)
    assert (notice.event_id, notice.state) == (2, "delivered")
    with database.write() as session:
        at = clock() + timedelta(hours=1)
        delete_ended(session, before=at, limit=10)
    assert states(database) == []


def test_a_server_that_fails_is_tried_again_with_the_same_mail(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    mailbox.answers = ["451 later", "554 no"]
    happen(database, clock)
    assert postman.run() == 0
    (task,) = rows(database, Task)
    assert "451" in task.error
    # What happens meanwhile waits for the next mail: this one stays as it is.
    happen(database, clock, kind="labels.stalled")
    assert postman.run() == 0
    clock.at += timedelta(seconds=6)
    assert postman.run() == 0
    clock.at += timedelta(seconds=20)
    assert postman.run() == 1
    (sent,) = mailbox.taken
    assert sent["Message-ID"] == "<digest.1.1.1@tracker.example.org>"
    assert "no label" not in body(sent)
    clock.at += timedelta(hours=1)
    assert postman.run() == 1
    assert "no label" in mailbox.taken[1]["Subject"]


def test_an_address_that_is_refused_for_good_is_given_up(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    mailbox.refused = "550 no such person"
    happen(database, clock)
    assert postman.run() == 0
    assert states(database) == ["failed"]
    mailbox.refused = "450 busy"
    happen(database, clock)
    attempts = 0
    while "waiting" in states(database) and attempts < 40:
        clock.at += timedelta(hours=14)
        postman.run()
        attempts += 1
    # The seventh is the first after three days.
    assert attempts == 7
    assert mailbox.taken == []


def test_no_server_at_all_loses_nothing(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    away = MailServer("127.0.0.1", free_port(), "none", timeout_seconds=1)
    happen(database, clock)
    assert mail_loop(database, clock, away, "w").run() == 0
    clock.at += timedelta(seconds=10)
    assert postman.run() == 1


def test_without_tls_nothing_is_said_in_the_clear(
    database: Database, clock: Clock, anna: str, server: MailServer, mailbox: Mailbox
) -> None:
    strict = MailServer(server.host, server.port, "starttls", "user", "word")
    happen(database, clock)
    assert mail_loop(database, clock, strict, "w").run() == 0
    assert mailbox.taken == []
    assert "STARTTLS" in rows(database, Task)[0].error


@pytest.mark.thorough
def test_workers_at_once_send_each_mail_once(
    database: Database, clock: Clock, anna: str, server: MailServer, mailbox: Mailbox
) -> None:
    mailbox.pause = 0.05
    with database.write() as session:
        for number in range(6):
            create_account(session, f"p{number}", "viewer", by(), detectors=["door"])
    for number in range(6):
        choose(database, f"p{number}")
    happen(database, clock)
    workers = [mail_loop(database, clock, server, f"w{i}") for i in range(4)]
    threads = [threading.Thread(target=one.run) for one in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [message["To"] for message in mailbox.taken]
    assert len(told) == len(set(told)) == 7


def test_what_a_dead_worker_held_is_sent_by_another_under_the_same_id(
    database: Database, clock: Clock, anna: str, postman: Loop, mailbox: Mailbox
) -> None:
    happen(database, clock)
    with database.write() as session:
        [taken] = take(session, "digest", "dead", at=clock())
    with database.write() as session:
        begin_digest(session, taken, HEAD, clock())
    happen(database, clock)
    assert postman.run() == 0
    clock.at += timedelta(seconds=6)
    assert postman.run() == 1
    assert mailbox.taken[0]["Message-ID"] == "<digest.1.1.1@tracker.example.org>"
    # The dead one wakes up, and has nothing to say any more.
    with pytest.raises(LostTaskError), database.write() as session:
        end_digest(session, taken, [1, 2], None, clock())
    assert states(database) == ["delivered", "waiting"]


def test_the_link_in_a_mail_ends_it_by_one_post_without_a_page(
    database: Database,
    clock: Clock,
    app: Flask,
    anna: str,
    postman: Loop,
    mailbox: Mailbox,
) -> None:
    happen(database, clock)
    postman.run()
    path = (
        mailbox.taken[0]["List-Unsubscribe"].strip("<>").removeprefix(HEAD.public_url)
    )
    browser = app.test_client()
    assert "Turn off mail about" in browser.get(path).text
    assert browser.post(f"{path}x").status_code == 404
    clock.at += timedelta(hours=1)
    happen(database, clock)
    # To open the link has ended nothing.
    assert postman.run() == 1
    happen(database, clock)
    clicked = browser.post(path, data={"List-Unsubscribe": "One-Click"})
    assert clicked.status_code == 200
    assert "Set-Cookie" not in clicked.headers
    happen(database, clock)
    # What was mailed is still known; what waited is not.
    assert states(database) == ["delivered"] * 2


def test_a_person_chooses_on_the_page_of_their_account(
    database: Database, clock: Clock, app: Flask, door: Detector
) -> None:
    visitor = Visitor(app, "vera", "viewer")
    with database.write() as session:
        account = get_account(session, "vera")
        change_account(session, account, by(), detectors=["door"])
    page = visitor.get("/account/mail")
    assert "This server does not send mail yet" in page.text
    typed = {"email": "vera@example.org", "events": ["detector.failing"]}
    assert visitor.post("/account/mail", typed).status == 303
    assert "Confirm vera@example.org" in visitor.get("/account/mail").text
    with database.write() as session:
        confirm(session, get_account(session, "vera"))
    assert "vera@example.org" in visitor.get("/account").text
    happen(database, clock)
    assert len(rows(database, Notice)) == 1
    wrong = visitor.post("/account/mail", {**typed, "email": "vera at home"})
    assert wrong.status == 422
    assert "like anna@example.org" in wrong.by_id("email-error").text
    hostile = visitor.post("/account/mail", {**typed, "email": "a@b.c\r\nBcc: x@y.z"})
    assert hostile.status == 422
    assert visitor.post("/account/mail", {"email": ""}).status == 303
    assert rows(database, Notice) == []


def test_a_person_can_let_ended_mail_come_again(
    database: Database, clock: Clock, app: Flask, door: Detector
) -> None:
    visitor = Visitor(app, "vera", "viewer")
    with database.write() as session:
        vera, found = get_account(session, "vera"), get_detector(session, "door")
        mute(session, vera, found, by(), is_muted=True)
    choose(database, "vera", events=["detector.failing"])
    happen(database, clock)
    assert rows(database, Notice) == []
    assert "door" in visitor.get("/account/mail").text
    assert visitor.post("/account/mail/again", {"detector": "1"}).status == 303
    assert visitor.post("/account/mail/again", {"detector": "1"}).status == 404
    happen(database, clock)
    assert len(rows(database, Notice)) == 1


@pytest.mark.parametrize("missing", ["mail_from", "public_url"])
def test_a_server_without_sender_or_links_is_refused(
    database: Database, missing: str, settings: Any
) -> None:
    given = {
        "smtp_host": "smtp.example.org",
        "mail_from": "t@example.org",
        "public_url": "https://t.example.org",
    }
    complete = settings.model_copy(update=given)
    assert _send_mail(settings, database) == []
    assert len(_send_mail(complete, database)) == 2
    with pytest.raises(ConfigurationError, match=missing.upper()):
        _send_mail(complete.model_copy(update={missing: ""}), database)
