"""Inserting many rows, and statements that are carried out meanwhile."""

from typing import Any

import pytest
from sqlalchemy import func, literal, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from tests.conftest import START, by
from tests.storage.test_lost_connections import end
from tracker.errors import UnavailableError
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.database import Database
from tracker.storage.detectors import Version, add_versions
from tracker.storage.inserting import _BINARY, carried_out
from tracker.storage.operations.schema import metadata

_LOCK = 4711


def test_the_type_of_every_column_can_be_copied() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in metadata.tables.values():
        for column in table.c:
            assert column.type.compile(dialect).split()[0] in _BINARY, column


def count_versions(database: Database) -> int:
    with database.read() as session:
        return session.scalars(select(func.count()).select_from(Version)).one()


def add_copy_of(name: str) -> Any:
    """A statement that adds a version beside one that is there."""
    columns = [Version.detector_id, Version.name, Version.created_at]
    added = [Version.detector_id, literal(name), Version.created_at]
    return Version.__table__.insert().from_select(columns, select(*added))


def add(session: Session, *names: str) -> None:
    for name in names:
        with carried_out(session, add_copy_of(name)):
            pass


@pytest.fixture
def versioned(database: Database) -> Database:
    new = NewDetector(name="door", question="?", classes=["YES", "NO"])
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        add_versions(session, detector.id, ["v1"], created_at=START)
    return database


def test_what_is_carried_out_is_there_at_the_end(versioned: Database) -> None:
    with versioned.write() as session:
        with carried_out(session, add_copy_of("v2")):
            pass
        assert session.scalars(select(func.count()).select_from(Version)).one() == 2
    assert count_versions(versioned) == 2


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_the_block_goes_on_before_the_statement_has_ended(database: Database) -> None:
    lock = text(f"SELECT pg_advisory_xact_lock({_LOCK})")
    with database.write() as session, database.write() as other:
        other.execute(lock)
        # Were the statement waited for, it would wait for what the block ends.
        with carried_out(session, lock):
            other.rollback()


def test_what_goes_wrong_is_raised_at_the_end_and_undone(versioned: Database) -> None:
    with pytest.raises(DBAPIError), versioned.write() as session:
        add(session, "v2", "v2")
    assert count_versions(versioned) == 1
    with versioned.write() as session:
        add(session, "v3")
    assert count_versions(versioned) == 2


def test_where_the_block_fails_nothing_stays(versioned: Database) -> None:
    with (
        pytest.raises(ValueError, match="the next rows are wrong"),
        versioned.write() as session,
        carried_out(session, add_copy_of("v2")),
    ):
        raise ValueError("the next rows are wrong")
    assert count_versions(versioned) == 1
    with versioned.write() as session:
        add(session, "v3")
    assert count_versions(versioned) == 2


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_connection_that_is_lost_meanwhile_is_said_to_be(database: Database) -> None:
    def lose(session: Session) -> None:
        driver: Any = session.connection().connection.driver_connection
        with carried_out(session, text("SELECT pg_sleep(60)")):
            end(database, {driver.info.backend_pid})

    with pytest.raises(UnavailableError), database.write() as session:
        lose(session)
    with database.write() as session, carried_out(session, text("SELECT 1")):
        pass
