"""All at once for a long time: labels, an import, exports, slow clients, and kills.

``TRACKER_TEST_CHAOS=long`` runs it for 24 minutes on each database and holds its
figures to what is promised; ``TRACKER_TEST_MINUTES=3`` for three, to have a look.
"""

import http.client
import itertools
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import func, select

from tests.chaos.load import CORRECTED, PLAIN, Client, Ledger, Profile, make_row
from tests.chaos.service import ANSWERING, Service
from tests.chaos.test_slow_clients import HALF_BODY, HALF_HEADER, unread_downloads
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG
from tests.processes import wait_until
from tracker.clock import utc_now
from tracker.storage.database import Database, open_database
from tracker.storage.estimates.pending import PendingBatch

MINUTES = float(os.environ.get("TRACKER_TEST_MINUTES", "24" if IS_LONG else "0.4"))  # noqa: TID251 - of the tests
ROWS = round(1_000_000 * min(MINUTES / 6, 1))
LABELERS = 8
LABELS_A_SECOND = 100
SECONDS_BETWEEN_KILLS = 60 if MINUTES > 1 else 8
IMPORTED = "imported"
MOST_SECONDS, MOST_LAG_SECONDS = 0.5, 6.0
_PATIENCE_SECONDS = 3600


@dataclass
class Course:
    """What was seen on the way."""

    is_over: threading.Event = field(default_factory=threading.Event)
    exports: Counter[int] = field(default_factory=Counter)
    lags: list[float] = field(default_factory=list)
    imported_after: float = 0.0
    kills: int = 0


def label(client: Client, ledger: Ledger, first: int, is_over: threading.Event) -> None:
    """Label as a program does, at a rate of its own; what fails is sent again."""
    begun = time.monotonic()
    for turn in itertools.count():
        if is_over.wait(max(begun + turn * LABELERS / LABELS_A_SECOND - _now(), 0)):
            return
        row = make_row(first + turn * LABELERS)
        if client.send(f"/detectors/{PLAIN}/queries", row).is_acknowledgement:
            ledger.acknowledge(PLAIN, [row])


def _now() -> float:
    return time.monotonic()


def write_file(path: Path) -> None:
    draw = random.Random(1)
    with path.open("w") as file:
        file.write("key,predicted,confidence,version,label,sampling\n")
        for number in range(ROWS):
            truth = draw.choice(["YES", "NO"])
            file.write(f"row-{number:07},YES,0.97,v1,{truth},random\n")


def send_file(service: Service, path: Path) -> str:
    """Send the file to be imported in the background, until that is acknowledged."""
    headers = {
        **service.headers,
        "Content-Type": "text/csv",
        "Prefer": "respond-async",
        "Idempotency-Key": "the-import",
    }
    while True:
        with suppress(OSError, http.client.HTTPException), path.open("rb") as file:
            link = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
            link.request("POST", f"/api/v1/detectors/{IMPORTED}/import", file, headers)
            response = link.getresponse()
            content = response.read()
            link.close()
            if response.status == 202:
                return f"/imports/{json.loads(content)['id']}"
            assert response.status in {409, 503}, content
        time.sleep(1)


def import_all(service: Service, path: Path, course: Course) -> None:
    begun = _now()
    address = send_file(service, path)

    def has_ended() -> bool:
        with suppress(OSError, http.client.HTTPException):
            answer = service.ask("GET", address)
            if answer.status == 200 and answer.json["finished_at"] is not None:
                assert answer.json["state"] == "done", answer.json
                assert answer.json["report"]["queries_added"] == ROWS
                return True
        time.sleep(0.5)
        return False

    wait_until(has_ended, _PATIENCE_SECONDS)
    course.imported_after = _now() - begun


def export(service: Service, course: Course) -> None:
    while not course.is_over.wait(10 if MINUTES > 1 else 2):
        for detector in (PLAIN, IMPORTED):
            with suppress(OSError, http.client.HTTPException):
                path = f"/detectors/{detector}/labels?format=csv"
                course.exports[service.ask("GET", path).status] += 1


