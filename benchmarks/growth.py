"""Measure what labels take on the disk and in time, and say what 100,000,000 would.

Rows come in by the product's own import, each a query with its label, and the worker
folds them in.  At each size the tables and indexes are weighed, and the job and the
page of the detector are timed.  The last column follows the straight line through
the sizes; nothing of it was measured.
"""

import argparse
import secrets
import tempfile
import time
from pathlib import Path

import numpy as np
from flask.testing import FlaskClient
from rig import (
    DETECTOR,
    add_detector,
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
from tracker.jobs.recompute import Recompute
from tracker.services.detectors import get_detector
from tracker.settings import Settings
from tracker.storage.database import Database

SIZES = [100_000, 300_000, 1_000_000]
QUICK_SIZES = [10_000, 30_000, 100_000]
GOAL = 10**8
FILE = 50_000
NEW = 1_000
REPEATS = 5
REQUESTS = 20
# What is smaller at the largest size is summed up in one row.
SMALLEST_MB = 0.5
_OF_SQLITE = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
_OF_POSTGRESQL = (
    "SELECT oid::regclass::text AS name, pg_relation_size(oid) FROM pg_class"
    " WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace"
)
Row = dict[str, float]


def weigh(database: Database) -> Row:
    """Return how many MB each table and each index takes."""
    with database.engine.connect() as connection:
        if database.is_sqlite:
            found = connection.exec_driver_sql(_OF_SQLITE).all()
        else:
            found = connection.exec_driver_sql(_OF_POSTGRESQL).all()
    return {name: float(size) / 1e6 for name, size in found}


def time_job(database: Database, there: int) -> float:
    """Return the milliseconds of the job on new labels, best of a few."""
    with database.read() as session:
        detector_id = get_detector(session, DETECTOR).id
    seconds = []
    for repeat in range(REPEATS):
        fill(database, NEW, first=there + repeat * NEW)
        begun = time.perf_counter()
        done = Recompute(database=database, worker="benchmark").recompute(detector_id)
        seconds.append(time.perf_counter() - begun)
        assert done is not None
        assert done.labels == NEW
    return min(seconds) * 1000


def time_page(client: FlaskClient) -> float:
    """Return the milliseconds of the page of the detector, best of many."""
    seconds = []
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        answer = client.get(f"/detectors/{DETECTOR}")
        seconds.append(time.perf_counter() - begun)
        assert answer.status_code == 200, answer.status
    return min(seconds) * 1000


def grow(database: Database, folder: Path, sizes: list[int]) -> list[tuple[Row, Row]]:
    """Return MB and milliseconds at each size."""
    add_detector(database)
    settings = Settings(data_dir=folder, secret_key=secrets.token_hex())
    client = create_app(settings, database).test_client()
    sign_in(client, database)
    found = []
    there = 0
    for size in sizes:
        while there < size:
            number = min(FILE, size - there)
            fill(database, number, first=there)
            fold(database)
            there += number
        megabytes = weigh(database)
        job = time_job(database, there)
        there += NEW * REPEATS
        found.append((megabytes, {"job": job, "page": time_page(client)}))
    return found


def follow(sizes: list[int], values: list[float]) -> tuple[float, float]:
    """Return the slope of the straight line through *values*, and where it leads."""
    slope, start = np.polyfit(sizes, values, 1)
    return float(slope), float(start + slope * GOAL)


def show(sizes: list[int], found: list[tuple[Row, Row]]) -> None:
    names = sorted(found[-1][0], key=lambda name: -found[-1][0][name])
    large = [name for name in names if found[-1][0][name] >= SMALLEST_MB]
    head = "".join(f"{size:>11,}" for size in sizes)
    print(f"{'MB':46}{head}{'bytes a label':>15}{f'GB at {GOAL:,}':>19}")
    weights = [row for row, _ in found]
    lines = {name: [row.get(name, 0.0) for row in weights] for name in large}
    every = [sum(row.values()) for row in weights]
    lines["all others"] = [
        whole - sum(line[place] for line in lines.values())
        for place, whole in enumerate(every)
    ]
    lines["everything"] = every
    for name, values in lines.items():
        slope, goal = follow(sizes, values)
        cells = "".join(f"{value:>11,.1f}" for value in values)
        print(f"{name:46}{cells}{slope * 1e6:>15,.1f}{goal / 1000:>19,.1f}")
    titles = {"job": f"job on {NEW:,} new labels, ms", "page": "page of it, ms"}
    for kind, title in titles.items():
        values = [times[kind] for _, times in found]
        slope, goal = follow(sizes, values)
        cells = "".join(f"{value:>11,.1f}" for value in values)
        leads = f"{goal:,.0f} ms" if slope > 0 else "no growth"
        print(f"{title:46}{cells}{'':15}{leads:>19}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="LABELS")
    options = parse_options(parser)
    sizes = QUICK_SIZES if options.quick else sorted(options.sizes)
    print(f"Growth to {sizes[-1]:,} labelled queries; {describe_machine()}")
    for kind in options.kinds:
        with (
            fresh_databases(kind) as make,
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as folder,
        ):
            url = make()
            with opened(url) as database:
                found = grow(database, Path(folder), sizes)
                print(f"\n{describe(url)}")
                show(sizes, found)


if __name__ == "__main__":
    main()
