"""Statements that go to the driver as they are give what SQLAlchemy would give."""

from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import JSON, Text, bindparam, case, func, insert, literal, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tests.conftest import START
from tests.databases import noted_statements
from tests.storage.test_lost_connections import end
from tracker.errors import UnavailableError
from tracker.storage.base import TextList, UtcDateTime
from tracker.storage.database import Database
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.pending import PendingBatch
from tracker.storage.inserting import Prepared
from tracker.storage.queries.queries import Query

_TABLE: Any = PendingBatch.__table__
_ADD = Prepared(insert(_TABLE), columns=_TABLE.c.keys())
_IDS = Prepared(select(PendingBatch.id).order_by(PendingBatch.id))


@pytest.fixture
def reading(database: Database) -> Iterator[Session]:
    with database.read() as session:
        yield session


def batch(detector_id: int, number: int) -> dict[str, object]:
    return {
        "id": number,
        "detector_id": detector_id,
        "created_at": START,
        "next_id": None,
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Text(), "naïve \N{SNOWMAN} 'quoted' %s :x ?"),
        (Text(), None),
        (JSON(), {"a": [1, None, "é"]}),
        (TextList(), ["YES", "NO"]),
        (UtcDateTime(), START.astimezone(timezone(timedelta(hours=-5, minutes=-30)))),
    ],
)
def test_a_value_goes_in_and_comes_back_as_its_type_says(
    reading: Session, kind: object, value: object
) -> None:
    given = bindparam("given", type_=kind)  # type: ignore[arg-type]
    statement = select(given.label("given"), (literal(1) == 1).label("is_one"))

    row = Prepared(statement).first(reading, {"given": value})

    assert row == tuple(reading.execute(statement, {"given": value}).one())
    assert row == (value, True)


def test_values_of_the_statement_itself_are_kept(reading: Session) -> None:
    asked = bindparam("asked", type_=Text())
    statement = Prepared(select(case((asked == "now", literal(START, UtcDateTime())))))

    assert [statement.first(reading, {"asked": word})[0] for word in ("now", "?")] == [
        START,
        None,
    ]


def test_it_runs_once_for_each_of_several_values(
    database: Database, detector_id: int
) -> None:
    with database.write() as session:
        _ADD.run(session, *(batch(detector_id, number) for number in (1, 2)))
    with database.read() as session:
        assert _IDS.run(session, {}) == [(1,), (2,)]


def test_it_sees_what_the_session_has_not_written_yet(
    database: Database, detector_id: int
) -> None:
    with database.write() as session:
        session.get_one(Detector, detector_id).question = "Is it open?"
        asked = Prepared(select(Detector.question))
        assert asked.first(session, {})[0] == "Is it open?"


def test_listeners_are_told_of_it(database: Database) -> None:
    with noted_statements(database) as statements, database.read() as session:
        _IDS.run(session, {})
    assert [one for one in statements if one.startswith("SELECT pending_batches.id")]


def test_what_breaks_a_constraint_is_an_integrity_error(
    database: Database, detector_id: int
) -> None:
    twice = [batch(detector_id, 1)] * 2
    with pytest.raises(IntegrityError), database.write() as session:
        _ADD.run(session, *twice)
    with database.read() as session:
        assert _IDS.run(session, {}) == []


def test_a_list_among_the_values_is_refused(reading: Session) -> None:
    among = Query.id.in_(bindparam("ids", expanding=True))
    with pytest.raises(ValueError, match="written into its text"):
        Prepared(select(func.count()).where(among)).first(reading, {"ids": [1]})


def test_a_column_that_is_left_to_a_default_of_python_is_refused(
    reading: Session,
) -> None:
    adding = Prepared(insert(Version.__table__), columns=("detector_id", "name"))
    with pytest.raises(ValueError, match="has defaults"):
        adding.run(reading, {"detector_id": 1, "name": "v1"})


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_meanwhile_is_said_to_be(
    database: Database, detector_id: int
) -> None:
    def lose(session: Session) -> None:
        driver: Any = session.connection().connection.driver_connection
        end(database, {driver.info.backend_pid})
        _ADD.run(session, batch(detector_id, 1))

    with pytest.raises(UnavailableError), database.write() as session:
        lose(session)
    with database.write() as session:
        _ADD.run(session, batch(detector_id, 1))
    with database.read() as session:
        assert _IDS.run(session, {}) == [(1,)]
