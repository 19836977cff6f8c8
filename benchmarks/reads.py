"""Time the reads of the API that once read every query, with metadata and confidences.

The time is the server's own, as in pages.py, and that of its process alone, to which
the work of PostgreSQL does not belong.
"""

import argparse
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    describe,
    describe_machine,
    fold,
    fresh_databases,
    import_all,
    opened,
    parse_options,
    random_rows,
)

from tracker.app import create_app
from tracker.services.detectors import (
    DetectorChange,
    change_detector,
    get_open_detector,
)
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.database import Database

READS = (
    ("estimate", "estimate"),
    ("estimate, a value of the declared key", "estimate?where=metadata.camera:c7"),
    ("estimate, a value of another key", "estimate?where=metadata.site:s7"),
    ("list, a value of fifty, declared", "queries?where=metadata.camera:c7"),
    ("list, no such value, declared", "queries?where=metadata.camera:none"),
    ("list, no such number, declared", "queries?where=metadata.camera:7"),
    ("list, a value of fifty, another key", "queries?where=metadata.site:s7"),
    ("list, no such value, another key", "queries?where=metadata.site:none"),
    ("list, by confidence", "queries?sort=confidence"),
    ("list, by confidence, downwards", "queries?sort=-confidence"),
    ("list, one prediction", "queries?predicted=YES"),
    ("thresholds", "thresholds"),
    ("calibration", "calibration"),
    ("estimate, as known then", "estimate?as_known_at=2100-01-01T00:00:00Z"),
    ("estimate, since a moment", "estimate?since=2026-01-02T05:00:00Z"),
    ("estimate, all versions, since", "estimate?version=*&since=2026-01-02T05:00:00Z"),
    ("estimate, days in where", "estimate?where=asked_at:2026-01-02.."),
    ("estimate, one prediction", "estimate?where=predicted:YES"),
    (
        "estimate, declared, one prediction",
        "estimate?where=metadata.camera:c7&where=predicted:YES",
    ),
    (
        "estimate, declared, since",
        "estimate?where=metadata.camera:c7&since=2026-01-02T05:00:00Z",
    ),
    ("estimate, confident", "estimate?where=confidence:0.9.."),
    ("estimate, last 500", "estimate?window=500"),
    (
        "estimate, as known then, since",
        "estimate?as_known_at=2100-01-01T00:00:00Z&since=2026-01-02T05:00:00Z",
    ),
    ("list", "queries"),
    ("list, since a moment", "queries?since=2026-01-02T05:00:00Z"),
    ("list, before a moment", "queries?until=2026-01-02T05:00:00Z"),
    ("list, labelled, since", "queries?labelled=true&since=2026-01-02T05:00:00Z"),
    ("list, wrong, since", "queries?wrong=true&since=2026-01-02T05:00:00Z"),
    ("list, wrong, declared", "queries?wrong=true&where=metadata.camera:c7"),
    ("list, one prediction in where", "queries?where=predicted:YES"),
    ("history", "history"),
    ("slices", "slices?by=metadata.camera"),
    ("slices by prediction", "slices?by=predicted"),
    ("slices by week", "slices?by=week"),
    ("weeks", "weeks"),
    ("cohorts", "cohorts"),
    ("labelers", "labelers"),
)
FILE = 10_000


def rows(first: int, number: int) -> Iterator[dict[str, object]]:
    for place, row in enumerate(random_rows(first, number), first):
        cut = {"camera": f"c{place % 50}", "site": f"s{place % 50}", "n": place % 7}
        yield row | {"metadata": cut}


def build(database: Database, labels: int) -> str:
    """Fill *database*, declare a key, and return a key for its API."""
    add_detector(database)
    imported = folded = 0.0
    for first in range(0, labels, FILE):
        begun = time.process_time()
        import_all(database, rows(first, FILE))
        imported += time.process_time() - begun
        begun = time.process_time()
        fold(database)
        folded += time.process_time() - begun
    begun = time.perf_counter()
    with database.write() as session:
        detector = get_open_detector(session, DETECTOR)
        change_detector(
            session, detector, DetectorChange(slices=["camera"]), by(at=START)
        )
    fold(database)
    declared = time.perf_counter() - begun
    database.settle()
    print(
        f"processor time a row: import {imported / labels * 1e6:.1f} µs, "
        f"fold {folded / labels * 1e6:.1f} µs; the key was counted in {declared:.1f} s"
    )
    with database.write() as session:
        return create_key(session, "benchmark", "admin", by(at=START))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--labels", type=int, default=10**6)
    parser.add_argument("--requests", type=int, default=5)
    options = parse_options(parser)
    labels = 20_000 if options.quick else options.labels
    print(f"{labels:,} labels; {options.requests} requests each; {describe_machine()}")
    for kind in options.kinds:
        with (
            fresh_databases(kind) as make,
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as folder,
            opened(make()) as database,
        ):
            print(f"\n{describe(database.engine.url.render_as_string())}", flush=True)
            key = build(database, labels)
            settings = Settings(data_dir=Path(folder), secret_key=secrets.token_hex())
            client = create_app(settings, database).test_client()
            options_: dict[str, Any] = {"headers": {"Authorization": f"Bearer {key}"}}
            print(f"{'milliseconds':40}{'median':>8}{'own':>8}")
            for title, address in READS:
                path = f"/api/v1/detectors/{DETECTOR}/{address}"
                took = []
                for _ in range(options.requests + 1):
                    begun = time.perf_counter(), time.process_time()
                    answer = client.get(path, **options_)
                    ended = time.perf_counter(), time.process_time()
                    assert answer.status_code == 200, (path, answer.text)
                    took.append(np.subtract(ended, begun))
                # The first one loads and plans.
                median, own = np.median(took[1:], axis=0) * 1000
                print(f"{title:40}{median:>8.1f}{own:>8.1f}", flush=True)


if __name__ == "__main__":
    main()
