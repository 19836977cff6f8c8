"""An address is asked whether it wants mail, and gets nothing else until it says so."""

import threading
from datetime import timedelta

import pytest
from flask import Flask

from tests.conftest import SECRET_KEY, Clock, by, signed_in
from tests.telling.conftest import happen, mail_loop
from tests.telling.mailbox import Mailbox, body, link_of
from tests.web.conftest import Visitor
from tracker.errors import NotFoundError
from tracker.jobs.loop import Loop
from tracker.jobs.telling import MailServer
from tracker.services.people.accounts import create_account, get_account
from tracker.services.telling.mail import MailChoice, choose_mail, find_asked_address
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.tasks import take


@pytest.mark.thorough
def test_an_address_gets_nothing_but_a_question_until_it_is_confirmed(
    database: Database,
    clock: Clock,
    app: Flask,
    door: Detector,
    postman: Loop,
    mailbox: Mailbox,
) -> None:
    visitor, other = Visitor(app, "vera", "admin"), Visitor(app, "otto", "admin")
    typed = {"email": "vera@example.org", "events": ["detector.failing"]}
    visitor.post("/account/mail", typed)
    happen(database, clock)
    assert postman.run() == 1
    (asked,) = mailbox.taken
    assert (asked["To"], asked["Subject"]) == (
        "vera@example.org",
        "Confirm your address",
    )
    assert asked["Auto-Submitted"] == "auto-generated"
    assert "door" not in body(asked)
    path = link_of(asked)
    # Neither somebody else, nor a changed link, nor opening it confirms anything.
    assert other.get(path).status == other.post(path).status == 404
    assert visitor.get(f"{path}x").status == visitor.post(f"{path}x").status == 404
    assert "vera@example.org" in visitor.get(path).text
    happen(database, clock)
    assert postman.run() == 0

    assert visitor.post(path).status == 303
    assert visitor.post(path).status == 404
    happen(database, clock)
    assert postman.run() == 1
    assert mailbox.taken[1]["To"] == "vera@example.org"
    # With another address mail goes on to this one until that is confirmed.
    visitor.post("/account/mail", {**typed, "email": "new@example.org"})
    clock.at += timedelta(hours=1)
    happen(database, clock)
    assert postman.run() == 2
    sent = {one["To"]: one for one in mailbox.taken[2:]}
    assert sorted(sent) == ["new@example.org", "vera@example.org"]
    visitor.post(link_of(sent["new@example.org"]))
    clock.at += timedelta(hours=1)
    happen(database, clock)
    postman.run()
    assert mailbox.taken[-1]["To"] == "new@example.org"


def test_a_link_to_confirm_is_good_for_a_week_and_for_the_address_it_names(
    database: Database,
    clock: Clock,
    app: Flask,
    door: Detector,
    postman: Loop,
    mailbox: Mailbox,
) -> None:
    # Somebody who sees some detectors only confirms an address, too.
    signed_in(app, "vera", "viewer", sees_all=False)
    visitor = Visitor(app, "vera")
    for number, name in enumerate(("a", "b")):
        visitor.post("/account/mail", {"email": f"{name}@example.org"})
        # The second waits: nobody fills the mailboxes of others.
        assert postman.run() == (number == 0)
    clock.at += timedelta(minutes=10)
    assert postman.run() == 1
    first, second = map(link_of, mailbox.taken)
    assert visitor.get(first).status == 404
    assert visitor.get(second).status == 200
    assert visitor.post("/account/mail/ask").status == 303
    assert postman.run() == 0
    for _ in range(2):
        clock.at += timedelta(days=4)
        # Without it the browser would be signed out by then.
        assert visitor.get("/account").status == 200
    with database.read() as session:
        account, token = get_account(session, "vera"), second.rpartition("/")[2]
        with pytest.raises(NotFoundError):
            find_asked_address(session, account, SECRET_KEY, token, clock())
    # From when the mail was sent, not from when it was wanted.
    assert postman.run() == 1
    with database.read() as session:
        account = get_account(session, "vera")
        email = find_asked_address(session, account, SECRET_KEY, token, clock())
    assert email == "b@example.org"
    visitor.post("/account/mail", {"email": ""})
    assert visitor.post("/account/mail/ask").status == 404


def test_an_address_that_is_refused_says_so_and_one_that_fails_is_tried_again(
    database: Database,
    clock: Clock,
    app: Flask,
    door: Detector,
    postman: Loop,
    mailbox: Mailbox,
) -> None:
    visitor = Visitor(app, "vera", "viewer")
    mailbox.answers = ["451 later"]
    visitor.post("/account/mail", {"email": "vera@example.org"})
    assert postman.run() == 0
    clock.at += timedelta(minutes=1)
    assert postman.run() == 1
    mailbox.refused = "550 no such person"
    visitor.post("/account/mail", {"email": "nobody@example.org"})
    clock.at += timedelta(minutes=10)
    assert postman.run() == 0
    assert "550" in visitor.get("/account/mail").text
    mailbox.refused = ""
    clock.at += timedelta(days=1)
    assert postman.run() == 0


def test_workers_at_once_ask_once_and_a_dead_one_is_followed_by_another(
    database: Database, clock: Clock, server: MailServer, mailbox: Mailbox
) -> None:
    with database.write() as session:
        for number in range(4):
            account = create_account(session, f"p{number}", "viewer", by())
            choice = MailChoice(email=f"p{number}@example.org")
            choose_mail(session, account, choice, by())
    with database.write() as session:
        assert take(session, "address", "dead", at=clock())
    mailbox.pause = 0.05
    workers = [mail_loop(database, clock, server, f"w{i}") for i in range(3)]
    threads = [threading.Thread(target=one.run) for one in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({message["To"] for message in mailbox.taken}) == 3
    assert len(mailbox.taken) == 3
    clock.at += timedelta(seconds=6)
    assert workers[0].run() == 1
