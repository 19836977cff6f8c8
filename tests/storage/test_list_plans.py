"""Lists of queries are walks along an index, whatever they are narrowed to."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.conftest import START
from tests.databases import get_by_id
from tests.storage.test_query_plans import fill, noting
from tracker.services.estimates.query_lists import QueryFilter, find_queries
from tracker.services.queries.queries import NewTags, set_tags
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.counts import count_erased, count_weights
from tracker.storage.estimates.pending import first_id
from tracker.storage.estimates.replay import count_known
from tracker.storage.estimates.weeks import SpanOfQueries, count_asked_in
from tracker.storage.queries.finding import Between, index_metadata
from tracker.storage.queries.queries import Query

# What a page asks for: the first and a later page of each are found by an index, in
# order, so that ten million queries take no longer than ten thousand.
ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "newest"),
    "oldest": ({}, "oldest"),
    "by date": ({}, "-asked_at"),
    "by date, upwards": ({}, "asked_at"),
    "by confidence": ({}, "confidence"),
    "by confidence, downwards": ({}, "-confidence"),
    "by key": ({}, "key"),
    "by key, downwards": ({}, "-key"),
    "unlabelled": ({"labelled": False}, "newest"),
    "labelled": ({"labelled": True}, "newest"),
    "mistakes": ({"is_wrong": True}, "newest"),
    "right ones": ({"is_wrong": False}, "newest"),
    "a cell of the matrix": ({"label": "YES", "predicted": "NO"}, "newest"),
    "a label": ({"label": "YES"}, "newest"),
    "disputes": ({"agreement": "disputed"}, "newest"),
    "keys that begin so": ({"key": "k16*"}, "key"),
    "a tag": ({"tag": "night"}, "newest"),
    "mistakes with a tag": ({"tag": "night", "is_wrong": True}, "newest"),
    "a span": ({"since": START - timedelta(days=9)}, "newest"),
    "a span, the oldest first": ({"where": ["asked_at:2020-01-01.."]}, "oldest"),
    "mistakes of a span": ({"until": START, "is_wrong": True}, "newest"),
    "what was gained": ({"versus": "v1", "is_wrong": False}, "newest"),
}


@pytest.fixture
def filled(database: Database) -> int:
    """The id of a detector among many, one of whose queries is tagged."""
    detector_id, batch = next(iter(fill(database).items()))
    with database.write() as session:
        set_tags(session, dump_id("iq", first_id(batch)), NewTags(tags=["night"]))
    return detector_id


def plans(session: Session, statement: str, values: Any) -> Iterator[str]:
    """Yield each step of the plan that could be made for many rows."""
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        yield from (row[3] for row in rows)
        return
    # Of a few rows it would rather read all; what matters is what there is to choose.
    for name in ("sort", "seqscan", "bitmapscan"):
        connection.exec_driver_sql(f"SET LOCAL enable_{name} = off")
    found = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values)
    root = found.scalar_one()
    steps = [(json.loads(root) if isinstance(root, str) else root)[0]["Plan"]]
    while steps:
        step = steps.pop()
        yield step["Node Type"]
        steps += step.get("Plans", [])


@pytest.mark.slow
def test_every_list_is_a_walk_along_an_index(database: Database, filled: int) -> None:
    found = {}
    for name, (narrowed, sort) in ASKED.items():
        with database.write() as session:
            for place in (None, 500):
                steps = list(steps_of(session, filled, narrowed, sort, place))
                assert steps
                found[name, place] = [step for step in steps if is_slow(step)]
    assert {name: slow for name, slow in found.items() if slow} == {}


def is_slow(step: str) -> bool:
    """Whether a step reads a whole table, or sorts all that it has found."""
    return (
        step in {"Sort", "Seq Scan", "USE TEMP B-TREE FOR ORDER BY"}
        or step == "SCAN queries"
    )


def steps_of(
    session: Session,
    detector_id: int,
    narrowed: dict[str, Any],
    sort: str,
    place: int | None,
) -> Iterator[str]:
    """Yield the steps of the plans of a page, behind the query at *place*."""
    detector = session.get_one(Detector, detector_id)
    ids = select(Query.id).where(Query.detector_id == detector_id).order_by(Query.id)
    after = None
    if place is not None:
        after = get_by_id(session, Query, session.scalars(ids).all()[place])
    with noting(session) as statements:
        find_queries(
            session,
            detector,
            QueryFilter(**narrowed),
            sort=sort,
            after=after,
            limit=25,
            at=START,
        )
        asked = [one for one in statements if "ORDER BY queries" in one[0]]
    for sql, values in asked:
        yield from plans(session, sql, values)


def test_erased_queries_are_found_in_their_own_index(
    database: Database, filled: int
) -> None:
    with database.write() as session:
        with noting(session) as statements:
            count_erased(session, filled)
            span = Between("asked_at", START - timedelta(days=9))
            count_erased(session, filled, [span])
        steps = [
            step for sql, values in statements for step in plans(session, sql, values)
        ]
    assert steps
    assert "Seq Scan" not in steps
    if database.is_sqlite:
        assert sum("ix_queries_detector_id_erased" in step for step in steps) == 2
        assert not any("asked_at" in step for step in steps)
        assert not any("label" in step for step in steps)


def test_labels_without_a_weight_are_not_read_for_those_with_one(
    database: Database, filled: int
) -> None:
    with database.write() as session:
        versions = [one.id for one in list_versions(session, filled)]
        with noting(session) as statements:
            count_weights(session, filled, versions)
        [asked] = statements
        found = [*plans(session, *asked)]
    if database.is_sqlite:
        assert "ix_labels_detector_id_weighted" in found[0]
    assert "Seq Scan" not in found


def test_queries_are_counted_in_the_order_in_which_they_lie(
    database: Database, filled: int
) -> None:
    with database.write() as session:
        [version, *_] = list_versions(session, filled)
        with noting(session) as statements:
            count_known(session, filled, [version.id], known_at=START)
        found = [step for asked in statements for step in plans(session, *asked)]
    assert not any("confidence" in step for step in found)


def test_queries_of_a_span_are_counted_from_an_index_alone(
    database: Database, filled: int
) -> None:
    with database.write() as session:
        [version, *_] = list_versions(session, filled)
        span = SpanOfQueries(filled, version.id, START, START + timedelta(days=7))
        with noting(session) as statements:
            count_asked_in(session, span)
        [asked] = statements
        found = [*plans(session, *asked)]
    if database.is_sqlite:
        assert "COVERING INDEX ix_queries_detector_id_asked_at" in found[0]
    assert "Seq Scan" not in found


@pytest.mark.parametrize("where", ["metadata.camera:north", "metadata.camera:3"])
def test_queries_are_found_by_a_declared_key_of_their_metadata(
    database: Database, filled: int, where: str
) -> None:
    with database.write() as session:
        detector = session.get_one(Detector, filled)
        detector.slices = detector.counted_slices = ["camera"]
        index_metadata(session, filled, ["camera"])
        with noting(session) as statements:
            find_queries(
                session,
                detector,
                QueryFilter(where=[where]),
                sort="newest",
                after=None,
                limit=25,
                at=START,
            )
        [asked] = [one for one in statements if "ORDER BY" in one[0]]
        if not database.is_sqlite:
            # It would not look for an index among so few; a walk is not ruled out.
            session.connection().exec_driver_sql("SET LOCAL enable_seqscan = off")
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        found = session.connection().exec_driver_sql(f"{explain} {asked[0]}", asked[1])
        assert "ix_queries_metadata" in str(found.all())
        # Which is chosen for nothing else.
        with noting(session) as statements:
            count_erased(session, filled)
            span = Between("asked_at", START - timedelta(days=9))
            count_erased(session, filled, [span])
        others = [
            step for sql, values in statements for step in plans(session, sql, values)
        ]
        assert not any("ix_queries_metadata" in step for step in others)
        index_metadata(session, filled, [])
