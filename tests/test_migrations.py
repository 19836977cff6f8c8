"""The schema goes up and down on both databases with data in it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from tests.databases import downgrade
from tracker.storage.database import Database
from tracker.storage.operations import schema

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).isoformat(sep=" ")
ROWS = (
    "INSERT INTO detectors (id, name, question, classes, confidence_level,"
    " created_at, revision)"
    f" VALUES (1, 'door', 'Closed?', '[\"YES\", \"NO\"]', 0.95, '{NOW}', 0)",
    "INSERT INTO versions (id, detector_id, name, created_at, queries,"
    " sequence)"
    f" VALUES (1, 1, 'v1', '{NOW}', 1, 1)",
    "INSERT INTO versions (id, detector_id, name, created_at, queries,"
    " sequence)"
    f" VALUES (2, 1, 'v2', '{NOW}', 0, 0)",
    "INSERT INTO queries (id, detector_id, version_id, predicted, asked_at,"
    " created_at, label_id, label, sampling)"
    f" VALUES (1, 1, 1, 'YES', '{NOW}', '{NOW}', 1, 'YES', 'random')",
    "INSERT INTO labels (id, query_id, detector_id, label, standing, sampling, labeler,"
    " labelled_at, created_at)"
    f" VALUES (1, 1, 1, 'YES', 'random', 'random', 'alice', '{NOW}', '{NOW}')",
    "INSERT INTO job_runs (id, detector_id, worker, started_at, seconds,"
    " outcome, batches, labels, snapshots)"
    f" VALUES (1, 1, 'w', '{NOW}', 0.1, 'done', 1, 1, 1)",
    "INSERT INTO snapshots (detector_id, version_id, sequence, kind, population,"
    " computed_at, job_run_id, confidence_level, labels, unclear, targeted_left_out)"
    f" VALUES (1, 1, 1, 'checkpoint', 'live', '{NOW}', 1, 0.95, 1, 0, 0)",
    "INSERT INTO snapshot_intervals (detector_id, version_id, sequence, method,"
    " position, correct, labelled, accuracy, low, high)"
    " VALUES (1, 1, 1, 'exact', 0, 1, 1, NULL, 0.1, 1.0)",
    "INSERT INTO snapshot_measures (detector_id, version_id, sequence, measure,"
    " position, correct, labelled, accuracy, low, high)"
    " VALUES (1, 1, 1, 'overall', 0, 1, 1, 1.0, 0.1, 1.0)",
    "INSERT INTO studies (id, detector_id, name, kind, rounds, added_by, created_at)"
    f" VALUES (1, 1, 'tree', 'seeds', 2, 'carol', '{NOW}')",
    "INSERT INTO study_rounds (detector_id, study_id, number, accuracy)"
    " VALUES (1, 1, 1, 0.9), (1, 1, 2, 0.8)",
    "INSERT INTO reservations (query_id, detector_id, labeler, until, place)"
    f" VALUES (1, 1, 'alice', '{NOW}', 1)",
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
    " actor_kind, address, created_at, state, rows_read, bytes_read, rows_done)"
    " VALUES (1, 1, 'csv', 'reject', 'd', 9, 'camera', 'key', '::1',"
    f" '{NOW}', 'waiting', 0, 0, 0)",
    "INSERT INTO import_pieces (detector_id, import_id, position, content)"
    " VALUES (1, 1, 0, 'a,b')",
    "INSERT INTO import_batches (detector_id, import_id, batch) VALUES (1, 1, 1)",
    "INSERT INTO keyless_files (detector_id, digest, prefix, hashes)"
    " VALUES (1, 'd', 'row', 'AQAAAA==')",
    "INSERT INTO input_references (detector_id, input, label, sampling, labeler,"
    f" labelled_at, created_at) VALUES (1, 'i', 'YES', 'random', 'dora', '{NOW}',"
    f" '{NOW}')",
    "INSERT INTO projections (detector_id, version_id, name, key, state)"
    " VALUES (1, 1, 'cells', '', '{}')",
    f"INSERT INTO pending_batches (id, detector_id, created_at) VALUES (1, 1, '{NOW}')",
    f"INSERT INTO heartbeats (worker, seen_at) VALUES ('w', '{NOW}')",
    "INSERT INTO events (id, detector_id, version_id, type, happened_at, data)"
    f" VALUES (1, 1, 1, 'verdict.changed', '{NOW}', '{{}}')",
    "INSERT INTO webhooks (id, url, events, format, has_all_detectors, secret,"
    " created_by, created_at)"
    " VALUES (1, 'https://x.example', '[]', 'standard', '0', 's', 'carol',"
    f" '{NOW}')",
    "INSERT INTO webhook_detectors (webhook_id, detector_id) VALUES (1, 1)",
    "INSERT INTO deliveries (id, webhook_id, event_id, type, body, created_at,"
    " state, attempts, next_try_at)"
    f" VALUES (1, 1, 1, 'verdict.changed', '{{}}', '{NOW}', 'waiting', 0, '{NOW}')",
    "INSERT INTO badges (id, detector_id, digest, created_by, created_at)"
    f" VALUES (1, 1, 'mno', 'carol', '{NOW}')",
    'INSERT INTO audit_schedules (id, detector_id, name, every, time_zone, "where",'
    " created_by, created_at, first_since, next_since)"
    " VALUES (1, 1, 'weekly', 'week', 'UTC', '[]', 'carol',"
    f" '{NOW}', '{NOW}', '{NOW}')",
    'INSERT INTO audits (id, detector_id, version_id, name, "where", uses,'
    " confidence_level, classes, secret, strata, queries, labels_expected,"
    " labels_at_random, created_by, created_at)"
    " VALUES (1, 1, 1, 'spring', '[]', '[]', 0.95, '[\"YES\", \"NO\"]', 's', '[]', 1,"
    f" 1, 1, 'carol', '{NOW}')",
    "INSERT INTO audit_items (audit_id, stratum, rank, query_id, detector_id)"
    " VALUES (1, 0, 0, 1, 1)",
    "INSERT INTO audit_draws (audit_id, number, query_id, detector_id, stratum, rank,"
    " labeler, drawn_at, until)"
    f" VALUES (1, 1, 1, 1, 0, 0, 'alice', '{NOW}', '{NOW}')",
    "INSERT INTO audit_rounds (detector_id, audit_id, number, frozen, began_at)"
    f" VALUES (1, 1, 1, '{{}}', '{NOW}')",
    "INSERT INTO audit_extensions (detector_id, audit_id, number, half_width_before,"
    " half_width, labels, extended_by, extended_at)"
    f" VALUES (1, 1, 1, 0.05, 0.03, 1, 'carol', '{NOW}')",
    "INSERT INTO draws (query_id, other_version_id, detector_id, drawn_at)"
    f" VALUES (1, 1, 1, '{NOW}')",
    f"INSERT INTO detector_groups (id, name, created_at) VALUES (1, 'garden', '{NOW}')",
    "INSERT INTO device_settings (detector_id, group_name, confidence_threshold,"
    " patience_time, status, escalation_type, mode)"
    " VALUES (1, 'garden', 0.9, 30, 'ON', 'STANDARD', 'BINARY')",
    "INSERT INTO waiting_queries (id, detector_id, version, asked_at, created_at,"
    " labels)"
    f" VALUES (1, 1, 'v1', '{NOW}', '{NOW}', '[]')",
    "INSERT INTO input_locks (detector_id, number) VALUES (1, 1)",
    "INSERT INTO totps (account_id, secret, last_step) VALUES (1, 's', 0)",
    "INSERT INTO passkeys (id, account_id, credential, public_key, uses, name,"
    " created_at)"
    f" VALUES (1, 1, 'c', 'p', 0, 'laptop', '{NOW}')",
    "INSERT INTO recovery_codes (digest, account_id) VALUES ('pqr', 1)",
    "INSERT INTO sign_in_steps (digest, account_id, how, expires_at)"
    f" VALUES ('stu', 1, 'password', '{NOW}')",
    "INSERT INTO mail_mutes (account_id, detector_id) VALUES (1, 1)",
    "INSERT INTO pins (account_id, detector_id) VALUES (1, 1)",
    "INSERT INTO notices (id, account_id, detector_id, event_id, created_at, state)"
    f" VALUES (1, 1, 1, 1, '{NOW}', 'waiting')",
    "INSERT INTO tasks (id, kind, detector_id, key, lane, due_at, attempts,"
    f" advancing_attempt) VALUES (1, 'digest', 1, '1/1', '', '{NOW}', 0, 0)",
    "INSERT INTO address_checks (account_id, email, asked_at)"
    f" VALUES (1, 'a@example.org', '{NOW}')",
    "INSERT INTO sent_estimates (detector_id, version_id, sequence) VALUES (1, 1, 1)",
    "INSERT INTO investigations (detector_id, number, begun_at, begun_by,"
    " old_version_id, new_version_id, old_judge, new_judge, since, until, now_since,"
    " now_until, confidence_level, right_then, judged_then, right_now, judged_now,"
    f" anchors) VALUES (1, 1, '{NOW}', 'carol', 1, 2, 'a', 'b', '{NOW}', '{NOW}',"
    f" '{NOW}', '{NOW}', 0.95, 1, 1, 1, 1, '[]')",
    "INSERT INTO recheck_sets (detector_id, version_id, frozen_at, cells, known, line,"
    f" reached) VALUES (1, 1, '{NOW}', '[]', '[]', '[]', 0.5)",
    "INSERT INTO rechecks (query_id, detector_id, version_id, place, clock, drawn_at,"
    " label_id, label)"
    f" VALUES (1, 1, 1, 1, 0.5, '{NOW}', 1, 'YES')",
    "INSERT INTO assignments (detector_id, labeler, labels, done, made_by, made_at)"
    f" VALUES (1, 'bob', 200, 1, 'carol', '{NOW}')",
    "INSERT INTO golds (query_id, detector_id, label, marked_by, marked_at)"
    f" VALUES (1, 1, 'YES', 'carol', '{NOW}')",
    "INSERT INTO gold_answers (label_id, query_id, detector_id, labeler, label,"
    " sampling, labelled_at, answered_at)"
    f" VALUES (9, 1, 1, 'bob', 'NO', 'random', '{NOW}', '{NOW}')",
    "INSERT INTO judgements (query_id, judge, detector_id, kind, judged, judged_at,"
    " received_at)"
    f" VALUES (1, 'gpt', 1, 'model', 'YES', '{NOW}', '{NOW}')",
)


def fill(database: Database) -> None:
    with database.write() as session:
        for statement in ROWS:
            session.execute(text(statement))


def table_names(database: Database) -> set[str]:
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


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


@pytest.mark.slow
def test_each_revision_goes_down_and_up_again_with_data_in_the_tables(
    database: Database,
) -> None:
    fill(database)
    assert [name for name in table_names(database) if not count(database, name)] == []
    for revision in sorted(revisions(), reverse=True)[1:]:
        downgrade(database, revision)
        assert count(database, "labels") == 1
        schema.upgrade(database)
        assert schema.current_revision(database) == schema.head_revision()
        assert count(database, "snapshot_intervals") == 1
    downgrade(database, "base")
    assert table_names(database) == set()
    schema.upgrade(database)
    assert table_names(database) == set(schema.metadata.tables)


COLUMNS = {
    "labels": "label",
    "snapshots": "labels",
    "snapshot_intervals": "low",
    "snapshot_measures": "low",
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
