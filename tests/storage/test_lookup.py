"""Thousands of queries at once, found by what they are known by."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Select, select, text

from tests.conftest import START, Clock
from tests.services.conftest import Bench
from tests.storage.test_query_plans import explain, label_row, noting, query_row
from tracker.storage.database import Database
from tracker.storage.detectors import Version, add_versions
from tracker.storage.estimates.label_changes import list_first_labelled
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.inputs import (
    find_firsts,
    find_truths,
    iter_queries_of,
)
from tracker.storage.labels import Label
from tracker.storage.queries.groups import find_groups_of, find_units, list_labels_of
from tracker.storage.queries.lookup import (
    find_queries_by_input,
    find_queries_by_key,
    lock_found,
    look_up,
)
from tracker.storage.queries.queries import Query, add_queries

QUERIES = 6_000


def fill(session: Any, bench: Bench, queries: int) -> list[int]:
    """Add labelled and other queries, and return their ids."""
    detector_id = bench.detector.id
    versions = add_versions(session, detector_id, ["v1"], created_at=START)
    first = first_id(add_batch(session, detector_id, created_at=START))
    ids = list(range(first, first + queries))
    add_queries(session, [query_row(detector_id, versions["v1"], id_) for id_ in ids])
    return ids


def fill_first(session: Any, bench: Bench) -> list[int]:
    """Add queries, of which PostgreSQL has no statistics yet; return their ids."""
    ids = fill(session, bench, QUERIES)
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
    """Yield how many rows each scan in a plan has looked at."""
    if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan":
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
        fill_first(session, bench)
        unknown = [f"new{number}" for number in range(2_000)]
        with noting(session) as statements:
            assert find_queries_by_key(session, bench.detector.id, unknown) == {}
        [asked] = [one for one in statements if "FROM queries" in one[0]]
        if bench.database.is_sqlite:
            assert ("SEARCH", "queries") in explain(session, *asked)
            return
        assert sum(rows_read(plan_of(session, asked))) == 0


def analyse(bench: Bench, others: int) -> None:
    """Take statistics of *others* detectors with a query and a label each."""
    for number in range(others):
        other = Bench(bench.database, Clock(), ["YES", "NO"], f"other {number}")
        other_id = other.detector.id
        with bench.database.write() as session:
            for id_ in fill(session, other, queries=1):
                insert_rows(session, Label, [label_row(other_id, id_)])
    with bench.database.write() as session:
        session.execute(text("ANALYZE"))


@pytest.mark.parametrize("others", [0, 1, 5, 60])
def test_rows_are_looked_up_one_by_one_in_tables_analysed_before_the_detector_had_any(
    bench: Bench, others: int
) -> None:
    if bench.database.is_sqlite:
        pytest.skip("it has no statistics")
    analyse(bench, others)
    detector_id, database = bench.detector.id, bench.database
    with database.write() as session:
        ids = fill(session, bench, queries=20_000)
        labels = [label_row(detector_id, id_) for id_ in ids if id_ % 2]
        insert_rows(session, Label, labels)
        some = ids[::100]
        inputs = [f"i{id_ // 2}" for id_ in some]
        groups = [f"g{id_}" for id_ in some]
        with noting(session) as statements:
            find_queries_by_key(session, detector_id, [f"k{id_}" for id_ in some])
            find_queries_by_input(session, detector_id, inputs)
            find_firsts(session, detector_id, inputs)
            find_truths(session, detector_id, inputs)
            find_groups_of(session, detector_id, inputs)
            find_units(session, detector_id, {f"erased {one}": one for one in groups})
            list_labels_of(session, detector_id, some)
        assert len(statements) == 8
        for asked in statements:
            for read in rows_read(plan_of(session, asked)):
                assert read <= 3 * len(some), asked[0]


@pytest.mark.parametrize("others", [0, 1, 5, 60])
def test_the_first_labels_of_a_version_are_found_by_one_walk_along_its_queries(
    bench: Bench, others: int
) -> None:
    """In empty tables that were analysed, each query once read all labels' keys."""
    if bench.database.is_sqlite:
        pytest.skip("it has no statistics")
    analyse(bench, others)
    with bench.database.write() as session:
        ids = fill(session, bench, QUERIES)
        labels = [label_row(bench.detector.id, id_) for id_ in ids if id_ % 2]
        insert_rows(session, Label, labels)
        its = Version.detector_id == bench.detector.id, Version.name == "v1"
        version = session.scalars(select(Version).where(*its)).one()
        with noting(session) as statements:
            found = list_first_labelled(
                session, version, frozenset({"random"}), limit=9
            )
        assert [row.id for row in found] == [id_ for id_ in ids if id_ % 2][:9]
        [asked] = statements
        assert sum(rows_read(plan_of(session, asked))) <= 2 * QUERIES


def test_sqlite_reads_of_many_inputs_only_those_that_are_asked_for(
    bench: Bench,
) -> None:
    """Said to be not null, all inputs of the detector would be read for each piece."""
    if not bench.database.is_sqlite:
        pytest.skip("it plans these one by one")
    detector_id = bench.detector.id
    inputs = [f"i{number}" for number in range(100)]
    with bench.database.write() as session:
        fill(session, bench, QUERIES)
        with noting(session) as statements:
            find_queries_by_input(session, detector_id, inputs)
            find_firsts(session, detector_id, inputs)
            find_truths(session, detector_id, inputs)
            find_truths(session, detector_id, inputs, of_repeats=True)
            find_groups_of(session, detector_id, inputs)
            find_units(session, detector_id, {f"erased {one}": one for one in inputs})
            [*iter_queries_of(session, detector_id, inputs[:1])]
        assert len(statements) == 7
        for asked in statements:
            said = f"EXPLAIN QUERY PLAN {asked[0]}"
            plan = session.connection().exec_driver_sql(said, asked[1])
            (read,) = [row[3] for row in plan if row[3].startswith("SEARCH queries")]
            assert "input=?" in read or "group=?" in read, read


def test_what_is_known_is_found_and_locked_in_the_order_of_ids(bench: Bench) -> None:
    with bench.database.write() as session:
        ids = fill_first(session, bench)
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
    detector_id = bench.detector.id
    found: Select[Any] = select(Query.id, Query.input)
    with bench.database.write() as session:
        ids = fill_first(session, bench)
        wanted = {f"i{id_ // 2}" for id_ in ids[:500]}
        expected = [id_ for id_ in ids if id_ % 9 < 2 and f"i{id_ // 2}" in wanted]
        assert len(expected) > 100
        names = sorted(wanted)
        for find in (look_up, lock_found):
            rows = find(session, detector_id, found, Query.input, names)
            assert sorted(row.id for row in rows) == expected
            assert find(session, detector_id, found, Query.input, []) == []
