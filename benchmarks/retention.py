"""Time what the worker does to delete queries that were never labelled.

Each piece is a transaction of its own; how long it takes is how long another writer
waits for it at most on SQLite.  Every third query has an input, and some of those
stand beside a labelled one and are kept.
"""

import argparse
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from rig import (
    DETECTOR,
    add_detector,
    describe,
    describe_machine,
    fold,
    fresh_databases,
    import_all,
    opened,
    parse_options,
    random_rows,
)

from tracker.jobs.retention import delete_old_queries
from tracker.storage.database import Database
from tracker.storage.operations.retention import Place, list_unlabelled

FILE = 100_000
PIECE = 1_000


def rows(first: int, number: int) -> Iterator[dict[str, object]]:
    """Yield queries, of which one in ten has a label and one in three an input."""
    for place, row in enumerate(random_rows(first, number), start=first):
        if place % 10:
            del row["label"], row["sampling"]
        if not place % 3:
            row["input"] = f"input-{place // 6}"
        yield row


def measured(database: Database, pieces: int) -> Iterator[str]:
    now = datetime.now(UTC) + timedelta(days=30)
    after: Place | None = None
    looked, deleted, kept = [], [], 0
    for _ in range(pieces):
        begun = time.perf_counter()
        with database.read() as session:
            places = list_unlabelled(session, before=now, after=after, limit=PIECE)
        looked.append(time.perf_counter() - begun)
        if not places:
            break
        after = places[-1]
        begun = time.perf_counter()
        with database.write() as session:
            kept += len(places) - delete_old_queries(session, places, deleted_at=now)
        deleted.append(time.perf_counter() - begun)
    yield f"{'milliseconds':20}{'median':>8}{'p99':>8}{'max':>8}"
    for title, seconds in (("look for a piece", looked), ("delete it", deleted)):
        middle, late, last = np.quantile(seconds, (0.5, 0.99, 1)) * 1000
        yield f"{title:20}{middle:>8.1f}{late:>8.1f}{last:>8.1f}"
    yield f"{len(deleted):,} pieces of {PIECE:,}, of which {kept:,} queries are kept"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10**6)
    parser.add_argument("--pieces", type=int, default=200)
    options = parse_options(parser)
    queries = 20_000 if options.quick else options.queries
    print(f"{queries:,} queries, one in ten labelled; {describe_machine()}")
    for kind in options.kinds:
        with fresh_databases(kind) as make:
            url = make()
            print(f"\n{describe(url)}")
            with opened(url) as database:
                add_detector(database)
                for first in range(0, queries, FILE):
                    number = min(FILE, queries - first)
                    import_all(database, rows(first, number), detector=DETECTOR)
                fold(database)
                for line in measured(database, options.pieces):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
