"""How long an audit of a large set takes, from the database, in one process.

    python benchmarks/audit_queue.py --database both [--queries N] [--labels N]

The set is made of copies of one query, in SQL.  Draws are handed out one by one, and
every answer is a label through the service.  Commits, which wait for the disk, are
not counted.
"""

import argparse
import random
import resource
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import numpy as np
from rig import by as by_at
from rig import (
    class_names,
    describe,
    describe_machine,
    fresh_databases,
    opened,
    parse_options,
)
from sqlalchemy import inspect, text
from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.labelling.auditing import audits
from tracker.services.labelling.auditing.audit_draws import draw_next, load_record
from tracker.services.labelling.auditing.audit_estimates import (
    compare_with_random,
    get_audit_estimate,
)
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector
from tracker.storage.labelling.audits import get_last_round
from tracker.storage.queries.queries import Query, find_query

ACCURACY = 0.9
# Labels given to queries that no audit drew.
OTHERS = 200


def by() -> By:
    return by_at(at=datetime.now(UTC))


def fill(database: Database, queries: int, classes: list[str]) -> int:
    with database.write() as session:
        new = NewDetector(name="bench", question="Which?", classes=classes)
        detector = create_detector(session, new, by())
        one = NewQuery(predicted=classes[0], confidence=0.9)
        first = log_query(session, detector, one, by())[0].id
        names = [column.name for column in inspect(Query).columns]
        said = " ".join(f"WHEN {i} THEN '{name}'" for i, name in enumerate(classes))
        drawn = {
            "id": f"{first} + n",
            "key": "'k' || n",
            # Hashes of the number, so that a class and a confidence are unrelated.
            "predicted": f"CASE (n * 7919 / 13) % {len(classes)} {said} END",
            "confidence": "1.0 - 0.5 * ((n * 104729) % 99991 / 99991.0)"
            " * ((n * 1299709) % 99989 / 99989.0)",
        }
        columns = ", ".join(f'"{name}"' for name in names)
        values = ", ".join(drawn.get(name, f'q."{name}"') for name in names)
        session.execute(
            text(
                "WITH RECURSIVE numbers(n) AS (SELECT CAST(1 AS BIGINT) "
                "UNION ALL SELECT n + 1 FROM "
                f"numbers WHERE n < {queries - 1}) INSERT INTO queries ({columns}) "
                f"SELECT {values} FROM numbers, queries q WHERE q.id = {first}"
            )
        )
        detector_id = detector.id
    with database.engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE")
    return detector_id


class Clock:
    """What took how long, by name."""

    def __init__(self) -> None:
        """Begin with nothing measured."""
        self.taken: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure what is done within."""
        start = time.perf_counter()
        yield
        self.taken[name].append(time.perf_counter() - start)

    def rows(self) -> Iterator[str]:
        """Yield a line for each name."""
        for name, taken in self.taken.items():
            cells = np.median(taken), np.quantile(taken, 0.95), max(taken)
            shown = [f"{one * 1e3:,.2f}" for one in cells]
            yield f"{name:40}{shown[0]:>10}{shown[1]:>12}{shown[2]:>10}"


def give(
    session: Session, query_id: int, detector_id: int, clock: Clock, *, name: str
) -> None:
    """Label a query, rightly most of the time."""
    detector, query = find_detector(session, detector_id), find_query(session, query_id)
    assert detector is not None
    assert query is not None
    draw = random.Random(query_id)
    is_right = draw.random() < ACCURACY
    label = query.predicted if is_right else draw.choice(detector.classes)
    with clock.of(name):
        add_label(session, query.id, NewLabel(label=label), by())


def label_all(
    database: Database, audit_id: str, detector_id: int, labels: int, clock: Clock
) -> None:
    """Label so many draws, each as soon as it is handed out."""
    rounds = 1
    for _ in range(labels):
        with database.write() as session:
            audit = get_audit(session, audit_id)
            start = time.perf_counter()
            (drawn,) = draw_next(session, audit, by())
            taken = time.perf_counter() - start
            now = get_last_round(session, audit).number + 1
        clock.taken["next" if now == rounds else "next, with a new round"].append(taken)
        rounds = now
        with database.write() as session:
            query_id = drawn.query_id
            give(session, query_id, detector_id, clock, name="a label of an audit")


def label_others(database: Database, detector_id: int, clock: Clock) -> None:
    """Label queries that no audit drew, for comparison."""
    with database.read() as session:
        found = session.execute(
            text(
                "SELECT id FROM queries WHERE label IS NULL AND id NOT IN "
                "(SELECT query_id FROM audit_draws) ORDER BY id LIMIT :n"
            ),
            {"n": OTHERS},
        ).all()
    for row in found:
        with database.write() as session:
            give(session, row.id, detector_id, clock, name="a label of no audit")


def measure(
    database: Database, queries: int, labels: int, classes: list[str]
) -> Iterator[str]:
    """Carry out an audit, and yield how long its parts took."""
    clock = Clock()
    detector_id = fill(database, queries, classes)
    new, who = NewAudit(name="a", seed="1"), by()
    # As a schedule freezes a set.
    with database.read() as session, clock.of("plan, with the forecast"):
        detector = find_detector(session, detector_id)
        assert detector is not None
        plan = audits.plan_audit(session, detector, new, at=who.at)
    with database.write() as session:
        audit = audits.add_audit(session, detector, new, plan, who)
    for start in range(0, queries, audits.PIECE):
        with database.write(tracker_lasts=False) as session, clock.of("a piece of it"):
            audits.add_items(session, audit, plan, start)
    with database.write() as session, clock.of("complete"):
        audit = session.merge(audit)
        audits.complete_audit(session, audit, plan, who)
        audit_id = dump_id("aud", audit.id)
    label_all(database, audit_id, detector_id, labels, clock)
    label_others(database, detector_id, clock)
    with database.read() as session:
        audit = get_audit(session, audit_id)
        for _ in range(9):
            with clock.of("all intervals"):
                get_audit_estimate(session, audit, computed_at=by().at)
        record = load_record(session, audit)
        with clock.of("the page's comparison, once a round"):
            compare_with_random(record)
    yield f"{'':40}{'median':>10}{'95 of 100':>12}{'most':>10}"
    yield from clock.rows()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=2_000)
    parser.add_argument("--classes", type=int, nargs="+", default=[2, 10])
    options = parse_options(parser)
    queries = 20_000 if options.quick else options.queries
    labels = 200 if options.quick else options.labels
    print(f"{queries:,} queries, {labels:,} labels; milliseconds; {describe_machine()}")
    for kind in options.kinds:
        with fresh_databases(kind) as make:
            for classes in options.classes:
                url = make()
                with opened(url) as database:
                    print(f"\n{describe(url)}, {classes} classes")
                    names = class_names(classes)
                    for line in measure(database, queries, labels, names):
                        print(line, flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\n{peak:.0f} MB at most, of this process")


if __name__ == "__main__":
    main()
