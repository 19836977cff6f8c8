"""A camera loop gets worse: who is told of it, while workers are killed.

All parts run as processes.  The loop logs labelled queries by HTTP; the webhook, the
mail, the gate, the metrics and the badge are looked at as their users do.
"""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from aiosmtpd.controller import Controller
from sqlalchemy import func, select
from standardwebhooks import Webhook

from tests.chaos.service import Service
from tests.conftest import IS_LONG, by
from tests.processes import ROOT, TRACKER, clean_environ, fetch, free_port, wait_until
from tests.telling.mailbox import Mailbox, body
from tests.telling.receiver import Receiver, receiving
from tracker.clock import utc_now
from tracker.services.people.accounts import create_account, get_account
from tracker.services.telling.mail import MailChoice, choose_mail, confirm_address
from tracker.storage.database import Database, open_database
from tracker.storage.estimates.snapshots import Snapshot

SECRET_KEY = "5d41402abc4b2a76b9719d911017c592"
TARGET, BEFORE, AFTER = 0.9, 0.95, 0.85
# A batch is what the loop has seen in a while.
BATCH, MOST_BATCHES = 250, 60
KILLS = 10 if IS_LONG else 2
EVENTS = ["verdict.changed"]


class Loop:
    """A camera loop that logs what it saw, with the truth that came later."""

    def __init__(self, service: Service) -> None:
        self.service, self.logged = service, 0
        self.rng = np.random.default_rng(8)

    @property
    def verdict(self) -> str:
        """What the interval of all labels says now."""
        estimate = self.service.ask("GET", "/detectors/door/estimate").json
        return str(estimate["decision"]["verdict"])

    def log(self, accuracy: float) -> None:
        truths = self.rng.choice(["YES", "NO"], BATCH).tolist()
        hits = (self.rng.random(BATCH) < accuracy).tolist()
        other = {"YES": "NO", "NO": "YES"}
        rows = [
            {
                "key": f"frame-{self.logged + number}",
                "predicted": truth if hit else other[truth],
                "label": truth,
                "sampling": "random",
            }
            for number, (truth, hit) in enumerate(zip(truths, hits, strict=True))
        ]
        answer = self.service.ask("POST", "/detectors/door/import", {"items": rows})
        assert answer.json["labels_added"] == BATCH
        self.logged += BATCH


def tell_by(mail_port: int, url: str) -> dict[str, str]:
    """The settings of a server that may tell receivers on this machine."""
    return {
        "TRACKER_WEBHOOK_HOSTS": "127.0.0.1",
        "TRACKER_SECRET_KEY": SECRET_KEY,
        "TRACKER_SMTP_HOST": "127.0.0.1",
        "TRACKER_SMTP_PORT": str(mail_port),
        "TRACKER_SMTP_SECURITY": "none",
        "TRACKER_MAIL_FROM": "tracker@example.org",
        "TRACKER_PUBLIC_URL": url,
    }


def verify(receiver: Receiver, secret: str) -> None:
    """Check what came last as its receiver would, who takes no message of long ago."""
    for message in receiver.messages[-5:]:
        age = utc_now().timestamp() - int(message.headers["webhook-timestamp"])
        if age < 240:
            Webhook(secret).verify(message.body, message.headers)


def told(receiver: Receiver) -> list[dict[str, Any]]:
    """The events that the webhook has got, each once, in the order of their coming."""
    return list({one.id: one.json for one in receiver.messages}.values())


def verdicts(receiver: Receiver) -> list[str]:
    return [
        one["data"]["verdict"]
        for one in told(receiver)
        if one["type"] == "verdict.changed"
    ]


def subscribe_to_mail(database: Database, mailbox: Mailbox, url: str) -> None:
    choice = MailChoice(email="anna@example.org", events=EVENTS)
    with database.write() as session:
        account = create_account(session, "anna", "viewer", by(), detectors=["door"])
        choose_mail(session, account, choice, by("anna", utc_now()))
    wait_until(lambda: bool(mailbox.taken))
    (link,) = re.findall(rf"{url}/account/mail/confirm/(\S+)", body(mailbox.taken[0]))
    with database.write() as session:
        account = get_account(session, "anna")
        confirm_address(session, account, SECRET_KEY, link, by("anna", utc_now()))


def run(command: Sequence[str], environ: dict[str, str]) -> int:
    found = subprocess.run(
        command, env=environ, cwd=ROOT, check=False, capture_output=True
    )
    return found.returncode


