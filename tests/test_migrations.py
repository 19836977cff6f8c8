"""The schema goes up and down on both databases with data in it."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from tracker.services.ranks import rank_query
from tracker.storage import schema
from tracker.storage.database import Database

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).isoformat(sep=" ")
ROWS = (
    "INSERT INTO detectors (id, name, question, classes, confidence_level,"
    " created_at, revision)"
    f" VALUES (1, 'door', 'Closed?', '[\"YES\", \"NO\"]', 0.95, '{NOW}', 0)",
    "INSERT INTO versions (id, detector_id, name, created_at, queries,"
    " corrections, next_checkpoint, next_joint, sequence)"
    f" VALUES (1, 1, 'v1', '{NOW}', 1, 0, 0, 0, 1)",
    "INSERT INTO queries (id, detector_id, version_id, predicted, asked_at,"
    " created_at, label_id, label, sampling)"
    f" VALUES (1, 1, 1, 'YES', '{NOW}', '{NOW}', 1, 'YES', 'random')",
    "INSERT INTO labels (id, query_id, detector_id, label, sampling, labeler,"
    " labelled_at, created_at)"
    f" VALUES (1, 1, 1, 'YES', 'random', 'alice', '{NOW}', '{NOW}')",
    "INSERT INTO job_runs (id, detector_id, worker, started_at, seconds,"
    " outcome, batches, labels, snapshots)"
    f" VALUES (1, 1, 'w', '{NOW}', 0.1, 'done', 1, 1, 1)",
    "INSERT INTO snapshots (id, version_id, sequence, kind, computed_at,"
    " job_run_id, confidence_level, labels, unclear, targeted_left_out)"
    f" VALUES (1, 1, 1, 'checkpoint', '{NOW}', 1, 0.95, 1, 0, 0)",
    "INSERT INTO snapshot_intervals (snapshot_id, method, position, correct,"
    " labelled, accuracy, low, high)"
    " VALUES (1, 'exact', 0, 1, 1, NULL, 0.1, 1.0)",
    "INSERT INTO studies (id, detector_id, name, kind, rounds, added_by, created_at)"
    f" VALUES (1, 1, 'tree', 'seeds', 2, 'carol', '{NOW}')",
    "INSERT INTO study_rounds (study_id, number, accuracy)"
    " VALUES (1, 1, 0.9), (1, 2, 0.8)",
    "INSERT INTO reservations (query_id, detector_id, labeler, until, place)"
    f" VALUES (1, 1, 'alice', '{NOW}', 1)",
    "INSERT INTO leases (detector_id, worker, since, until, failures)"
    f" VALUES (1, 'w', '{NOW}', '{NOW}', 0)",
    "INSERT INTO skips (query_id, detector_id, labeler, skipped_at)"
    f" VALUES (1, 1, 'bob', '{NOW}')",
    "INSERT INTO accounts (id, name, role, has_all_detectors, created_at)"
    f" VALUES (1, 'dora', 'labeler', '0', '{NOW}')",
    "INSERT INTO account_detectors (account_id, detector_id) VALUES (1, 1)",
    "INSERT INTO api_keys (id, name, role, digest, created_at)"
    f" VALUES (1, 'camera', 'editor', 'abc', '{NOW}')",
    "INSERT INTO api_key_detectors (api_key_id, detector_id) VALUES (1, 1)",
    "INSERT INTO sign_ins (account_id, digest, created_at, seen_at, address, browser)"
    f" VALUES (1, 'def', '{NOW}', '{NOW}', '::1', 'Firefox')",
    "INSERT INTO sign_in_links (digest, account_id, expires_at)"
    f" VALUES ('ghi', 1, '{NOW}')",
    "INSERT INTO sign_in_tries (account, address, tried_at)"
    f" VALUES ('jkl', '::1', '{NOW}')",
    "INSERT INTO audit_events (happened_at, actor, actor_kind, action, subject,"
    " details, address)"
    f" VALUES ('{NOW}', 'dora', 'account', 'signed in', 'dora', '{{}}', '::1')",
    "INSERT INTO stored_answers (id, owner, key, digest, status, body, created_at)"
    f" VALUES (1, 'camera', 'k', 'd', 201, '{{}}', '{NOW}')",
    "INSERT INTO imports (id, detector_id, format, on_error, sha256, bytes, actor,"
    " actor_kind, address, created_at, state, attempts, rows_read, bytes_read)"
    " VALUES (1, 1, 'csv', 'reject', 'd', 9, 'camera', 'key', '::1',"
    f" '{NOW}', 'waiting', 0, 0, 0)",
    "INSERT INTO import_pieces (import_id, position, content) VALUES (1, 0, 'a,b')",
)


def fill(database: Database) -> None:
    with database.write() as session:
        for statement in ROWS:
            session.execute(text(statement))


def table_names(database: Database) -> set[str]:
    names = set(inspect(database.engine).get_table_names()) - {"alembic_version"}
    return {name for name in names if not re.fullmatch(r"(queries|labels)_p\d\d", name)}


def test_the_tables_are_those_that_the_program_knows(database: Database) -> None:
    assert table_names(database) == set(schema.metadata.tables)
    command.check(schema.alembic_config(database))


def test_revisions_are_numbered_and_make_one_line() -> None:
    numbers = revisions()
    assert numbers == [f"{i:04}" for i in range(1, len(numbers) + 1)]
    assert schema.head_revision() == numbers[-1]


def revisions() -> list[str]:
    files = Path(__file__).parent.parent.glob("migrations/versions/*.py")
    return sorted(file.name[:4] for file in files)


def test_each_revision_goes_down_and_up_again_with_data_in_the_tables(
    database: Database,
) -> None:
    fill(database)
    for revision in sorted(revisions(), reverse=True)[1:]:
        schema.downgrade(database, revision)
        assert count(database, "labels") == 1
        schema.upgrade(database)
        assert schema.current_revision(database) == schema.head_revision()
        assert count(database, "snapshot_intervals") == 1
    schema.downgrade(database, "base")
    assert table_names(database) == set()


WAITING = (
    # id, label, sampling, label_id; and whether it waits for a random label.
    (2, None, "unstated", None, True),
    (3, None, "targeted", None, False),
    (4, "YES", "targeted", 4, False),
    (5, "YES", "targeted", 70, True),
    (6, "YES", "unstated", 6, False),
    (2**50 + 7, None, "random", None, True),
)


def test_queries_that_wait_are_ranked_when_an_old_database_is_upgraded(
    database: Database,
) -> None:
    fill(database)
    schema.downgrade(database, "0007")
    with database.write() as session:
        for number, label, sampling, label_id, _ in WAITING:
            session.execute(
                text(
                    "INSERT INTO queries (id, detector_id, version_id, predicted,"
                    " asked_at, created_at, label_id, label, sampling)"
                    f" VALUES (:id, 1, 1, 'YES', '{NOW}', '{NOW}', :label_id, :label,"
                    " :sampling)"
                ),
                {"id": number, "label": label, "sampling": sampling}
                | {"label_id": label_id},
            )
    schema.upgrade(database)
    with database.read() as session:
        seed = session.execute(text("SELECT audit_seed FROM detectors")).scalar_one()
        found = session.execute(text("SELECT id, audit_rank FROM queries")).all()
    ranks = {row.id: row.audit_rank for row in found}
    assert len(seed) == 32
    assert ranks == {1: None} | {
        number: rank_query(seed, number) if waits else None
        for number, _, _, _, waits in WAITING
    }


COLUMNS = {
    "labels": "note",
    "snapshots": "labels",
    "snapshot_intervals": "low",
    "studies": "note",
    "study_rounds": "accuracy",
    "audit_events": "subject",
}


@pytest.mark.parametrize("table", COLUMNS)
def test_history_cannot_be_changed_or_deleted_by_hand(
    database: Database, table: str
) -> None:
    fill(database)
    before = count(database, table)
    for statement in (
        f"UPDATE {table} SET {COLUMNS[table]} = NULL",
        f"DELETE FROM {table}",
    ):
        with (
            pytest.raises(DBAPIError, match="append-only"),
            database.write() as session,
        ):
            session.execute(text(statement))
    assert count(database, table) == before


def count(database: Database, table: str) -> int:
    with database.read() as session:
        return int(session.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())
