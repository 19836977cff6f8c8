"""Both databases answer what is asked of a detector by an index."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, timedelta
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.conftest import START, Clock
from tests.services.conftest import Bench
from tracker.services.evidence.populations import compared_standings
from tracker.storage.database import Database
from tracker.storage.deciding.comparison import count_pairs
from tracker.storage.detectors import add_versions
from tracker.storage.estimates.counts import (
    count_pending_labels,
    count_pending_rows,
    count_window,
)
from tracker.storage.estimates.label_changes import iter_pending_changes
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.estimates.weeks import count_hours
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.audits import Audit, mark_known
from tracker.storage.labelling.current import set_current_labels
from tracker.storage.labelling.queues import RandomQueue, TargetedQueue
from tracker.storage.labelling.reservations import (
    count_waiting,
    find_free_query,
    list_reserved,
    reserve_query,
)
from tracker.storage.labels import (
    Label,
    iter_label_rows,
    list_labels,
)
from tracker.storage.operations.retention import lock_disposable
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.storage.queries.queries import (
    add_queries,
    find_query_by_key,
    find_query_of,
    list_queries,
    lock_query,
)

pytestmark = pytest.mark.slow

DETECTORS = 20
QUERIES = 2_000
Ask = Callable[[Session, int, int], object]


def fill(database: Database, *, queries: int = QUERIES) -> dict[int, int]:
    """Give many detectors queries, half of them labelled; return their batches."""
    batches = {}
    for number in range(DETECTORS):
        bench = Bench(database, Clock(), ["YES", "NO"], f"door {number}")
        detector_id = bench.detector.id
        with database.write() as session:
            names = ["v1", "v2"]
            versions = add_versions(session, detector_id, names, created_at=START)
            batches[detector_id] = add_batch(session, detector_id, created_at=START)
            ids = range(first := first_id(batches[detector_id]), first + queries)
            add_queries(
                session,
                [query_row(detector_id, versions[names[id_ % 2]], id_) for id_ in ids],
            )
            rows = [label_row(detector_id, id_) for id_ in ids if id_ % 2]
            insert_rows(session, Label, rows)
    # PostgreSQL does so by itself, SQLite never.
    if not database.is_sqlite:
        with database.write() as session:
            session.execute(text("ANALYZE"))
    return batches


def query_row(detector_id: int, version_id: int, number: int) -> dict[str, Any]:
    is_labelled = bool(number % 2)
    return {
        "id": number,
        "detector_id": detector_id,
        "version_id": version_id,
        "key": f"k{number}",
        "input": f"i{number // 2}" if number % 9 < 2 else None,
        "predicted": "YES" if number % 3 else "NO",
        "confidence": number % 97 / 97,
        "asked_at": START + timedelta(seconds=number % 2**24),
        "created_at": START,
        "metadata": None,
        "image": None,
        "image_url": None,
        "label_id": number if is_labelled else None,
        "label": "YES" if is_labelled else None,
        "sampling": "random",
        "standing": "random" if is_labelled else None,
        "is_replayed": False,
        "is_gold": False,
        "queue_rank": None if is_labelled else number % 1_009 / 1_009,
        "rank": None if is_labelled else number % 1_009 / 1_009,
        "agreement": None,
        "is_repeat": False,
        "is_pooled": True,
        "tags": None,
        "erased_at": None,
        "image_erased_at": None,
        "group": None,
        "is_group_given": None,
    }


def label_row(detector_id: int, number: int, **more: object) -> dict[str, Any]:
    return {
        "id": number,
        "query_id": number,
        "detector_id": detector_id,
        "replaces_id": None,
        "label": "YES",
        "truth": None,
        "standing": "random",
        "sampling": "random",
        "note": None,
        "labeler": "alice",
        "labelled_at": START,
        "created_at": START,
        "source_label_id": None,
        "is_repeat": False,
        "is_pooled": True,
        "weight": None,
    } | more


def keys(batch: int) -> list[str]:
    return [f"k{number}" for number in range(first_id(batch), first_id(batch) + 3)]


def new_label(batch: int) -> dict[str, Any]:
    values = {
        "label": "NO",
        "sampling": "random",
        "standing": "random",
        "is_replayed": False,
        "agreement": None,
        "keeps_rank": False,
    }
    return {"query_id": first_id(batch), "label_id": first_id(batch) + 9, **values}


def reserved(session: Session, detector_id: int, batch: int) -> object:
    queue, at = RandomQueue(detector_id, 1.0), START
    until = at + timedelta(minutes=5)
    reserve_query(session, queue, first_id(batch), "carol", at=at, until=until)
    return list_reserved(session, queue, "carol", at=at)


ANSWERED_AT_ONCE: dict[str, Ask] = {
    "the newest queries": lambda s, d, _: list_queries(s, d, limit=25),
    "a page of them further on": lambda s, d, b: list_queries(
        s, d, before=first_id(b) + QUERIES // 2, limit=25
    ),
    "those without a label": lambda s, d, _: list_queries(
        s, d, labelled=False, limit=25
    ),
    "those with one label": lambda s, d, _: list_queries(s, d, label="YES", limit=25),
    "those of a dispute": lambda s, d, _: list_queries(
        s, d, agreement="disputed", limit=25
    ),
    "one query": lambda s, d, b: find_query_of(s, d, first_id(b) + 7),
    "one query to write to": lambda s, d, b: lock_query(s, d, first_id(b) + 7),
    "the query of a key": lambda s, d, b: find_query_by_key(s, d, keys(b)[0]),
    "the queries of an import": lambda s, d, b: find_queries_by_key(
        s, d, keys(b), lock=True
    ),
    "the labels of a query": lambda s, d, b: list_labels(
        s, find_query_of(s, d, first_id(b) + 1)
    ),
    "its current label": lambda s, d, b: set_current_labels(s, d, [new_label(b)]),
    "the next of the random queue": lambda s, d, _: find_free_query(
        s, RandomQueue(d, 1.0), "bob", at=START
    ),
    "the next of several labelers": lambda s, d, _: find_free_query(
        s, RandomQueue(d, 1.0, labeler="bob"), "bob", at=START
    ),
    "the least confident": lambda s, d, _: find_free_query(
        s, TargetedQueue(d, "confidence"), "bob", at=START
    ),
    "the newest of the targeted": lambda s, d, _: find_free_query(
        s, TargetedQueue(d, "newest"), "bob", at=START
    ),
    "how many wait": lambda s, d, _: count_waiting(s, RandomQueue(d, 1.0), limit=100),
    "what somebody has reserved": reserved,
    # Of each it asks whether another version was put to its input.
    "the queries that the job counts": lambda s, d, b: count_hours(s, {d: [b]}),
}
BY_BATCH: dict[str, Ask] = {
    "the job": lambda s, d, b: list(iter_pending_changes(s, {d: [b]}, zones={d: UTC})),
    "what waits for the job": lambda s, d, b: count_pending_rows(s, {d: [b]}),
    "what the job has yet to count": lambda s, d, _: count_pending_labels(s, [d]),
}
READS_MUCH: dict[str, Ask] = {
    "a recount": lambda s, d, _: count_window(s, d, since=None, until=None),
    "an estimate of a while": lambda s, d, _: count_window(
        s, d, since=START, until=START + timedelta(seconds=9)
    ),
    "an export of labels": lambda s, d, _: list(iter_label_rows(s, d)),
    "a comparison": lambda s, d, _: count_pairs(
        s, d, old_id=1, new_id=2, standings=compared_standings("random")
    ),
}


@contextmanager
def noting(session: Session) -> Iterator[list[tuple[str, Any]]]:
    """Note every statement of a session with its parameters."""
    found: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> None:
        listed = values if isinstance(values, list) else [values]
        found.extend((statement, one) for one in listed)

    connection = session.connection()
    event.listen(connection, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(connection, "before_cursor_execute", note)


def explain(session: Session, statement: str, values: Any) -> list[tuple[str, str]]:
    """Return how each table is read: what the plan says of it, and its name."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        words = [row[3].split(" ", 2) for row in plan if row[3].startswith("S")]
        by_id = "INTEGER PRIMARY KEY"
        return [(by_id if by_id in line[-1] else line[0], line[1]) for line in words]
    plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values)
    root = plan.scalar_one()
    return list(
        _reads((json.loads(root) if isinstance(root, str) else root)[0]["Plan"])
    )