def gates(service: Service) -> list[int]:
    """The statuses of both gates, which a build would end with."""
    of_client = "import sys; from tracker_client.cli import main; sys.exit(main())"
    asking = clean_environ(
        TRACKER_URL=f"http://127.0.0.1:{service.port}",
        TRACKER_KEY=service.headers["Authorization"].removeprefix("Bearer "),
    )
    return [
        run([*TRACKER, "gate", "door", "--format", "github"], service.environ),
        run([sys.executable, "-c", of_client, "gate", "door"], asking),
    ]


def test_a_camera_loop_gets_worse_and_everyone_is_told_whatever_is_killed(
    durable_url: str, tmp_path: Path, record_figure
) -> None:
    database, mailbox = open_database(durable_url), Mailbox()
    mail = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    mail.start()
    service = Service(durable_url, tmp_path, workers=2)
    url = f"http://127.0.0.1:{service.port}"
    service.environ |= tell_by(mail.port, url)
    with receiving() as receiver, service:
        door = {"name": "door", "question": "Closed?", "target": TARGET}
        door |= {"label_sampling": "random"}
        assert service.ask("POST", "/detectors", door).status == 201
        hook = {"url": receiver.url, "events": EVENTS}
        secret = service.ask("POST", "/webhooks", hook).json["secret"]
        badge = service.ask("POST", "/detectors/door/badges", {}).json["json"]

        def colour() -> str:
            return str(json.loads(fetch(url + urlsplit(badge).path))["color"])

        def metrics() -> str:
            return fetch(f"{url}/metrics", headers=service.headers).decode()

        loop = Loop(service)
        while not ("met" in verdicts(receiver) and loop.verdict == "met"):
            assert loop.logged < BATCH * MOST_BATCHES
            loop.log(BEFORE)
            wait_until(lambda: folded(database) == loop.logged)
            verify(receiver, secret)
        assert colour() == "brightgreen"
        assert gates(service) == [0, 0]
        subscribe_to_mail(database, mailbox, url)

        good, kills = loop.logged, 0
        while not ("missed" in verdicts(receiver) and loop.verdict == "missed"):
            assert loop.logged < good + BATCH * MOST_BATCHES
            if kills < KILLS:
                # One of them is in the middle of what the loop has just logged.
                service.kill(service.workers[kills % 2])
                kills += 1
            loop.log(AFTER)
            wait_until(lambda: folded(database) == loop.logged)
            verify(receiver, secret)
        wait_until(lambda: len(mailbox.taken) > 1)
        wait_until(lambda: colour() == "red")
        assert gates(service) == [1, 1]
        verdict = 'tracker_verdict{detector="door",verdict="missed",version="default"}'
        assert f"{verdict} 1.0" in metrics()
        happened = service.ask("GET", "/detectors/door/events").json["items"]
        wait_until(lambda: len(told(receiver)) == len(wanted(happened)))
        assert service.mistakes() == []
    mail.stop()
    database.close()

    # The webhook has got each event once, in their order, whatever was killed.
    assert [one["data"] for one in told(receiver)] == wanted(happened)
    letter = mailbox.taken[1]
    assert letter["To"] == "anna@example.org"
    # It goes out with what happened first, and the rest waits for the hour's end.
    assert first_worse(happened, good)["timestamp"] in body(letter)
    assert verdicts(receiver)[0] == "met"
    assert verdicts(receiver)[-1] == "missed"
    record_figure(
        f"{good:,} labels at {BEFORE}, then {AFTER}: "
        f"missed after {loop.logged - good:,}; {kills} kills, {len(happened)} events, "
        f"{len(receiver.messages) - len(told(receiver))} repeats, 0 lost"
    )


def folded(database: Database) -> int:
    """How many labels the newest snapshot has."""
    with database.read() as session:
        return session.scalar(select(func.max(Snapshot.labels))) or 0


def first_worse(happened: list[dict[str, Any]], good: int) -> dict[str, Any]:
    """The first event after so many labels, of those that come the newest first."""
    return [one for one in happened if one["data"].get("labels", 0) > good][-1]


def wanted(happened: list[dict[str, Any]]) -> list[Any]:
    """The data of those events that the webhook is for, the oldest first."""
    return [one["data"] for one in reversed(happened) if one["type"] in EVENTS]
