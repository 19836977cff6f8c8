"""From end to end: a camera gets worse, and everyone who should know is told."""

import json
import re
from collections.abc import Callable
from urllib.parse import urlsplit

import numpy as np
import pytest
from flask import Flask

from tests.cli.test_commands import Shell
from tests.conftest import SECRET_KEY, START, Clock, by
from tests.telling.conftest import mail_loop
from tests.telling.mailbox import Mailbox, choose
from tests.telling.receiver import Receiver
from tests.web.conftest import Visitor
from tracker.jobs.loop import Loop
from tracker.jobs.telling import MailServer
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.people.accounts import create_account
from tracker.services.telling.badges import create_badge
from tracker.services.telling.mail import Letterhead
from tracker.services.telling.webhooks import Webhook
from tracker.storage.database import Database

BEFORE, AFTER = (400, 0.97), (4_000, 0.82)


def write_rows(length: int, accuracy: float, seed: int) -> str:
    rng = np.random.default_rng(seed)
    truths = rng.choice(["YES", "NO"], length)
    hits = rng.random(length) < accuracy
    other = {"YES": "NO", "NO": "YES"}
    rows = [
        f"{seed}-{n},{truth if hit else other[truth]},{truth}"
        for n, (truth, hit) in enumerate(zip(truths.tolist(), hits, strict=True))
    ]
    return "\n".join(["key,predicted,label", *rows]) + "\n"


@pytest.mark.slow
def test_a_camera_gets_worse_and_everyone_is_told(
    app: Flask,
    database: Database,
    database_url: str,
    clock: Clock,
    recompute: Callable[[], None],
    receiver: Receiver,
    subscribe: Callable[..., Webhook],
    courier: Loop,
    mailbox: Mailbox,
    server: MailServer,
    tmp_path,
) -> None:
    with database.write() as session:
        new = NewDetector(
            name="door", question="Closed?", target=0.9, label_sampling="random"
        )
        detector = create_detector(session, new, by(at=START))
        token = create_badge(session, detector, "", by(at=START)).token
        create_account(session, "anna", "viewer", by(), detectors=["door"])
    choose(database, "anna", events=["verdict.changed"])
    subscribe(receiver, events=["verdict.changed"])
    head = Letterhead("t@example.org", "https://tracker.example.org", SECRET_KEY)
    postman = mail_loop(database, clock, server, "w", head)
    shell = Shell(database_url, tmp_path)
    visitor = Visitor(app)

    def colour() -> str:
        path = urlsplit(f"/badge/{token}.json").path
        return app.test_client().get(path).json["color"]

    def tell_all(length: int, accuracy: float, seed: int) -> None:
        rows = shell.file("rows.csv", write_rows(length, accuracy, seed))
        shell("import", "door", rows)
        recompute()
        courier.run()
        postman.run()

    tell_all(*BEFORE, seed=1)
    assert [one.json["data"]["verdict"] for one in receiver.messages] == ["met"]
    assert "met after" in mailbox.taken[0]["Subject"]
    assert colour() == "brightgreen"
    assert (
        json.loads(shell("gate", "door", "--format", "json").stdout)["verdict"] == "met"
    )

    clock.at = clock.at.replace(hour=clock.at.hour + 2)
    tell_all(*AFTER, seed=3)
    told = [one.json for one in receiver.messages[1:]]
    assert told[-1]["data"]["verdict"] == "missed"
    assert "missed after" in mailbox.taken[1]["Subject"]
    assert colour() == "red"
    failed = shell("gate", "door", "--format", "github", status=1)
    assert failed.stdout.startswith("::error")
    metrics = visitor.client.get("/metrics").text
    verdict = 'tracker_verdict{detector="door",verdict="missed",version="default"} 1.0'
    assert verdict in metrics
    with database.read() as session:
        assert get_detector(session, "door").target == 0.9
    events = visitor.get("/detectors/door/events").text
    assert "missed after" in events
    history = visitor.get("/detectors/door/changes?by=labels").text
    # The job looks once at all labels of a file, the page at each checkpoint.
    (since,) = re.findall(r"Target missed Since label ([\d,]+),", history)
    assert int(since.replace(",", "")) <= told[-1]["data"]["labels"]
