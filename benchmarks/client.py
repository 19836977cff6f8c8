"""Time what a program waits for the client, and how many rows arrive a second.

The program logs as fast as it can, or at a pace, while the rows are sent to a real
server; a row has a key, a class, a confidence and metadata.  Acknowledged are rows from
the first call to the end of the flush.  Beside it stand ``os.write`` alone at the same
paces, the import endpoint, given the same rows by one connection a thousand at a time,
and MLflow's client with ``log_metric(synchronous=False)``, on a server of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from rig.servers import (
    MLFLOW,
    Client,
    has_mlflow,
    install_mlflow,
    served,
    served_mlflow,
)

from tracker.services.people.keys import create_key

BATCH = 1_000
# Calls a second; 0 is without a pause.
PACES = (0, 1_000, 100)
# In a process of its own, as a program would be; it prints what it measured.
OURS = """
import json, sys, time
from tracker_client import Tracker
url, key, spool, rows, rate = *sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5])
tracker = Tracker(url, key, spool=spool)
door = tracker.detector("x")
def call(number):
    door.log("YES", confidence=0.97, metadata={"camera": "north", "frame": number})
def finish():
    assert tracker.flush(timeout=600)
    assert not tracker.refused
"""
# What an append takes at least: the system call, with as many bytes as a row has.
BARE = """
import json, os, sys, time
rows, rate = int(sys.argv[4]), float(sys.argv[5])
file = os.open(sys.argv[3], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
content = b"x" * 170 + b"\\n"
def call(number):
    os.write(file, content)
def finish():
    pass
"""
THEIRS = """
import json, sys, time
import mlflow
url, rows, rate = sys.argv[1], int(sys.argv[4]), float(sys.argv[5])
mlflow.set_tracking_uri(url)
mlflow.set_experiment("x")
mlflow.start_run()
pending = []
def call(number):
    pending.append(mlflow.log_metric("correct", 1.0, step=number, synchronous=False))
def finish():
    for one in pending:
        one.wait()
"""
MEASURE = """
call(-1)
finish()
waits = []
begun = time.perf_counter()
for number in range(rows):
    if rate:
        time.sleep(max(begun + number / rate - time.perf_counter(), 0))
    start = time.perf_counter()
    call(number)
    waits.append(time.perf_counter() - start)
finish()
seconds = time.perf_counter() - begun
waits.sort()
shares = [waits[int(share * (rows - 1))] for share in (0.5, 0.99, 1.0)]
print(json.dumps({"rate": rows / seconds, "waits": shares}))
"""


def measured(python: str, code: str, *words: Any) -> dict[str, Any]:
    """Run a program, and return what it measured."""
    path = Path(__file__).parents[1] / "client"
    inherited = os.environ  # noqa: TID251 - handed on to other commands.
    environ = {
        **inherited,
        "PYTHONPATH": str(path),
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    done = subprocess.run(
        [python, "-c", code + MEASURE, *map(str, words)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # MLflow says at its end where its run is to be seen.
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def imported(port: int, key: str, rows: int) -> float:
    """Return rows a second by the import endpoint alone."""
    client = Client(port, key)
    bodies = [
        {
            "items": [
                {
                    "key": f"bare-{first + number}",
                    "predicted": "YES",
                    "confidence": 0.97,
                    "metadata": {"camera": "north", "frame": number},
                }
                for number in range(BATCH)
            ]
        }
        for first in range(0, rows, BATCH)
    ]
    begun = time.perf_counter()
    for body in bodies:
        client.post(f"/api/v1/detectors/{DETECTOR}/import", body)
    return len(bodies) * BATCH / (time.perf_counter() - begun)


def line(title: str, found: dict[str, Any], bare: float | None = None) -> str:
    median, late, longest = (1e6 * wait for wait in found["waits"])
    share = f"{found['rate'] / bare:>9.0%}" if bare else " " * 9
    return (
        f"{title:44}{median:>9.1f}{late:>9.0f}{longest:>10.0f}"
        f"{found['rate']:>13,.0f}{share}"
    )


def said(pace: int) -> str:
    return f"{pace:,} a second" if pace else "without a pause"


def table(kind: str, rows: int) -> Iterator[str]:
    """Yield the lines of the table of one kind of database."""
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        url = make()
        yield f"\n{describe(url)}"
        with opened(url) as database:
            add_detector(database)
            with database.write() as session:
                key = create_key(session, "benchmark", "editor", by(at=START))
        with served(url, Path(name)) as port:
            bare = imported(port, key, rows)
            yield f"{'import endpoint, one connection':72}{bare:>13,.0f}{1:>9.0%}"
            server = f"http://127.0.0.1:{port}"
            for pace in PACES:
                spool = Path(name) / f"spool-{pace}"
                words = server, key, spool, rows if not pace else 5 * pace, pace
                found = measured(sys.executable, OURS, *words)
                yield line(f"log, {said(pace)}", found, bare)
                words = *words[:2], Path(name) / f"bare-{pace}", *words[3:]
                found = measured(sys.executable, BARE, *words)
                yield line(f"os.write alone, {said(pace)}", found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--metrics", type=int, default=2_000, help="MLflow's")
    parser.add_argument("--without-mlflow", action="store_true")
    options = parse_options(parser)
    rows = 10_000 if options.quick else options.rows
    print(f"{rows:,} rows; {describe_machine()}")
    print(
        f"{'microseconds a call waits':44}{'median':>9}{'99 %':>9}{'longest':>10}"
        f"{'rows/s':>13}{'of it':>9}"
    )
    for kind in options.kinds:
        for text in table(kind, rows):
            print(text, flush=True)
    if not options.without_mlflow and has_mlflow():
        with (
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
            served_mlflow(Path(name)) as port,
        ):
            print(f"\nMLflow {MLFLOW}, log_metric(synchronous=False)")
            python = str(install_mlflow().with_name("python"))
            for pace in (0, 100):
                number = 5 * pace or options.metrics
                words = f"http://127.0.0.1:{port}", "", "", number, pace
                print(line(said(pace), measured(python, THEIRS, *words)), flush=True)


if __name__ == "__main__":
    main()