def _reads(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if "Relation Name" in node and node["Node Type"] != "ModifyTable":
        yield node["Node Type"], node["Relation Name"]
    for inner in node.get("Plans", []):
        yield from _reads(inner)


@pytest.fixture
def batches(database: Database) -> dict[int, int]:
    return fill(database)


def test_what_is_asked_of_a_detector_is_found_by_an_index(
    database: Database, batches: dict[int, int]
) -> None:
    for detector_id, batch in list(batches.items())[3::8]:
        for name, ask in (ANSWERED_AT_ONCE | BY_BATCH | READS_MUCH).items():
            with database.write() as session, noting(session) as statements:
                ask(session, detector_id, batch)
                asked = [
                    one for one in statements if "FROM" in one[0] or "UPD" in one[0]
                ]
                assert asked, name
                reads = {read for one in asked for read in explain(session, *one)}
                # Whether an index serves for much is a matter of how much there is.
                assert name in READS_MUCH or not is_whole(reads), (name, reads)
                if database.is_sqlite and name in BY_BATCH:
                    assert is_by_id(reads), (name, reads)


def test_a_round_of_an_audit_goes_from_the_labels_to_its_queries(
    database: Database,
) -> None:
    if not database.is_sqlite:
        pytest.skip("PostgreSQL plans by its statistics")
    with database.write() as session, noting(session) as statements:
        mark_known(session, Audit(detector_id=1, id=1), 1)
        assert "ix_audit_items_query_id" in plan_of(session, *statements)[0]


def test_a_new_query_is_compared_with_those_of_its_input_alone(
    database: Database,
) -> None:
    if not database.is_sqlite:
        pytest.skip("PostgreSQL plans by its statistics")
    with database.write() as session, noting(session) as statements:
        count_hours(session, {1: [1]})
        plan = plan_of(session, *statements)
    compared = [line for line in plan if "queries_1 " in line]
    assert "detector_id=? AND input=?" in compared[0]


def test_what_is_beside_a_query_is_found_by_its_input_and_label(
    database: Database,
) -> None:
    """Else a query of an input asked often is compared with each of the others."""
    if not database.is_sqlite:
        pytest.skip("PostgreSQL plans by its statistics")
    with database.write() as session, noting(session) as statements:
        lock_disposable(session, 1, [1], reserved_until=START)
        plan = plan_of(session, *statements)
    beside = [line for line in plan if "label>?" in line]
    assert "detector_id=? AND input=? AND is_repeat=? AND label>?" in beside[0]


def plan_of(session: Session, asked: tuple[str, Any]) -> list[str]:
    """Return the lines of SQLite's plan."""
    plan = session.connection().exec_driver_sql(
        f"EXPLAIN QUERY PLAN {asked[0]}", asked[1]
    )
    return [row[3] for row in plan]


def is_whole(reads: set[tuple[str, str]]) -> bool:
    """Whether a table of queries or labels is read from end to end."""
    return any(
        how in {"SCAN", "Seq Scan"} and name.startswith(("queries", "labels"))
        for how, name in reads
    )


def is_by_id(reads: set[tuple[str, str]]) -> bool:
    """Whether SQLite goes by ids, which are few, not by all queries of a detector."""
    of_tables = {read for read in reads if read[1].startswith(("queries", "labels"))}
    return {how for how, _ in of_tables} == {"INTEGER PRIMARY KEY"}


def test_a_label_of_another_detector_than_its_query_is_refused(
    database: Database,
) -> None:
    one, other = (
        Bench(database, Clock(), ["YES", "NO"], name) for name in ("one", "other")
    )
    query = one.log("YES")
    row = label_row(other.detector.id, 1, query_id=query.id)
    with pytest.raises(IntegrityError), database.write() as session:
        insert_rows(session, Label, [row])
    with database.write() as session:
        insert_rows(session, Label, [row | {"detector_id": one.detector.id}])
