"""Time how far the job falls behind many detectors of many classes, labelled all day.

Labelled queries come one by one to ``tracker serve`` from a few clients that keep to a
clock, a detector after the other; each detector has ten classes, of which the last is
a hundred times as frequent as the first, and few labels, so that each makes a snapshot
with all of its intervals.  The lag is how long the oldest label has waited for that; a
reader of the database looks ten times a second.
"""

import argparse
import random
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import psutil
from rig import (
    START,
    add_detector,
    by,
    class_names,
    describe,
    describe_machine,
    fold,
    fresh_databases,
    import_all,
    opened,
    parse_options,
    sign_in,
)
from rig.servers import Client, seconds_of, served
from sqlalchemy import func, select

from tracker.app import create_app
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.estimates.pending import PendingBatch

CLASSES = 10
CLIENTS = 4
# Below a hundred, each label makes a snapshot.
THERE = 50
PAUSE = 0.1
FEW, RUNS = 60, 5


def rows(
    seed: int, number: int, *, classes: int = CLASSES
) -> Iterator[dict[str, object]]:
    """Yield labelled queries of uneven classes, nine in ten predicted right."""
    draw, names = random.Random(seed), class_names(classes)
    frequencies = [10 ** (2 * place / (classes - 1)) for place in range(classes)]
    for place, label in enumerate(draw.choices(names, frequencies, k=number)):
        predicted = label if draw.random() < 0.9 else draw.choice(names)
        yield {
            # A file without keys that begins like an earlier one is that file.
            "key": f"{seed}-{place}",
            "predicted": predicted,
            "label": label,
            "version": "v1",
            "sampling": "random",
        }


def fill_all(database: Database, detectors: int, classes: int = CLASSES) -> None:
    for number in range(detectors):
        add_detector(database, f"d{number}", classes=classes)
        some = rows(number, THERE, classes=classes)
        import_all(database, some, detector=f"d{number}")
    fold(database)


def time_runs(kind: str, detectors: int, classes: int) -> float:
    """Return the processor time of the job, in ms, for one new label a detector."""
    taken = []
    with fresh_databases(kind) as make, opened(make()) as database:
        fill_all(database, detectors, classes)
        for turn in range(RUNS):
            for number in range(detectors):
                new = rows(-1 - turn * detectors - number, 1, classes=classes)
                import_all(database, new, detector=f"d{number}")
            begun = time.process_time()
            fold(database)
            taken.append(time.process_time() - begun)
    return 1e3 * min(taken)


def time_list(database: Database, folder: Path) -> dict[str, float]:
    """Return how long the list of all detectors takes, in ms, best of a few."""
    settings = Settings(data_dir=folder, secret_key=secrets.token_hex())
    client = create_app(settings, database).test_client()
    sign_in(client, database)
    with database.write() as session:
        key = create_key(session, "list", "viewer", by(at=START))
    found = {}
    headers = {"Authorization": f"Bearer {key}"}
    for path, sent in (("/", {}), ("/api/v1/detectors", headers)):
        taken = []
        for _ in range(RUNS):
            begun = time.process_time()
            assert client.get(path, headers=sent).status_code == 200
            taken.append(time.process_time() - begun)
        found[path] = 1e3 * min(taken)
    return found


class Reader:
    """Looks again and again how long the oldest label has waited."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database
        self._is_over = threading.Event()
        self.lags: list[float] = []

    def run(self) -> None:
        """Look until it is over."""
        oldest = select(func.min(PendingBatch.created_at))
        while not self._is_over.wait(PAUSE):
            with self._database.read() as session:
                since = session.scalar(oldest)
            waited = 0.0 if since is None else (_now() - since).total_seconds()
            self.lags.append(waited)

    def stop(self) -> None:
        """Look no more."""
        self._is_over.set()


def _now() -> datetime:
    return datetime.now(UTC)


def work_of_the_job() -> float:
    """Return the seconds of processor time that the worker has taken."""
    own = psutil.Process()
    found = [one for one in own.children(recursive=True) if "worker" in one.cmdline()]
    return sum(sum(one.cpu_times()[:2]) for one in found)


def send_all(
    port: int, key: str, options: argparse.Namespace
) -> tuple[list[float], float]:
    """Return how long each label took, and all of them."""
    taken: list[float] = []
    each = options.rate * options.seconds // CLIENTS

    def send(client: Client, first: int) -> None:
        begun = time.perf_counter()
        for turn, row in enumerate(rows(-1 - first, each)):
            due = begun + turn * CLIENTS / options.rate
            time.sleep(max(due - time.perf_counter(), 0))
            number = (first + turn * CLIENTS) % options.detectors
            start = time.perf_counter()
            client.post(f"/api/v1/detectors/d{number}/queries", row)
            taken.append(time.perf_counter() - start)

    def work(first: int) -> Callable[[], None]:
        client = Client(port, key)
        return lambda: send(client, first)

    return taken, seconds_of(CLIENTS, work)


def measured(kind: str, options: argparse.Namespace) -> Iterator[str]:
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        url = make()
        with opened(url) as database:
            fill_all(database, options.detectors)
            listed = time_list(database, Path(name))
            with database.write() as session:
                key = create_key(session, "benchmark", "editor", by(at=START))
            reader = Reader(database)
            watching = threading.Thread(target=reader.run, daemon=True)
            with served(url, Path(name), worker=True) as port:
                watching.start()
                before = work_of_the_job()
                taken, spent = send_all(port, key, options)
                share = (work_of_the_job() - before) / spent
                reader.stop()
                watching.join()
        middle, late = 1e3 * np.quantile(taken, (0.5, 0.99))
        lag, last = np.quantile(reader.lags, (0.99, 1))
        yield f"\n{describe(url)}"
        for path, took in listed.items():
            yield f"{path}, {options.detectors} detectors: {took:.0f} ms of processor"
        for classes in (2, CLASSES):
            took = time_runs(kind, FEW, classes)
            yield f"{FEW} detectors of {classes} classes, a label each: {took:.0f} ms"
        yield (
            f"{'labels':>8}{'a second':>10}{'p50, ms':>9}{'p99, ms':>9}"
            f"{'lag p99, s':>12}{'max, s':>8}{'of a core':>11}"
        )
        yield (
            f"{len(taken):>8,}{len(taken) / spent:>10.0f}{middle:>9.1f}{late:>9.1f}"
            f"{lag:>12.1f}{last:>8.1f}{share:>11.0%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--detectors", type=int, default=500)
    parser.add_argument("--rate", type=int, default=100, help="labels a second")
    parser.add_argument("--seconds", type=int, default=120)
    options = parse_options(parser)
    if options.quick:
        options.detectors, options.seconds = 50, 15
    print(
        f"{options.detectors} detectors of {CLASSES} uneven classes, "
        f"{options.rate} labels a second for {options.seconds} s, the job every 5 s; "
        f"{describe_machine()}"
    )
    for kind in options.kinds:
        for line in measured(kind, options):
            print(line, flush=True)


if __name__ == "__main__":
    main()
