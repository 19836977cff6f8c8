"""Thousands of queries at once, found by what they are known by."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Select, select, text

from tests.conftest import START, Clock
from tests.services.conftest import Bench
from tests.storage.test_query_plans import explain, noting, query_row
from tracker.storage.database import Database
from tracker.storage.detectors import add_versions
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.queries.lookup import find_queries_by_key, lock_found, look_up
from tracker.storage.queries.queries import Query, add_queries

QUERIES = 6_000


def fill(session: Any, bench: Bench) -> list[int]:
    """Add queries, of which PostgreSQL has no statistics yet; return their ids."""
    detector_id = bench.detector.id
    versions = add_versions(session, detector_id, ["v1"], created_at=START)
    first = first_id(add_batch(session, detector_id, created_at=START))
    ids = list(range(first, first + QUERIES))
    add_queries(session, [query_row(detector_id, versions["v1"], id_) for id_ in ids])
    if session.get_bind().dialect.name == "postgresql":
        session.execute(
            text(
                "DELETE FROM pg_statistic WHERE starelid IN "
                "(SELECT oid FROM pg_class WHERE relname LIKE 'queries%')"
            )
        )
    return ids


@pytest.fixture
def bench(database: Database) -> Bench:
    return Bench(database, Clock(), ["YES", "NO"])


def rows_read(node: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of queries each scan in a plan has looked at."""
    if node.get("Relation Name", "").startswith("queries"):
        looked_at = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield looked_at * node["Actual Loops"]
    for inner in node.get("Plans", []):
        yield from rows_read(inner)


def plan_of(session: Any, asked: Any) -> dict[str, Any]:
    """As it was planned then, which is for the tables of that moment."""
    statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {asked[0]}"
    found = session.connection().exec_driver_sql(statement, asked[1]).scalar_one()
    plan = json.loads(found) if isinstance(found, str) else found
    return dict(plan[0]["Plan"])


def test_keys_are_looked_up_one_by_one_while_an_import_fills_the_table(
    bench: Bench,
) -> None:
    with bench.database.write() as session:
        fill(session, bench)
        unknown = [f"new{number}" for number in range(2_000)]
        with noting(session) as statements:
            assert find_queries_by_key(session, bench.detector.id, unknown) == {}
        [asked] = [one for one in statements if "FROM queries" in one[0]]
        if bench.database.is_sqlite:
            assert ("SEARCH", "queries") in explain(session, *asked)
            return
        assert sum(rows_read(plan_of(session, asked))) == 0


def test_what_is_known_is_found_and_locked_in_the_order_of_ids(bench: Bench) -> None:
    with bench.database.write() as session:
        ids = fill(session, bench)
        some = ids[::-7]
        keys = [f"k{id_}" for id_ in some] + ["unknown", f"k{some[0]}"]
        found = find_queries_by_key(session, bench.detector.id, keys)
        assert {key: row.id for key, row in found.items()} == {
            f"k{id_}": id_ for id_ in some
        }
        locked = find_queries_by_key(session, bench.detector.id, keys, lock=True)
        assert {key: tuple(row) for key, row in locked.items()} == {
            key: tuple(row) for key, row in found.items()
        }
        if not bench.database.is_sqlite:
            assert [row.id for row in locked.values()] == sorted(some)


def test_several_queries_of_one_value_are_all_found(bench: Bench) -> None:
    def of_detector() -> Select[Any]:
        mine = Query.detector_id == bench.detector.id
        return select(Query.id, Query.input).where(mine)

    with bench.database.write() as session:
        ids = fill(session, bench)
        wanted = {f"i{id_ // 2}" for id_ in ids[:500]}
        expected = [id_ for id_ in ids if id_ % 9 < 2 and f"i{id_ // 2}" in wanted]
        assert len(expected) > 100
        names = sorted(wanted)
        for find in (look_up, lock_found):
            rows = find(session, of_detector(), Query.input, names)
            assert sorted(row.id for row in rows) == expected
        assert look_up(session, of_detector(), Query.input, []) == []
        assert lock_found(session, of_detector(), Query.input, []) == []
