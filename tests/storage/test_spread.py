"""Each server could have the rows of some detectors, in all tables."""

import pytest
from sqlalchemy import Table, UniqueConstraint, inspect

from tests.spread import SPREAD, WORKSPACE, find_strangers
from tracker.storage.database import Database
from tracker.storage.operations import schema

TABLES = [schema.metadata.tables[name] for name in sorted(SPREAD)]
FIRST = "detector_id"


def test_every_table_that_stays_in_one_place_is_there() -> None:
    assert WORKSPACE.keys() <= schema.metadata.tables.keys()


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_key_of_a_detectors_row_begins_with_the_detector(table: Table) -> None:
    keys = [
        table.primary_key,
        *(one for one in table.constraints if isinstance(one, UniqueConstraint)),
        *(one for one in table.indexes if one.unique),
    ]
    assert [next(iter(one.columns)).name for one in keys] == [FIRST] * len(keys)


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_what_refers_to_a_detectors_row_names_the_detector_first(table: Table) -> None:
    for one in table.foreign_key_constraints:
        if one.referred_table.name in SPREAD:
            assert one.column_keys[0] == one.elements[0].column.name == FIRST


@pytest.mark.parametrize("name", WORKSPACE)
def test_what_stays_in_one_place_refers_to_no_detectors_row(name: str) -> None:
    referred = schema.metadata.tables[name].foreign_key_constraints
    assert {one.referred_table.name for one in referred} <= WORKSPACE.keys()


def test_postgresql_has_the_keys_that_the_program_knows(database: Database) -> None:
    found = inspect(database.engine)
    for table in TABLES:
        key = found.get_pk_constraint(table.name)["constrained_columns"]
        known = [column.name for column in table.primary_key]
        # On SQLite an id is the number of its row.
        assert key == (["id"] if database.is_sqlite and known[1:] == ["id"] else known)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT labels.id FROM labels",
        "SELECT labels.id FROM labels JOIN queries ON queries.id = labels.query_id"
        " AND queries.detector_id = labels.detector_id",
        "SELECT labels.id FROM labels JOIN queries ON queries.id = labels.query_id"
        " WHERE labels.detector_id = %(d)s AND queries.detector_id = %(e)s",
        "SELECT detectors.id FROM detectors JOIN queries"
        " ON queries.detector_id = detectors.id",
        "UPDATE queries SET label = %(l)s WHERE queries.id = %(q)s",
        "DELETE FROM golds WHERE (golds.detector_id, golds.query_id)"
        " IN (SELECT queries.detector_id, queries.id FROM queries)",
    ],
)
def test_statements_that_name_the_detector_of_each_table_pass(statement: str) -> None:
    assert not find_strangers(statement)


@pytest.mark.parametrize(
    ("statement", "strangers"),
    [
        (
            "SELECT labels.id FROM labels JOIN queries ON queries.id = labels.query_id",
            {"labels", "queries"},
        ),
        (
            "SELECT labels.id FROM labels JOIN queries ON queries.id = labels.query_id"
            " WHERE queries.detector_id = %(d)s",
            {"labels"},
        ),
        (
            "SELECT labels.id FROM labels, queries WHERE queries.detector_id = %(d)s",
            {"labels"},
        ),
        (
            "SELECT labels.id FROM labels JOIN labels AS old ON old.id ="
            " labels.replaces_id WHERE labels.detector_id = %(d)s",
            {"old"},
        ),
        (
            "SELECT labels.id FROM labels JOIN queries ON queries.id = labels.query_id"
            " WHERE labels.detector_id IN (%(a)s, %(b)s)"
            " AND queries.detector_id IN (%(a)s, %(b)s)",
            {"labels", "queries"},
        ),
        (
            "DELETE FROM skips WHERE skips.detector_id = %(d)s AND skips.query_id IN"
            " (SELECT queries.id FROM queries WHERE queries.label IS NULL)",
            {"queries"},
        ),
        (
            "SELECT queries.id FROM queries WHERE queries.detector_id = %(d)s AND"
            " EXISTS (SELECT 1 FROM queries WHERE queries.label IS NULL)",
            {"queries"},
        ),
    ],
)
def test_statements_that_join_rows_of_several_detectors_are_found(
    statement: str, strangers: set[str]
) -> None:
    assert find_strangers(statement) == strangers
