"""Finding thousands of queries at once, by what they are known by."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import InstrumentedAttribute, Session

from tracker.storage.base import columns_of
from tracker.storage.dialect import is_sqlite, planned_for_now
from tracker.storage.queries.queries import Query

_KNOWN = columns_of(
    Query,
    *("key", "id", "version_id", "input", "group", "is_group_given", "predicted"),
    *("confidence", "asked_at", "metadata", "image", "image_url", "label", "label_id"),
    *("sampling", "standing", "is_replayed", "agreement", "is_repeat", "erased_at"),
    "image_erased_at",
)


def find_queries_by_key(
    session: Session, detector_id: int, keys: Sequence[str], *, lock: bool = False
) -> dict[str, Any]:
    find = lock_found if lock else look_up
    found = find(session, detector_id, sa.select(*_KNOWN), Query.key, keys)
    return {row.key: row for row in found}


def find_queries_by_input(
    session: Session, detector_id: int, inputs: Sequence[str]
) -> dict[str, Any]:
    statement = sa.select(*_KNOWN)
    found = lock_found(session, detector_id, statement, Query.input, inputs)
    oldest_last = sorted(found, key=attrgetter("id"), reverse=True)
    return {row.input: row for row in oldest_last}


def look_up(
    session: Session,
    detector_id: int,
    statement: sa.Select[*tuple[Any, ...]],
    column: InstrumentedAttribute[Any],
    values: Sequence[Any],
) -> Sequence[Any]:
    """Return a detector's rows whose *column* is one of thousands of *values*.

    On PostgreSQL they come in the order of the values, or sorted by them; each value
    stands once.  It goes by an index, value by value.  Of a join it may read all of a
    detector's queries and put them into a hash table: so it does in a table of which
    it has no statistics, such as one that an import just fills, for each piece of that
    import.
    """
    owner = column.class_.detector_id
    if is_sqlite(session):
        among = column.in_(listed(session, values))
        return session.execute(statement.where(owner == detector_id, among)).all()
    # If the statistics are of before the detector had rows, PostgreSQL takes it for
    # empty where it sees its id, and goes through all of its rows for each value.
    mine = owner == sa.select(sa.literal(detector_id, sa.BigInteger)).scalar_subquery()
    # As JSON, which is written in a tenth of the time of an array.
    listed_values = sa.func.json_array_elements_text(sa.literal([*values], sa.JSON()))
    given = listed_values.table_valued("value").render_derived()
    value: Any = given.c.value.collate("C")
    if not isinstance(column.type, sa.Text):
        value = sa.cast(given.c.value, sa.BigInteger())
    # What has an offset is not made into a join.
    found = statement.where(mine, column == value).offset(0).lateral("found")
    each = sa.select(found).join_from(given, found, sa.true())
    with planned_for_now(session):
        return session.execute(each).all()


def lock_found(
    session: Session,
    detector_id: int,
    statement: sa.Select[*tuple[Any, ...]],
    column: InstrumentedAttribute[Any],
    values: Sequence[Any],
) -> Sequence[Any]:
    """Return the rows as ``look_up`` does, locked; *statement* selects queries alone.

    In the order of their ids, or two imports would wait for each other, and the two
    databases would write what follows from the rows in different orders.
    SQLite has one writer at a time.
    """
    if is_sqlite(session):
        # Asked for in order, all queries of the detector would be read.
        found = look_up(session, detector_id, statement, column, values)
        return sorted(found, key=attrgetter("id"))
    numbers = statement.with_only_columns(Query.id)
    ids = {row.id for row in look_up(session, detector_id, numbers, column, values)}
    locked = statement.with_for_update(key_share=True)
    rows = look_up(session, detector_id, locked, Query.id, sorted(ids))
    # One may have been erased meanwhile.
    known = {*values}
    return [row for row in rows if row._mapping[column.key] in known]


def listed(session: Session, keys: Sequence[Any]) -> sa.Select[tuple[Any]]:
    # Thousands of keys as one parameter: as many parameters cost more than the
    # look-up itself.
    if is_sqlite(session):
        values = sa.func.json_each(json.dumps(keys)).table_valued("value")
        return sa.select(values.c.value)
    array = sa.cast(list(keys), sa.ARRAY(sa.Text(collation="C")))
    return sa.select(sa.func.unnest(array))