def be_slow(service: Service, course: Course) -> None:
    """Keep half requests and unread downloads open, and begin again after a kill."""
    path = f"/api/v1/detectors/{PLAIN}/queries"
    half = HALF_BODY.format(path=path, headers="", media="application/json")
    while not course.is_over.is_set():
        with suppress(OSError), ExitStack() as stack:
            for beginning in [half] * 40 + [HALF_HEADER] * 20:
                one = stack.enter_context(_connect(service))
                one.sendall(beginning.encode())
            for one in unread_downloads(service, 5, PLAIN):
                stack.enter_context(one)
            course.is_over.wait(SECONDS_BETWEEN_KILLS)


def _connect(service: Service) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=60)


def kill(service: Service, course: Course) -> None:
    """Kill a web process and a worker in turn."""
    victims = itertools.cycle([ANSWERING, service.workers[0]])
    while not course.is_over.wait(SECONDS_BETWEEN_KILLS):
        victim = next(victims)
        service.kill(victim)
        course.kills += 1
        service.wait_for(victim)


def watch_lag(database: Database, detector_id: int, course: Course) -> None:
    """Note how long the oldest label has waited to be in the history."""
    oldest = select(func.min(PendingBatch.created_at)).where(
        PendingBatch.detector_id == detector_id
    )
    while not course.is_over.wait(0.25):
        with database.read() as session:
            since = session.scalar(oldest)
        lag = 0.0 if since is None else (utc_now() - since).total_seconds()
        course.lags.append(max(lag, 0.0))


@contextmanager
def threads(*works: Callable[[], None]) -> Iterator[list[BaseException]]:
    """Run all of *works* beside the block; what one raised is in the list."""
    failed: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the test.
            failed.append(error)

    running = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in running:
        thread.start()
    yield failed
    for thread in running:
        thread.join()


def at(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] if values else 0.0


@pytest.mark.timeout(7200)
def test_all_at_once_for_a_long_time(
    durable_url: str, tmp_path: Path, record_figure: Callable[[str], None]
) -> None:
    path = tmp_path / "rows.csv"
    write_file(path)
    ledger, course = Ledger(), Course()
    database = open_database(durable_url)
    with Service(durable_url, tmp_path, workers=1) as service:
        for name in (PLAIN, CORRECTED, IMPORTED):
            made = service.ask("POST", "/detectors", {"name": name, "question": "?"})
            assert made.status == 201
        watcher = Watcher(service)
        client = Client(service, ledger, Profile(0, LABELERS, 0, 1))
        labelers = [
            lambda first=first: label(client, ledger, first, course.is_over)
            for first in range(LABELERS)
        ]
        with threads(
            *labelers,
            lambda: import_all(service, path, course),
            lambda: export(service, course),
            lambda: be_slow(service, course),
            lambda: kill(service, course),
            lambda: watch_lag(database, 1, course),
        ) as failed:
            begun = _now()
            while _now() - begun < MINUTES * 60 and not failed:
                time.sleep(0.2)
            wait_until(
                lambda: course.imported_after > 0 or bool(failed), _PATIENCE_SECONDS
            )
            seconds = _now() - begun
            course.is_over.set()
        problems = find_problems(service, ledger, watcher)
    database.close()
    rate = len(ledger.labels) / seconds
    record_figure(
        f"{ledger.describe()}, {rate:.0f} a second for {seconds:.0f} s; lag p99 "
        f"{at(course.lags, 0.99):.1f} s, longest {at(course.lags, 1):.1f} s; "
        f"{ROWS:,} rows imported after {course.imported_after:.0f} s; exports "
        f"{dict(course.exports)}; {course.kills} kills"
    )
    assert failed == []
    assert problems == []
    assert ledger.statuses.keys() <= {200, 201, 503}
    assert course.exports.keys() <= {200, 429, 503}
    if IS_LONG:
        assert at(ledger.seconds, 0.99) < MOST_SECONDS
        assert at(course.lags, 0.99) < MOST_LAG_SECONDS
