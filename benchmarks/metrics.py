"""Time one scrape of /metrics with more and more detectors, and count its statements.

The time is the server's own, asked in this process through Flask's test client.  Each
detector has two classes, a target and one version with two labels.
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from flask.testing import FlaskClient
from rig import (
    by,
    describe,
    describe_machine,
    fold,
    fresh_databases,
    opened,
    parse_options,
    sign_in,
)
from sqlalchemy import event

from tracker.app import create_app
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.queries.queries import NewQuery, log_query
from tracker.settings import Settings
from tracker.storage.database import Database


def add_detectors(database: Database, first: int, last: int) -> None:
    """Add detectors with a label of each class."""
    with database.write() as session:
        for number in range(first, last):
            new = NewDetector(name=f"door {number}", question="Is it?", target=0.9)
            detector = create_detector(session, new, by())
            for label in ("YES", "NO"):
                query = NewQuery(predicted="YES", label=label, sampling="random")
                log_query(session, detector, query, by())


def measured(
    database: Database, client: FlaskClient, sizes: list[int], scrapes: int
) -> Iterator[str]:
    heads = ("statements", 12), ("median ms", 12), ("most ms", 10), ("KB", 8)
    yield f"{'detectors':>10}" + "".join(f"{head:>{width}}" for head, width in heads)
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(database.engine, "before_cursor_execute", note)
    before = 0
    for size in sizes:
        add_detectors(database, before, size)
        fold(database)
        before = size
        seconds = []
        for _ in range(scrapes + 1):
            statements.clear()
            begun = time.perf_counter()
            answer = client.get("/metrics")
            seconds.append(time.perf_counter() - begun)
        assert answer.text.count("tracker_verdict{") == 3 * size
        # The first one fills caches.
        middle, last = np.quantile(seconds[1:], (0.5, 1)) * 1000
        kilobytes = len(answer.data) / 1000
        yield (
            f"{size:>10,}{len(statements):>12}{middle:>12.1f}{last:>10.1f}"
            f"{kilobytes:>8,.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--detectors", type=int, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--scrapes", type=int, default=20)
    options = parse_options(parser)
    sizes = [1, 10, 100] if options.quick else sorted(options.detectors)
    print(f"{options.scrapes} scrapes each; {describe_machine()}")
    for kind in options.kinds:
        with (
            fresh_databases(kind) as make,
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as folder,
        ):
            url = make()
            with opened(url) as database:
                settings = Settings(
                    data_dir=Path(folder), secret_key=secrets.token_hex()
                )
                client = create_app(settings, database).test_client()
                sign_in(client, database)
                print(f"\n{describe(url)}")
                for line in measured(database, client, sizes, options.scrapes):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
