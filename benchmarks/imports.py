"""Time the import of labelled rows against the bare statements it cannot do without.

Each time is that of a fresh database with durable commits.  The bare statements are
one ``executemany`` for each table on SQLite and one ``COPY`` on PostgreSQL, in one
transaction, with the very rows that an import left behind; nothing is read, checked or
looked up.  The command is timed as a process from its start to its end, the request
from the first byte sent to the answer.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
    random_rows,
)
from rig.servers import call, environment, served

from tracker.services.people.keys import create_key

TABLES = ("versions", "pending_batches", "queries", "labels")
COLUMNS = tuple(next(random_rows(0, 1)))
# A small process starts the command: one that is started by a large process is said
# to have been as large at its peak.
LAUNCHER = """
import resource, subprocess, sys, time
begun = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - begun
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@dataclass
class Result:
    """Seconds, and megabytes at the peak where they are known."""

    seconds: float = float("inf")
    megabytes: float = 0.0


@dataclass
class Course:
    """The peers on one kind of database, and the best of each so far."""

    make: Callable[[], str]
    folder: Path
    rows: int
    stored: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The rows as CSV."""
        return self.folder / f"{self.rows}.csv"

    def make_with_detector(self) -> str:
        """Make a database with a detector, and return its URL."""
        url = self.make()
        with opened(url) as database:
            add_detector(database)
        return url

    def command(self) -> Result:
        """Run ``tracker import``, and keep what it stored."""
        url = self.make_with_detector()
        result = self._run_command(url, self.file)
        if not self.stored:
            with opened(url) as database, database.engine.connect() as connection:
                for table in TABLES:
                    found = connection.exec_driver_sql(f"SELECT * FROM {table}")
                    self.stored[table] = [tuple(row) for row in found]
        assert len(self.stored["labels"]) == self.rows
        return result

    def command_without_rows(self) -> Result:
        """Run ``tracker import`` on a file with a header alone."""
        return self._run_command(self.make_with_detector(), self.folder / "0.csv")

    def _run_command(self, url: str, file: Path) -> Result:
        words = [sys.executable, "-m", "tracker", "import", DETECTOR, str(file)]
        done = subprocess.run(
            [sys.executable, "-c", LAUNCHER, *words],
            env=environment(url, self.folder),
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, kilobytes = done.stdout.split()
        return Result(float(seconds), float(kilobytes) / 1000)

    def request(self) -> Result:
        """Send the rows to a web server that has just started."""
        url = self.make_with_detector()
        with opened(url) as database, database.write() as session:
            key = create_key(session, "benchmark", "editor", by(at=START))
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "text/csv"}
        with served(url, self.folder) as port, self.file.open("rb") as body:
            headers["Content-Length"] = str(self.file.stat().st_size)
            begun = time.perf_counter()
            answer = call(
                port, "POST", f"/api/v1/detectors/{DETECTOR}/import", body, headers
            )
            seconds = time.perf_counter() - begun
        assert json.loads(answer)["labels_added"] == self.rows, answer
        return Result(seconds)

    def bare(self) -> Result:
        """Insert what was stored, and do nothing else."""
        with opened(self.make_with_detector()) as database:
            connection = database.engine.raw_connection()
            cursor = connection.cursor()
            begun = time.perf_counter()
            if database.is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            for table, rows in self.stored.items():
                if database.is_sqlite:
                    marks = ", ".join("?" * len(rows[0]))
                    cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
                    continue
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
            connection.commit()
            seconds = time.perf_counter() - begun
            connection.close()
        return Result(seconds)


# The bare statements come after a command, whose rows they take.
PEERS: tuple[Callable[[Course], Result], ...] = (
    Course.command,
    Course.command_without_rows,
    Course.request,
    Course.bare,
)


def measured(kind: str, rows: int, repeats: int) -> Iterator[str]:
    best = [Result() for _ in PEERS]
    with (
        fresh_databases(kind) as make,
        tempfile.TemporaryDirectory(prefix="tracker-bench-") as name,
    ):
        course = Course(make, Path(name), rows)
        for number in (0, rows):
            with (course.folder / f"{number}.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                writer.writeheader()
                writer.writerows(random_rows(0, number))
        # Peers take turns, so that a busy moment of the machine falls on all of them.
        for _ in range(repeats):
            for index, peer in enumerate(PEERS):
                best[index] = min(best[index], peer(course), key=lambda r: r.seconds)
        yield f"\n{describe(make())}"
    whole, start, request, bare = best
    yield f"{'':46}{'seconds':>9}{'rows a second':>15}{'of bare':>9}{'peak MB':>9}"
    for title, result in (
        ("bare, in one transaction", bare),
        ("POST .../import, to tracker web on Granian", request),
        ("tracker import, the whole process", whole),
        ("tracker import, less its start", Result(whole.seconds - start.seconds)),
    ):
        rate, share = rows / result.seconds, bare.seconds / result.seconds
        peak = f"{result.megabytes:.0f}" if result.megabytes else ""
        yield f"{title:46}{result.seconds:>9.2f}{rate:>15,.0f}{share:>9.0%}{peak:>9}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parse_options(parser)
    rows = 10_000 if options.quick else options.rows
    repeats = 1 if options.quick else options.repeats
    print(
        f"{rows:,} labelled rows with {', '.join(COLUMNS)}; best of {repeats}; "
        f"{describe_machine()}"
    )
    for kind in options.kinds:
        for line in measured(kind, rows, repeats):
            print(line, flush=True)


if __name__ == "__main__":
    main()
