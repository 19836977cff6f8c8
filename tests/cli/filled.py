"""A database with everything in it, and what to look at once it has moved."""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from PIL import Image
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.cli.test_commands import Shell
from tests.conftest import START, Clock, FillOnce, by
from tests.databases import get_by_id
from tests.jobs.imports import importing
from tests.services.conftest import Bench
from tests.services.irises import IRIS
from tracker.jobs.recompute import recompute_all
from tracker.services.by import By
from tracker.services.deciding.attribution import (
    NewInvestigation,
    begin_investigation,
)
from tracker.services.detectors import DetectorChange, archive_detector, change_detector
from tracker.services.device import set_settings
from tracker.services.estimates.recount import recount
from tracker.services.idempotency import answer_once
from tracker.services.imports.background import add_import
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order
from tracker.services.labelling.auditing.audit_draws import draw_next
from tracker.services.labelling.auditing.audit_lifecycle import (
    AuditChange,
    create_schedule,
    extend_audit,
)
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.services.labelling.golds import NewGold, mark_gold
from tracker.services.labelling.labelers import (
    NewAssignment,
    NewJudgement,
    add_judgements,
    assign,
)
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.labelling.predictions import add_waiting
from tracker.services.labelling.queues import skip
from tracker.services.labelling.rechecks import (
    NewRecheck,
    NewRechecks,
    add_recheck,
    choose_version,
    draw_rechecks,
    freeze_labels,
)
from tracker.services.people.keys import create_key
from tracker.services.people.second_factors import (
    begin_totp,
    confirm_totp,
    make_recovery_codes,
    step_of,
    totp_code,
)
from tracker.services.queries.queries import NewQuery, NewTags, log_query, set_tags
from tracker.services.telling.badges import create_badge
from tracker.services.telling.events import tell
from tracker.services.telling.mail import ask_address, mute
from tracker.services.telling.webhooks import NewWebhook, create_webhook
from tracker.storage.base import dump_id
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import (
    Detector,
    list_detectors,
    list_versions,
    name_version,
)
from tracker.storage.images import ImageFolder
from tracker.storage.imports import FileImport
from tracker.storage.labelling.inputs import Reference
from tracker.storage.labelling.queues import DisagreementQueue
from tracker.storage.labelling.reservations import add_draw
from tracker.storage.operations import backup as storage
from tracker.storage.people import Account, Passkey, Pin
from tracker.storage.queries.queries import Query, list_queries
from tracker.storage.tasks import enqueue, let_go, take
from tracker.storage.telling import Event, Notice, note_sent

NewShell = Callable[[str], Shell]


@contextmanager
def opened(shell: Shell) -> Iterator[Database]:
    database = open_database(shell.environ["TRACKER_DATABASE_URL"])
    try:
        yield database
    finally:
        database.close()


def images_of(shell: Shell) -> ImageFolder:
    return ImageFolder(Path(shell.environ["TRACKER_DATA_DIR"]) / "images")


def image_files(shell: Shell) -> dict[str, bytes]:
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def picture(shade: int) -> bytes:
    drawn = io.BytesIO()
    Image.new("L", (20, 20), shade).save(drawn, "PNG")
    return drawn.getvalue()


