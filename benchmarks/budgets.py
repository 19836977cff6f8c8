"""Time the costliest computations that a request may ask for, beside their budgets.

A computation has 250 milliseconds at the default confidence level and a second at any
other; a sum over all outcomes takes longer, and one of a few places.  Each request is
sent once, to caches that do not know it, and timed from the request to the last byte
in this process.  The worker's job is timed on labels whose joint interval is costly.
"""

import argparse
import random
import secrets
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from flask.testing import FlaskClient
from rig import (
    START,
    add_detector,
    by,
    class_names,
    describe_machine,
    fold,
    fresh_databases,
    import_all,
    opened,
    parse_options,
)

from tracker.app import create_app
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.stats import (
    balanced_coverage,
    balanced_interval,
    get_method,
    only_likely,
)
from tracker.storage.database import Database

USUAL, ODD = "0.95", "0.9999999"
SUMMED = "a place"
INTERVALS = (
    (200, 200, 10**6),
    (200, 200, 5_000),
    (1_000, 1_000, 1_000),
    (10**6, 10**6),
    tuple(range(10, 7_010, 7)),
    tuple(range(10**6, 10**6 + 1_000)),
)
# Two versions on the same inputs: how many of each class, and how many classes.
PAIRS = ((2_000, 2), (200, 10), (5, 1_000))
PLANNED_CLASSES, PLANNED_LABELS = 1_000, 10_000
COVERED = (
    ("joint", (20, 20)),
    ("posterior", (90, 90)),
    ("anytime", (300, 300)),
    ("mid-p", (300, 300)),
    ("exact", (500, 500)),
)
WORKED = (200, 200, 5_000)


def counted_rows(
    counts: Sequence[int], *, versions: int = 1
) -> Iterator[dict[str, object]]:
    """Yield labelled queries in a random order, so many of each class."""
    rng = random.Random(11)
    names = class_names(len(counts))
    labels = [name for name, n in zip(names, counts, strict=True) for _ in range(n)]
    rng.shuffle(labels)
    for number in range(1, versions + 1):
        for place, label in enumerate(labels):
            yield {
                "key": f"part-{number}-{place:08d}",
                "input": f"part-{place:08d}",
                "predicted": label if rng.random() < 0.9 else rng.choice(names),
                "version": f"v{number}",
                "asked_at": (START + timedelta(seconds=place)).isoformat(),
                "label": label,
                "sampling": "random",
            }


def add_filled(
    database: Database, name: str, counts: Sequence[int], *, versions: int = 1
) -> None:
    """Add a detector with labelled queries, and fold them."""
    add_detector(database, name, classes=len(counts))
    import_all(database, counted_rows(counts, versions=versions), detector=name)
    fold(database)


def milliseconds(client: FlaskClient, key: str, path: str) -> float:
    """Return how long one request takes that nobody sent before."""
    begun = time.perf_counter()
    answer = client.get(f"/api/v1{path}", headers={"Authorization": f"Bearer {key}"})
    taken = time.perf_counter() - begun
    assert answer.status_code == 200, (path, answer.text)
    return taken * 1e3


def line(name: str, taken: float, budget: str) -> str:
    return f"{name:52}{taken:>9.0f}{budget:>9}"


def budget_of(level: str) -> str:
    return "250" if level == USUAL else "1000"


def shown(counts: Sequence[int]) -> str:
    if len(counts) <= 3:
        return ", ".join(f"{count:,}" for count in counts)
    return f"{len(counts):,} classes, {min(counts):,} to {max(counts):,}"


def measure_requests(client: FlaskClient, key: str) -> Iterator[str]:
    """Yield a line for each request."""
    yield f"{'request':52}{'ms':>9}{'budget':>9}"
    for counts in INTERVALS:
        for level in (USUAL, ODD):
            correct = [9 * n // 10 for n in counts]
            begun = time.perf_counter()
            balanced_interval("joint", correct, counts, float(level))
            taken = 1e3 * (time.perf_counter() - begun)
            yield line(f"joint {shown(counts)}, {level}", taken, budget_of(level))
    for each, classes in PAIRS:
        for level in (USUAL, ODD):
            path = f"/detectors/pairs-{classes}/comparison?confidence_level={level}"
            name = f"/comparison {each:,} pairs x {classes:,} classes, {level}"
            yield line(name, milliseconds(client, key, path), budget_of(level))
    for level in (USUAL, ODD):
        path = f"/detectors/planned/plan?confidence_level={level}"
        name = f"/plan {PLANNED_CLASSES:,} classes, {level}"
        yield line(name, milliseconds(client, key, path), budget_of(level))
    for method, counts in COVERED:
        truth = (0.9, 0.9)
        interval = only_likely(get_method(method).balanced_interval, counts, truth)
        begun = time.perf_counter()
        balanced_coverage(interval, counts, truth, float(USUAL))
        taken = 1e3 * (time.perf_counter() - begun)
        yield line(f"coverage {method} {shown(counts)}, {USUAL}", taken, SUMMED)


def measure_worker(database: Database) -> str:
    """Return how long the job takes for labels of three classes of unlike sizes."""
    add_detector(database, "worked", classes=len(WORKED))
    import_all(database, counted_rows(WORKED), detector="worked")
    begun = time.perf_counter()
    fold(database)
    taken = time.perf_counter() - begun
    return f"the job, {sum(WORKED):,} labels of {shown(WORKED)}: {taken:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options = parse_options(parser)
    print(describe_machine())
    for kind in options.kinds:
        with (
            fresh_databases(kind) as make,
            tempfile.TemporaryDirectory(prefix="tracker-bench-") as folder,
            opened(make()) as database,
        ):
            for each, classes in PAIRS:
                add_filled(database, f"pairs-{classes}", (each,) * classes, versions=2)
            share = PLANNED_LABELS // PLANNED_CLASSES
            add_filled(database, "planned", (share,) * PLANNED_CLASSES)
            with database.write() as session:
                key = create_key(session, "benchmark", "admin", by(at=START))
            settings = Settings(data_dir=Path(folder), secret_key=secrets.token_hex())
            client = create_app(settings, database).test_client()
            print(f"\n{kind}")
            for text in measure_requests(client, key):
                print(text, flush=True)
            print(measure_worker(database))


if __name__ == "__main__":
    main()
