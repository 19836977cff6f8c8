"""What slices cost: a label by API with four keys of fifty values, and a read of 500.

    python benchmarks/slices.py [--labels 2000] [--slices 500] [--batch 100]

A label is the call of the service and its share of the job, which runs after every
hundredth, or as many as *batch* says.
"""

import argparse
import random
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from tracker.jobs.recompute import Recompute
from tracker.services.by import Actor, By
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.slices import get_slices
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import find_detector
from tracker.storage.operations import schema

KEYS = ("camera", "site", "line", "shift")
VALUES = 50


def now() -> datetime:
    return datetime.now(UTC)


def by() -> By:
    return By(Actor("bench", "admin", "command"), now(), "::1")


def make(database: Database, name: str, slices: list[str]) -> int:
    with database.write() as session:
        new = NewDetector(name=name, question="Closed?", slices=slices)
        return create_detector(session, new, by()).id


def log(
    database: Database, detector_id: int, metadata: list[dict[str, str]]
) -> list[int]:
    with database.write() as session:
        detector = find_detector(session, detector_id)
        assert detector is not None
        return [
            log_query(session, detector, NewQuery(predicted="YES", metadata=one), by())[
                0
            ].id
            for one in metadata
        ]


def label(database: Database, detector_id: int, query_ids: list[int]) -> float:
    draw = random.Random(1)
    # Of the processor, since others may work on the machine.
    begun = time.process_time()
    for query_id in query_ids:
        with database.write() as session:
            new = NewLabel(label="YES" if draw.random() < 0.9 else "NO")
            add_label(session, query_id, new, by())
    Recompute(database=database, worker="bench").recompute(detector_id)
    return time.process_time() - begun


def compare_labelling(database: Database, labels: int, batch: int) -> None:
    draw = random.Random(2)
    plain, cut = make(database, "plain", []), make(database, "cut", list(KEYS))
    metadata = [
        {key: f"{key}-{draw.randrange(VALUES)}" for key in KEYS} for _ in range(labels)
    ]
    waiting = {one: log(database, one, metadata) for one in (plain, cut)}
    for one in waiting:
        Recompute(database=database, worker="bench").recompute(one)
    times: dict[int, list[float]] = {plain: [], cut: []}
    # In turns, so that a busy machine slows both down.
    for start in range(0, labels, batch):
        for one, ids in waiting.items():
            times[one].append(label(database, one, ids[start : start + batch]))
    usual, sliced = (median(times[one]) / batch * 1e3 for one in (plain, cut))
    print(
        f"a label and its share of the job: {usual:.3f} ms, with four keys of "
        f"{VALUES} values {sliced:.3f} ms: {sliced / usual:.3f} times"
    )


def read(database: Database, slices: int) -> None:
    detector_id = make(database, "many", ["camera"])
    metadata = [{"camera": f"c{number % slices}"} for number in range(4 * slices)]
    ids = log(database, detector_id, metadata)
    label(database, detector_id, ids)
    times = []
    for _ in range(15):
        begun = time.process_time()
        with database.read() as session:
            detector = find_detector(session, detector_id)
            assert detector is not None
            found = get_slices(
                session, detector, by="metadata.camera", computed_at=now()
            )
        times.append(time.process_time() - begun)
    print(f"a read of {len(found.items)} slices: {median(times) * 1e3:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--labels", type=int, default=2000)
    parser.add_argument("--slices", type=int, default=500)
    parser.add_argument("--batch", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{Path(folder) / 'bench.db'}")
        schema.upgrade(database)
        compare_labelling(database, options.labels, options.batch)
        read(database, options.slices)
        database.close()


if __name__ == "__main__":
    main()