def fill(shell: Shell) -> None:
    """Put something into every table, with values that are easily bent."""
    with opened(shell) as database:
        clock = Clock()
        bench = Bench(database, clock, ["YES", "ÑO", "[b] 'x'"], "dö or")
        for number in range(60):
            bench.log("YES", "ÑO", confidence=number / 97, key=f"k{number}")
        recompute_all(database, worker="test", clock=clock)
        bench.log("YES", confidence=0.1 + 0.2, metadata={"a": [1e-7, None, "é\n"]})
        bench.log("ÑO", "UNCLEAR", image_url="https://x.example/é")
        wrong = bench.log("[b] 'x'", "YES", sampling="targeted", version="v\u00e9")
        bench.label(wrong, "[b] 'x'", note="looked\u2028 again")
        for shade in (10, 200, 10):
            add_picture(bench, images_of(shell).put(picture(shade), "png"))
        old = Bench(database, clock, ["YES", "NO"], "old")
        with database.write() as session:
            change = DetectorChange(slices=["pläce"])
            change_detector(session, old.attached(session), change, by(at=START))
        old.log("YES", "NO", input="same", metadata={"pläce": "é"})
        old.log("NO", input="other")
        with database.write() as session:
            [query] = list_queries(session, old.detector.id, limit=1)
            set_tags(session, f"iq_{query.id}", NewTags(tags=["Ⓐ", "zu dunkel"]))
            # The one is rejected, for its detector is archived; the other adds a query.
            for one in (old, bench):
                leave_import(session, one.attached(session), b"predicted\nYES\n")
            archive_detector(session, old.attached(session), by(at=clock()))
            create_key(session, "camera", "editor", by(at=START), detectors=["dö or"])
            create_badge(session, old.attached(session), "", by(at=START))
            said = '{"note":"é"}', 201
            answer_once(session, "a word", by("camera"), lambda: said, digest="0" * 64)
            fill_beside(session, old.attached(session), by("ann", clock()))
        importing(database, clock).run()
        recompute_all(database, worker="test", clock=clock)
        bench.log("YES", "YES")
        later = bench.log("YES")
        with database.write() as session:
            skip(session, later, by("alice", clock()))
    shell("accounts", "create", "ann", "--role", "viewer", "--detector", "dö or")
    with opened(shell) as database, database.write() as session:
        fill_about(session, bench.attached(session), by("ann", clock()))
    shell("studies", "add", "dö or", str(IRIS), "--name", "t", "--kind", "bootstrap")


def filled(database_url: str, folder: Path, fill_once: FillOnce) -> Shell:
    """Return a shell with a database and files as ``fill`` leaves them."""
    shell = Shell(database_url, folder)
    data = Path(shell.environ["TRACKER_DATA_DIR"])

    def build() -> dict[Path, bytes]:
        fill(shell)
        files = [path for path in data.rglob("*") if path.is_file()]
        return {path.relative_to(data): path.read_bytes() for path in files}

    for name, content in fill_once(build).items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(content)
    return shell


def fill_beside(session: Session, detector: Detector, who: By) -> None:
    """Add an audit with a draw, a webhook with a delivery, and what devices leave."""
    truth = Reference(
        detector_id=detector.id,
        input="never asked é",
        label="YES",
        sampling="random",
        labeler="zoë",
        labelled_at=who.at,
        created_at=who.at,
    )
    session.add(truth)
    audit = create_audit(session, detector, NewAudit(name="é", half_width=0.05), who)
    draw_next(session, audit, who)
    extend_audit(session, audit, AuditChange(half_width=0.1 / 3), who)
    create_schedule(session, detector, NewAudit(name="jede Wöche", every="week"), who)
    note_sent(session, {(detector.id, list_versions(session, detector.id)[0].id): 1})
    hook = NewWebhook(url="http://127.0.0.1:1/x", detectors=[f"det_{detector.id}"])
    create_webhook(session, hook, who, allowed_hosts=["127.0.0.1"])
    tell(session, "detector.failing", detector, at=who.at, data={"error": "é"})
    set_settings(session, detector, who, group_name="gärten")
    add_waiting(session, detector, NewQuery(key="é", input="é"), who, image=None)
    [version] = list_versions(session, detector.id)
    between = DisagreementQueue(detector.id, version.id, version.id)
    [query] = list_queries(session, detector.id, limit=1)
    add_draw(session, between, query.id, drawn_at=who.at)


