"""Time how long labels wait for a snapshot, while a thousand of them arrive a second.

Labels come in requests of a hundred to ``tracker serve``, ten a second by the clock,
whatever the server does.  A label waits from the answer to its request, which comes
after the commit, until a reader of the database sees a snapshot of as many labels; it
looks every twentieth of a second.  Ten thousand labels are there before.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    describe,
    describe_machine,
    fill,
    fold,
    fresh_databases,
    opened,
    parse_options,
    random_rows,
)
from rig.servers import Client, served

from tracker.services.people.keys import create_key
from tracker.storage.database import Database

BATCH = 100
# Each of the first hundred labels makes a checkpoint, which is over soon.
THERE = 10_000
PAUSE = 0.05
PATH = f"/api/v1/detectors/{DETECTOR}/import"


class Reader:
    """Looks again and again how many labels the newest snapshot holds, and when."""

    def __init__(self, database: Database) -> None:
        """Read from *database*."""
        self._database = database
        self.seen: list[tuple[float, int]] = []

    def run_until(self, labels: int) -> None:
        """Look until a snapshot holds so many."""
        there = 0
        while there < labels:
            with self._database.engine.connect() as connection:
                found = connection.exec_driver_sql("SELECT max(labels) FROM snapshots")
                there = found.scalar() or 0
            self.seen.append((time.perf_counter(), there))
            time.sleep(PAUSE)

    def visible_at(self, labels: int) -> float:
        """Return the first instant at which a snapshot held so many."""
        return next(at for at, there in self.seen if there >= labels)


def send(port: int, key: str, rate: int, seconds: int) -> Iterator[tuple[float, int]]:
    """Yield when each request was answered, and how many labels there were then."""
    client, begun = Client(port, key), time.perf_counter()
    for number in range(rate * seconds // BATCH):
        rows = list(random_rows(THERE + number * BATCH, BATCH))
        time.sleep(max(begun + number * BATCH / rate - time.perf_counter(), 0))
        client.post(PATH, {"items": rows})
        yield time.perf_counter(), THERE + (number + 1) * BATCH


def measured(kind: str, rate: int, seconds: int) -> Iterator[str]:
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        url = make()
        with opened(url) as database:
            add_detector(database)
            fill(database, THERE)
            fold(database)
            with database.write() as session:
                key = create_key(session, "benchmark", "editor", by(at=START))
            reader = Reader(database)
            watching = threading.Thread(
                target=reader.run_until, args=(THERE + rate * seconds,), daemon=True
            )
            with served(url, Path(name), worker=True) as port:
                watching.start()
                sent = list(send(port, key, rate, seconds))
                watching.join(timeout=120)
        waits = [reader.visible_at(labels) - at for at, labels in sent]
        taken = sent[-1][0] - sent[0][0]
        yield f"\n{describe(url)}"
        yield f"{'labels':>10}{'a second':>10}{'p50, s':>9}{'p99, s':>9}{'max, s':>9}"
        middle, late, last = np.quantile(waits, (0.5, 0.99, 1))
        arrived = (len(sent) - 1) * BATCH / taken
        yield (
            f"{rate * seconds:>10,}{arrived:>10,.0f}"
            f"{middle:>9.2f}{late:>9.2f}{last:>9.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1_000, help="labels a second")
    parser.add_argument("--seconds", type=int, default=60)
    options = parse_options(parser)
    seconds = 10 if options.quick else options.seconds
    print(
        f"{options.rate:,} labels a second for {seconds} s, the job every 5 s; "
        f"{describe_machine()}"
    )
    for kind in options.kinds:
        for line in measured(kind, options.rate, seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
