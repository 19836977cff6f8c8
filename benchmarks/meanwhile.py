"""How long a label waits while a million rows come in, and while they are recounted.

    python benchmarks/meanwhile.py --database both [--rows 1000000] [--rate 20]

The rows are one file, which a worker imports into a detector in the background: once
with nothing beside it, then into a fresh database while another client gives single
labels to another detector at a steady rate.  Then its labels are exported as CSV, and
a slice key is declared, which the worker counts from all queries there are, while that
client goes on.  At last a second file says the same label of each query, which most of
them had not.
"""

import argparse
import http.client
import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    describe,
    describe_machine,
    fresh_databases,
    opened,
    parse_options,
)
from rig.servers import Client, call, served

from tracker.services.people.keys import create_key
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector_by_name
from tracker.storage.estimates.pending import list_pending_batches

OTHER = "other"
PAUSE = 0.2
AT_REST = 20.0


def write_file(path: Path, rows: int) -> None:
    draw = random.Random(1)
    with path.open("w") as file:
        file.write("key,predicted,confidence,version,label,sampling,metadata\n")
        for number in range(rows):
            label = "YES" if draw.random() < 0.7 else "NO"
            camera = f'"{{""camera"": ""c{draw.randrange(50)}""}}"'
            file.write(f"frame-{number:07},YES,0.97,v1,{label},random,{camera}\n")


def write_corrections(path: Path, rows: int) -> None:
    with path.open("w") as file:
        file.write("key,label\n")
        file.writelines(f"frame-{number:07},NO\n" for number in range(rows))


class Labeler(threading.Thread):
    """Sends one labelled query after the other, by the clock."""

    def __init__(self, port: int, key: str, rate: float) -> None:
        """Send to the server at *port*, so many a second."""
        super().__init__(daemon=True)
        self._client, self._rate = Client(port, key), rate
        self.waits: list[float] = []
        self.is_over = False

    def run(self) -> None:
        """Send until it is over; a label that is late delays none but itself."""
        begun = time.perf_counter()
        for number in range(10**9):
            time.sleep(max(begun + number / self._rate - time.perf_counter(), 0))
            if self.is_over:
                return
            sent = time.perf_counter()
            body = {"predicted": "YES", "label": "YES", "sampling": "random"}
            self._client.post(f"/api/v1/detectors/{OTHER}/queries", body)
            self.waits.append(time.perf_counter() - sent)

    def describe(self, name: str, taken: float) -> str:
        """Return a line about the labels since the last one."""
        waits, self.waits = self.waits, []
        figures = np.quantile(waits, (0.5, 0.99, 1)) * 1e3
        shown = "".join(f"{one:>11,.1f}" for one in figures)
        return f"{name:28}{taken:>10.1f}{len(waits):>9,}{shown}"


def import_file(port: int, key: str, path: Path) -> float:
    """Return how many seconds an import in the background took in all."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "text/csv"}
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    with path.open("rb") as file:
        where = f"/api/v1/detectors/{DETECTOR}/import"
        sent = {**headers, "Prefer": "respond-async"}
        connection.request("POST", where, file, sent)
        answer = connection.getresponse()
        made = json.loads(answer.read())
    assert answer.status == 202, made
    where = f"/api/v1/imports/{made['id']}"
    found = made
    while found["finished_at"] is None:
        time.sleep(PAUSE)
        found = json.loads(call(port, "GET", where, headers=headers))
    assert found["state"] == "done", found
    return time.perf_counter() - begun


def export_file(port: int, key: str) -> float:
    """Return how many seconds it took to write and read all labels as CSV."""
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    where = f"/api/v1/detectors/{DETECTOR}/labels?format=csv"
    connection.request("GET", where, headers={"Authorization": f"Bearer {key}"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    while answer.read(2**20):
        pass
    return time.perf_counter() - begun


def declare(port: int, key: str, database: Database) -> float:
    """Return how many seconds it took until a new slice key was counted."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    begun = time.perf_counter()
    body = json.dumps({"slices": ["camera"]})
    call(port, "PATCH", f"/api/v1/detectors/{DETECTOR}", body, headers)

    def is_counted() -> bool:
        with database.read() as session:
            detector = find_detector_by_name(session, DETECTOR)
            assert detector is not None
            return detector.counted_slices == ["camera"]

    wait_for(is_counted)
    return time.perf_counter() - begun


def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(PAUSE)


def wait_for_job(database: Database) -> None:
    """Wait until the rows of the file are counted."""

    def is_done() -> bool:
        with database.read() as session:
            detector = find_detector_by_name(session, DETECTOR)
            assert detector is not None
            return not list_pending_batches(session, [detector.id])

    wait_for(is_done)


@contextmanager
def ready(kind: str) -> Iterator[tuple[Database, int, str]]:
    """Give a database with both detectors, the port of its server, and a key."""
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        url = make()
        with opened(url) as database:
            for detector in (DETECTOR, OTHER):
                add_detector(database, detector)
            with database.write() as session:
                key = create_key(session, "benchmark", "admin", by(at=START))
            with served(url, Path(name), worker=True) as port:
                yield database, port, key


def measured(kind: str, path: Path, corrections: Path, rate: float) -> Iterator[str]:
    """Yield a line for each part."""
    names = "".join(f"{one:>11}" for one in ("p50, ms", "p99, ms", "max, ms"))
    with ready(kind) as (database, port, key):
        yield f"\n{describe(str(database.engine.url))}"
        yield f"{'':28}{'s':>10}{'labels':>9}{names}"
        yield f"{'import alone':28}{import_file(port, key, path):>10.1f}"
    with ready(kind) as (database, port, key):
        labeler = Labeler(port, key, rate)
        labeler.start()
        time.sleep(AT_REST)
        yield labeler.describe("labels alone", AT_REST)
        taken = import_file(port, key, path)
        yield labeler.describe("import, with labels", taken)
        begun = time.perf_counter()
        wait_for_job(database)
        yield labeler.describe("its rows, counted", time.perf_counter() - begun)
        taken = export_file(port, key)
        yield labeler.describe("its labels, exported", taken)
        taken = declare(port, key, database)
        yield labeler.describe("a slice key, counted", taken)
        taken = import_file(port, key, corrections)
        yield labeler.describe("corrections, imported", taken)
        labeler.is_over = True
        labeler.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=20, help="labels a second")
    options = parse_options(parser)
    rows = 50_000 if options.quick else options.rows
    print(f"{rows:,} rows, {options.rate:g} labels a second; {describe_machine()}")
    with tempfile.TemporaryDirectory(prefix="tracker-bench-") as name:
        path = Path(name) / "rows.csv"
        write_file(path, rows)
        corrections = Path(name) / "corrections.csv"
        write_corrections(corrections, rows)
        for kind in options.kinds:
            for line in measured(kind, path, corrections, options.rate):
                print(line, flush=True)


if __name__ == "__main__":
    main()
