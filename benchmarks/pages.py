"""Time the pages and the reads of the API with millions of labels in the database.

The time is the server's own: from the request to the last byte of the answer within
the application, asked in this process through Flask's test client, without a network.
Labels came in files of ten thousand, the job ran after each, and a thousand queries
wait to be labelled; a dozen other detectors share the list.
"""

import argparse
import gc
import resource
import secrets
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from flask.testing import FlaskClient
from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    class_names,
    describe,
    describe_machine,
    fill,
    fold,
    fresh_databases,
    opened,
    parse_options,
    sign_in,
)

from tracker.app import create_app
from tracker.services.detectors import get_open_detector
from tracker.services.people.keys import create_key
from tracker.services.queries.queries import NewQuery, log_query
from tracker.settings import Settings
from tracker.storage.database import Database

ADDRESSES = (
    ("list of detectors", "/"),
    ("a detector", "/detectors/{id}"),
    ("its history", "/detectors/{id}/changes"),
    ("its chart, specification", "/detectors/{id}/chart.json"),
    ("its queries", "/detectors/{id}/queries"),
    ("its queries, disagreements", "/detectors/{id}/queries?show=wrong"),
    ("its queries of one class", "/detectors/{id}/queries?label={label}"),
    ("labelling", "/detectors/{id}/label"),
    ("labels still needed", "/detectors/{id}/labelling"),
    ("metrics", "/metrics"),
    ("API: list of detectors", "/api/v1/detectors"),
    ("API: a detector", "/api/v1/detectors/{id}"),
    ("API: estimate", "/api/v1/detectors/{id}/estimate"),
    ("API: estimate of a while", "/api/v1/detectors/{id}/estimate?since={since}"),
    ("API: history, 1st page", "/api/v1/detectors/{id}/history"),
    ("API: history, all as CSV", "/api/v1/detectors/{id}/history?format=csv"),
    ("API: queries, 1st page", "/api/v1/detectors/{id}/queries"),
)
OTHERS = 199
WAITING = 1_000
FILE = 10_000


def build(database: Database, labels: int, classes: int) -> str:
    """Fill *database*, and return a key for its API."""
    for number in range(OTHERS):
        add_detector(database, f"other {number}")
        fill(database, 50, detector=f"other {number}")
    add_detector(database, classes=classes)
    for first in range(0, labels, FILE):
        fill(database, min(FILE, labels - first), first=first, classes=classes)
        fold(database)
    # As each large import ends.
    database.settle()
    new = NewQuery(predicted=class_names(classes)[0], version="v1")
    with database.write() as session:
        detector = get_open_detector(session, DETECTOR)
        for _ in range(WAITING):
            log_query(session, detector, new, by("", START))
        key = create_key(session, "benchmark", "admin", by(at=START))
    fold(database)
    return key


def measured(
    client: FlaskClient, key: str, requests: int, labels: int
) -> Iterator[str]:
    # Queries are asked a second apart; a third of them before this.
    since = (START + timedelta(seconds=labels // 3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    yield f"{'milliseconds':28}{'median':>8}{'p99':>8}{'max':>8}{'KB':>8}"
    for title, address in ADDRESSES:
        path = address.format(id=DETECTOR, label="YES", since=since)
        options: dict[str, Any] = {"headers": {"Authorization": f"Bearer {key}"}}
        seconds = []
        for _ in range(requests + 3):
            begun = time.perf_counter()
            answer = client.get(path, **options)
            seconds.append(time.perf_counter() - begun)
            assert answer.status_code == 200, (path, answer.status)
        # The first ones load templates and fill caches.
        middle, late, last = np.quantile(seconds[3:], (0.5, 0.99, 1)) * 1000
        size = len(answer.data) / 1000
        yield f"{title:28}{middle:>8.1f}{late:>8.1f}{last:>8.1f}{size:>8.0f}"


def describe_size(database: Database, labels: int) -> str:
    """Return what so many labels take on the disk, and took in memory at most."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            size = (
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            )
        else:
            size = "SELECT pg_database_size(current_database())"
        disk = connection.exec_driver_sql(size).scalar_one() / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return (
        f"{disk:,.0f} MB on the disk, {disk / labels * 1e6:,.0f} for a million labels; "
        f"{peak:,.0f} MB of memory at the peak"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=10**6)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--requests", type=int, default=100)
    options = parse_options(parser)
    labels = 20_000 if options.quick else options.labels
    print(
        f"{labels:,} labels of {options.classes} classes; {options.requests} requests "
        f"each; {describe_machine()}"
    )
    for kind in options.kinds:
        with (
            fresh_databases(kind) as make,
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as folder,
        ):
            url = make()
            with opened(url) as database:
                key = build(database, labels, options.classes)
                settings = Settings(
                    data_dir=Path(folder), secret_key=secrets.token_hex()
                )
                client = create_app(settings, database).test_client()
                sign_in(client, database)
                # As `tracker web` does before it answers.
                gc.collect()
                gc.freeze()
                print(f"\n{describe(url)}")
                print(describe_size(database, labels))
                for line in measured(client, key, options.requests, labels):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