def fill_about(session: Session, detector: Detector, who: By) -> None:
    """Add a judge, an app, a passkey and recovery codes, and mail about a detector."""
    new = NewQuery(predicted="ÑO", key="anchor", input="anchor é")
    query, _ = log_query(session, detector, new, who)
    session.flush()
    judgement = NewJudgement(
        detector=detector.name, key="anchor", judge="é", verdict="ÑO", score=0.1 + 0.2
    )
    assert add_judgements(session, [judgement], who) == []
    version = choose_version(session, detector)
    name = name_version(session, query.detector_id, query.version_id)
    asked = NewInvestigation(
        old_version=name,
        new_version=name,
        old_judge="é",
        new_judge="é",
        since=query.asked_at,
        until=query.asked_at + timedelta(1),
        now_since=query.asked_at,
        now_until=query.asked_at + timedelta(1),
        anchors=2,
    )
    begin_investigation(session, detector, asked, who)
    frozen = freeze_labels(session, detector, version, who.at)
    assert draw_rechecks(session, version, frozen, NewRechecks(count=3), who) == 3
    query = get_by_id(session, Query, frozen.line[0][0])
    again = NewRecheck(label="ÑO", note="é\u2028")
    add_recheck(session, detector, query, again, who.credit("zoë"))
    new = NewQuery(predicted="ÑO", key="gold", sampling="targeted")
    gold, _ = log_query(session, detector, new, who)
    name = dump_id("iq", gold.id)
    mark_gold(session, name, NewGold(label="ÑO"), who)
    assign(session, detector, NewAssignment(labeler="zoë", labels=2), who)
    answer = NewLabel(label="UNCLEAR", note="é")
    add_label(session, gold.id, answer, who.credit("zoë"))
    account = session.scalars(select(Account)).one()
    secret = begin_totp(session, account)
    confirm_totp(session, account, totp_code(secret, step_of(who.at)), who)
    make_recovery_codes(session, account, who)
    session.add(
        Passkey(
            account_id=account.id,
            credential="a-_",
            public_key="b-_",
            uses=2**40,
            name="é",
            created_at=who.at,
        )
    )
    mute(session, account, detector, who, is_muted=True)
    session.add(Pin(account_id=account.id, detector_id=detector.id))
    ask_address(session, account.id, "é@x.example", who.at)
    event = session.scalars(select(Event)).first()
    assert event is not None
    of_both = {"account_id": account.id, "detector_id": event.detector_id}
    told = {"event_id": event.id, "created_at": event.happened_at, "state": "waiting"}
    session.add(Notice(**of_both, **told))
    session.flush()
    enqueue(session, "digest", f"{account.id}/{event.detector_id}", due_at=who.at)
    [task] = take(session, "digest", "w-é", at=who.at)
    let_go(session, task, error="é", due_at=who.at)


def leave_import(session: Session, detector: Detector, content: bytes) -> FileImport:
    """Leave a file to a worker."""
    file = RowFile("csv", "0" * 64, io.BytesIO(content))
    return add_import(session, Order(detector.name, file, by("ann"), "skip"))


def add_picture(bench: Bench, name: str) -> None:
    with bench.database.write() as session:
        log_query(
            session,
            bench.attached(session),
            NewQuery(predicted="YES", label="YES"),
            by("alice", bench.clock()),
            image=name,
        )


def exported(shell: Shell) -> list[bytes]:
    return [
        shell("export", "dö or", *words, "--format", name).stdout_bytes
        for words in (["--what", "labels"], ["--method", "*"])
        for name in ("csv", "jsonl")
    ]


def differences(shell: Shell) -> list[Any]:
    with opened(shell) as database, database.read() as session:
        return [
            wrong
            for detector in list_detectors(session)
            for wrong in recount(session, detector)
        ]


def manifest_of(file: str) -> dict[str, Any]:
    with zipfile.ZipFile(file) as archive:
        return json.loads(archive.read("manifest.json"))


def hashes_of(file: str) -> dict[str, str]:
    return {entry["name"]: entry["sha256"] for entry in manifest_of(file)["tables"]}


def is_empty(shell: Shell) -> bool:
    with opened(shell) as database, database.read() as session:
        return storage.find_filled_table(session) is None and not image_files(shell)
