"""Every table of the first release.

Nothing was released before it, so this one revision may still be rewritten; after the
first release a change of the schema is a revision of its own.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)
# Rows are only added to these tables, even by hand: the triggers also stop other tools
# that open the database, and future mistakes in the program.
APPEND_ONLY = (
    "snapshots",
    "snapshot_intervals",
    "snapshot_measures",
    "studies",
    "study_rounds",
    "audit_events",
    "events",
)
# A note can be erased, and nothing else of a label.
LABEL_COLUMNS = (
    "id, query_id, detector_id, replaces_id, label, truth, standing, sampling, labeler,"
    " labelled_at, created_at, source_label_id, is_repeat"
)


def upgrade() -> None:
    _create_tables()
    if op.get_bind().dialect.name == "sqlite":
        _refuse_changes_on_sqlite()
        # The newest labels of a detector, which PostgreSQL finds by the primary key.
        op.create_index(
            "ix_labels_detector_id_id_given",
            "labels",
            ["detector_id", "id"],
            **where("source_label_id IS NULL"),
        )
    else:
        _refuse_changes_on_postgresql()
        # On SQLite the keys that a detector declares have indexes of their own.
        op.execute(
            "CREATE INDEX ix_queries_metadata ON queries USING gin"
            " ((metadata::jsonb) jsonb_path_ops) WHERE metadata IS NOT NULL"
        )
        # Else a table that was analysed while each detector had one row would be
        # searched along all rows of a detector, however many come later.
        for table in ("queries", "labels"):
            op.execute(
                f"ALTER TABLE {table} ALTER detector_id SET (n_distinct = -0.01)"
            )
        # By ids that come without their detector.
        for table in ("queries", "waiting_queries", "imports", "events"):
            op.create_index(f"ix_{table}_id", table, ["id"])


def downgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    # A trigger ends with its table.
    op.drop_table("gold_answers")
    op.drop_table("snapshot_measures")
    op.drop_table("snapshot_intervals")
    op.drop_table("skips")
    op.drop_table("reservations")
    op.drop_table("rechecks")
    op.drop_table("recheck_sets")
    op.drop_table("investigations")
    op.drop_table("notices")
    op.drop_table("labels")
    op.drop_table("judgements")
    op.drop_table("golds")
    op.drop_table("draws")
    op.drop_table("deliveries")
    op.drop_table("audit_rounds")
    op.drop_table("audit_items")
    op.drop_table("audit_extensions")
    op.drop_table("audit_draws")
    op.drop_table("study_rounds")
    op.drop_table("snapshots")
    op.drop_table("sent_estimates")
    op.drop_table("projections")
    op.drop_table("queries")
    op.drop_table("import_pieces")
    op.drop_table("import_batches")
    op.drop_table("keyless_files")
    op.drop_table("input_references")
    op.drop_table("events")
    op.drop_table("audits")
    op.drop_table("audit_schedules")
    op.drop_table("webhook_detectors")
    op.drop_table("waiting_queries")
    op.drop_table("tasks")
    op.drop_table("versions")
    op.drop_table("totps")
    op.drop_table("studies")
    op.drop_table("sign_ins")
    op.drop_table("sign_in_steps")
    op.drop_table("sign_in_links")
    op.drop_table("recovery_codes")
    op.drop_table("pending_batches")
    op.drop_table("passkeys")
    op.drop_table("pins")
    op.drop_table("mail_mutes")
    op.drop_table("job_runs")
    op.drop_table("imports")
    op.drop_table("device_settings")
    op.drop_table("badges")
    op.drop_table("assignments")
    op.drop_table("api_key_detectors")
    op.drop_table("address_checks")
    op.drop_table("account_detectors")
    op.drop_table("webhooks")
    op.drop_table("stored_answers")
    op.drop_table("sign_in_tries")
    op.drop_table("input_locks")
    op.drop_table("heartbeats")
    op.drop_table("detectors")
    op.drop_table("detector_groups")
    op.drop_table("audit_events")
    op.drop_table("api_keys")
    op.drop_table("accounts")
    if not is_sqlite:
        op.execute("DROP FUNCTION refuse_change()")


def where(condition: str) -> dict[str, Any]:
    """Return the arguments of an index over the rows that meet *condition*."""
    return {
        "sqlite_where": sa.text(condition),
        "postgresql_where": sa.text(condition),
    }


def _numbered(table: str) -> list[sa.Constraint]:
    """Return the keys of a table of one detector's rows whose ids are numbers.

    SQLite is not spread over servers: there the id is also the number of the row, by
    which rows lie and which SQLite draws, and nothing but a table that others refer to
    needs the pair once more.
    """
    if op.get_bind().dialect.name != "sqlite":
        return [sa.PrimaryKeyConstraint("detector_id", "id", name=f"pk_{table}")]
    keys: list[sa.Constraint] = [sa.PrimaryKeyConstraint("id", name=f"pk_{table}")]
    if table not in ("labels", "keyless_files", "notices"):
        name = f"uq_{table}_detector_id_id"
        keys.append(sa.UniqueConstraint("detector_id", "id", name=name))
    return keys


def _refuse_changes_on_sqlite() -> None:
    for table in APPEND_ONLY:
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    refused = "BEGIN SELECT RAISE(ABORT, 'labels is append-only'); END"
    op.execute(
        f"CREATE TRIGGER labels_no_update BEFORE UPDATE OF {LABEL_COLUMNS} ON labels"
        f" {refused}"
    )
    op.execute(
        "CREATE TRIGGER labels_no_new_note BEFORE UPDATE OF note ON labels"
        f" WHEN NEW.note IS NOT NULL {refused}"
    )
    op.execute(f"CREATE TRIGGER labels_no_delete BEFORE DELETE ON labels {refused}")


def _refuse_changes_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
            f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    op.execute(
        "CREATE TRIGGER labels_append_only BEFORE DELETE OR TRUNCATE OR UPDATE OF"
        f" {LABEL_COLUMNS} ON labels FOR EACH STATEMENT EXECUTE FUNCTION"
        " refuse_change()"
    )
    op.execute(
        "CREATE TRIGGER labels_no_new_note BEFORE UPDATE OF note ON labels"
        " FOR EACH ROW WHEN (NEW.note IS NOT NULL) EXECUTE FUNCTION refuse_change()"
    )


def _create_tables() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("has_all_detectors", sa.Boolean(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("disabled_at", INSTANT, nullable=True),
        sa.Column("email", sa.Text(), nullable=True),
        sa.Column("mail_events", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("last_looked_at", INSTANT, nullable=True),
        sa.Column("seen_event_id", BIG, server_default=sa.text("0"), nullable=False),
        sa.Column("views", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.CheckConstraint(
            "role IN ('viewer', 'labeler', 'editor', 'admin')", name="ck_accounts_role"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_accounts"),
        sa.UniqueConstraint("identity", name="uq_accounts_identity"),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "api_keys",
        sa.Column("id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column(
            "has_all_detectors", sa.Boolean(), server_default=sa.true(), nullable=False
        ),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("revoked_at", INSTANT, nullable=True),
        sa.Column("expires_at", INSTANT, nullable=True),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.Column("owner", NAME, nullable=True),
        sa.CheckConstraint(
            "role IN ('logger', 'viewer', 'labeler', 'editor', 'admin')",
            name="ck_api_keys_role",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.UniqueConstraint("name", name="uq_api_keys_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audit_events",
        sa.Column("id", BIG, nullable=False),
        sa.Column("happened_at", INSTANT, nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "detector_groups",
        sa.Column("id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_detector_groups"),
        sa.UniqueConstraint("name", name="uq_detector_groups_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "detectors",
        sa.Column("id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("question", NAME, nullable=False),
        sa.Column(
            "guideline", sa.Text(), server_default=sa.text("('')"), nullable=False
        ),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column(
            "added_classes", sa.Text(), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("target", sa.Double(), nullable=True),
        sa.Column("target_at", INSTANT, nullable=True),
        sa.Column("measure", NAME, server_default="balanced", nullable=False),
        sa.Column("also", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("archived_at", INSTANT, nullable=True),
        sa.Column("time_zone", sa.Text(), server_default="UTC", nullable=False),
        sa.Column("queue_rate", sa.Double(), server_default="1", nullable=False),
        sa.Column("labels_wanted", sa.Integer(), server_default="1", nullable=False),
        sa.Column("consensus", sa.Text(), server_default="majority", nullable=False),
        sa.Column("label_sampling", sa.Text(), nullable=True),
        sa.Column("label_of", sa.Text(), server_default="input", nullable=False),
        sa.Column("class_shares", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("class_shares_at", INSTANT, nullable=True),
        sa.Column("reference", sa.Double(), nullable=True),
        sa.Column("group_by", sa.Text(), nullable=True),
        sa.Column("groups", sa.Text(), nullable=True),
        sa.Column("gold_rate", sa.Double(), server_default="0", nullable=False),
        sa.Column("method", sa.Text(), server_default="joint", nullable=False),
        sa.Column("production_version", NAME, nullable=True),
        sa.Column("shown_version_id", BIG, nullable=True),
        sa.Column("shown_since", INSTANT, nullable=True),
        sa.Column("traffic", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column(
            "queue_seed", sa.Text(), server_default=sa.text("('')"), nullable=False
        ),
        sa.Column("revision", BIG, nullable=False),
        sa.Column("stalled_after_hours", sa.Integer(), nullable=True),
        sa.Column("predictor", sa.Text(), nullable=True),
        sa.Column("import_mapping", sa.JSON(), nullable=True),
        sa.Column("slices", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column(
            "counted_slices", sa.Text(), server_default=sa.text("'[]'"), nullable=False
        ),
        sa.Column("text_field", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("owner", NAME, nullable=True),
        sa.CheckConstraint(
            "confidence_level > 0 AND confidence_level < 1", name="ck_detectors_level"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_detectors"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_detectors_name_unarchived",
        "detectors",
        ["name"],
        unique=True,
        **where("archived_at IS NULL"),
    )
    op.create_table(
        "heartbeats",
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("worker", name="pk_heartbeats"),
    )
    op.create_table(
        "input_locks",
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.Column("number", BIG, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("detector_id", "number", name="pk_input_locks"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sign_in_tries",
        sa.Column("id", BIG, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("tried_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sign_in_tries"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sign_in_tries_tried_at", "sign_in_tries", ["tried_at"])
    op.create_table(
        "stored_answers",
        sa.Column("id", BIG, nullable=False),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_stored_answers"),
        sa.UniqueConstraint("owner", "key", name="uq_stored_answers_owner_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_stored_answers_created_at", "stored_answers", ["created_at"])
    op.create_table(
        "webhooks",
        sa.Column("id", BIG, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", sa.JSON(), nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("has_all_detectors", sa.Boolean(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("old_secret", sa.Text(), nullable=True),
        sa.Column("old_secret_until", INSTANT, nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("disabled_at", INSTANT, nullable=True),
        sa.Column("disabled_because", sa.Text(), nullable=True),
        sa.Column("rests_until", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "account_detectors",
        sa.Column("account_id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name="fk_account_detectors_account_id_accounts",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_account_detectors_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint(
            "account_id", "detector_id", name="pk_account_detectors"
        ),
    )
    op.create_table(
        "address_checks",
        sa.Column("account_id", BIG, autoincrement=False, nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name="fk_address_checks_account_id_accounts",
        ),
        sa.PrimaryKeyConstraint("account_id", name="pk_address_checks"),
    )
    op.create_table(
        "api_key_detectors",
        sa.Column("api_key_id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["api_key_id"],
            ["api_keys.id"],
            name="fk_api_key_detectors_api_key_id_api_keys",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_api_key_detectors_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint(
            "api_key_id", "detector_id", name="pk_api_key_detectors"
        ),
    )
    op.create_table(
        "assignments",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("done", BIG, nullable=False),
        sa.Column("made_by", NAME, nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_assignments_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint("detector_id", "labeler", name="pk_assignments"),
    )
    op.create_table(
        "badges",
        sa.Column("id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_by", NAME, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_badges_detector_id_detectors"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_badges"),
        sa.UniqueConstraint("digest", name="uq_badges_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_badges_detector_id_id", "badges", ["detector_id", "id"])
    op.create_table(
        "device_settings",
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.Column("group_name", NAME, nullable=False),
        sa.Column("confidence_threshold", sa.Double(), nullable=False),
        sa.Column("patience_time", sa.Double(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("escalation_type", sa.Text(), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("mode_configuration", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_device_settings_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint("detector_id", name="pk_device_settings"),
    )
    op.create_table(
        "imports",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("on_error", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("bytes", BIG, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("choices", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=True),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("rows_read", BIG, nullable=False),
        sa.Column("bytes_read", BIG, nullable=False),
        sa.Column("rows", BIG, nullable=True),
        sa.Column("rows_done", BIG, nullable=False),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "on_error IN ('reject', 'skip')", name="ck_imports_on_error"
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'rejected', 'failed', 'undone')",
            name="ck_imports_state",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_imports_detector_id_detectors"
        ),
        *_numbered("imports"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_imports_id_unfinished", "imports", ["id"], **where("finished_at IS NULL")
    )
    op.create_table(
        "job_runs",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("batches", BIG, nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("snapshots", BIG, nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("outcome IN ('done', 'failed')", name="ck_job_runs_outcome"),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_job_runs_detector_id_detectors"
        ),
        *_numbered("job_runs"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_job_runs_started_at_empty",
        "job_runs",
        ["started_at"],
        **where("snapshots = 0"),
    )
    op.create_table(
        "mail_mutes",
        sa.Column("account_id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_mail_mutes_account_id_accounts"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_mail_mutes_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint("account_id", "detector_id", name="pk_mail_mutes"),
    )
    op.create_table(
        "pins",
        sa.Column("account_id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_pins_account_id_accounts"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_pins_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint("account_id", "detector_id", name="pk_pins"),
    )
    op.create_table(
        "passkeys",
        sa.Column("id", BIG, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("used_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_passkeys_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_passkeys"),
        sa.UniqueConstraint("credential", name="uq_passkeys_credential"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_passkeys_account_id", "passkeys", ["account_id"])
    op.create_table(
        "pending_batches",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("next_id", BIG, nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_pending_batches_detector_id_detectors",
        ),
        *_numbered("pending_batches"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "recovery_codes",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name="fk_recovery_codes_account_id_accounts",
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_recovery_codes"),
    )
    op.create_index("ix_recovery_codes_account_id", "recovery_codes", ["account_id"])
    op.create_table(
        "sign_in_links",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sign_in_links_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in_links"),
    )
    op.create_table(
        "sign_in_steps",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sign_in_steps_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in_steps"),
    )
    op.create_table(
        "sign_ins",
        sa.Column("id", BIG, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("browser", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sign_ins_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_sign_ins"),
        sa.UniqueConstraint("digest", name="uq_sign_ins_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sign_ins_account_id", "sign_ins", ["account_id"])
    op.create_table(
        "studies",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", NAME, nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("rounds", BIG, nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint("kind IN ('bootstrap', 'seeds')", name="ck_studies_kind"),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_studies_detector_id_detectors"
        ),
        *_numbered("studies"),
        sa.UniqueConstraint("detector_id", "name", name="uq_studies_detector_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "totps",
        sa.Column("account_id", BIG, autoincrement=False, nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_totps_account_id_accounts"
        ),
        sa.PrimaryKeyConstraint("account_id", name="pk_totps"),
    )
    op.create_table(
        "versions",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("queries", BIG, nullable=False),
        sa.Column("deleted", BIG, server_default="0", nullable=False),
        sa.Column("deleted_to", INSTANT, nullable=True),
        sa.Column("last_label_at", INSTANT, nullable=True),
        sa.Column("run_due_at", INSTANT, nullable=True),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("unseen", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("family", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_versions_detector_id_detectors"
        ),
        *_numbered("versions"),
        sa.UniqueConstraint("detector_id", "name", name="uq_versions_detector_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_versions_run_due_at", "versions", ["run_due_at"])
    op.create_table(
        "tasks",
        sa.Column("id", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detector_id", BIG, nullable=True),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("lane", sa.Text(), nullable=False),
        sa.Column("payload", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("due_at", INSTANT, nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("held_until", INSTANT, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("begun_at", INSTANT, nullable=True),
        sa.Column("advancing_attempt", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("ended_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_tasks_detector_id_detectors"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_tasks_ended_at", "tasks", ["ended_at"], **where("ended_at IS NOT NULL")
    )
    op.create_index(
        "ix_tasks_kind_key_open",
        "tasks",
        ["kind", "key"],
        unique=True,
        **where("ended_at IS NULL"),
    )
    op.create_index(
        "ix_tasks_kind_lane_due_at_open",
        "tasks",
        ["kind", "lane", "due_at"],
        **where("ended_at IS NULL"),
    )
    op.create_table(
        "waiting_queries",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("key", NAME, nullable=True),
        sa.Column("input", NAME, nullable=True),
        sa.Column("group", NAME, nullable=True),
        sa.Column("version", NAME, nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("image_url", sa.Text(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_waiting_queries_detector_id_detectors",
        ),
        sa.UniqueConstraint(
            "detector_id", "key", name="uq_waiting_queries_detector_id_key"
        ),
        *_numbered("waiting_queries"),
    )
    op.create_table(
        "webhook_detectors",
        sa.Column("webhook_id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_webhook_detectors_detector_id_detectors",
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name="fk_webhook_detectors_webhook_id_webhooks",
        ),
        sa.PrimaryKeyConstraint(
            "webhook_id", "detector_id", name="pk_webhook_detectors"
        ),
    )
    op.create_table(
        "audit_schedules",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("version_id", BIG, nullable=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("every", sa.Text(), nullable=False),
        sa.Column("time_zone", sa.Text(), nullable=False),
        sa.Column("where", sa.JSON(), nullable=False),
        sa.Column("uses", sa.JSON(), nullable=True),
        sa.Column("aim", NAME, nullable=True),
        sa.Column("half_width", sa.Double(), nullable=True),
        sa.Column("labels", BIG, nullable=True),
        sa.Column("target", sa.Double(), nullable=True),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("stopped_at", INSTANT, nullable=True),
        sa.Column("first_since", INSTANT, nullable=False),
        sa.Column("next_since", INSTANT, nullable=False),
        sa.Column("labelers", sa.Text(), server_default="[]", nullable=False),
        sa.Column("skipped", sa.Text(), server_default="[]", nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_audit_schedules_detector_id_detectors",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_audit_schedules_detector_id_version_id_versions",
        ),
        *_numbered("audit_schedules"),
        sa.UniqueConstraint(
            "detector_id", "name", name="uq_audit_schedules_detector_id_name"
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audits",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("version_id", BIG, nullable=True),
        sa.Column("schedule_id", BIG, nullable=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("since", INSTANT, nullable=True),
        sa.Column("until", INSTANT, nullable=True),
        sa.Column("where", sa.JSON(), nullable=False),
        sa.Column("uses", sa.JSON(), nullable=False),
        sa.Column("aim", NAME, nullable=True),
        sa.Column("half_width", sa.Double(), nullable=True),
        sa.Column("target", sa.Double(), nullable=True),
        sa.Column("budget", BIG, nullable=True),
        sa.Column("carried", sa.JSON(), nullable=True),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("strata", sa.JSON(), nullable=False),
        sa.Column("queries", BIG, nullable=False),
        sa.Column("labels_expected", BIG, nullable=False),
        sa.Column("labels_at_random", BIG, nullable=False),
        sa.Column("answered", BIG, server_default="0", nullable=False),
        sa.Column("reminders", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("paused_at", INSTANT, nullable=True),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_audits_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "schedule_id"],
            ["audit_schedules.detector_id", "audit_schedules.id"],
            name="fk_audits_detector_id_schedule_id_audit_schedules",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_audits_detector_id_version_id_versions",
        ),
        *_numbered("audits"),
        sa.UniqueConstraint("detector_id", "name", name="uq_audits_detector_id_name"),
        sa.UniqueConstraint(
            "detector_id",
            "schedule_id",
            "since",
            name="uq_audits_detector_id_schedule_id_since",
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("version_id", BIG, nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("happened_at", INSTANT, nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_events_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_events_detector_id_version_id_versions",
        ),
        *_numbered("events"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_events_detector_id_version_id_type_id",
        "events",
        ["detector_id", "version_id", "type", "id"],
    )
    op.create_table(
        "input_references",
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.Column("input", NAME, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("labeler", sa.Text(), nullable=False),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("batch", BIG, nullable=True),
        sa.CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')",
            name="ck_input_references_sampling",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_input_references_detector_id_detectors",
        ),
        sa.PrimaryKeyConstraint("detector_id", "input", name="pk_input_references"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "keyless_files",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("hashes", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_keyless_files_detector_id_detectors",
        ),
        *_numbered("keyless_files"),
        sa.UniqueConstraint(
            "detector_id", "digest", name="uq_keyless_files_detector_id_digest"
        ),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "import_batches",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("import_id", BIG, nullable=False),
        sa.Column("batch", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "import_id"],
            ["imports.detector_id", "imports.id"],
            name="fk_import_batches_detector_id_import_id_imports",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "import_id", "batch", name="pk_import_batches"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "import_pieces",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("import_id", BIG, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "import_id"],
            ["imports.detector_id", "imports.id"],
            name="fk_import_pieces_detector_id_import_id_imports",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "import_id", "position", name="pk_import_pieces"
        ),
    )
    op.create_table(
        "queries",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("key", NAME, nullable=True),
        sa.Column("input", NAME, nullable=True),
        sa.Column("group", NAME, nullable=True),
        sa.Column("is_group_given", sa.Boolean(), nullable=True),
        sa.Column("predicted", NAME, nullable=False),
        sa.Column("confidence", sa.Double(), nullable=True),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("image_url", sa.Text(), nullable=True),
        sa.Column("label_id", BIG, nullable=True),
        sa.Column("label", NAME, nullable=True),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=True),
        sa.Column(
            "is_replayed", sa.Boolean(), server_default=sa.false(), nullable=False
        ),
        sa.Column("queue_rank", sa.Double(), nullable=True),
        sa.Column("rank", sa.Double(), nullable=True),
        sa.Column("is_gold", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("agreement", sa.Text(), nullable=True),
        sa.Column("is_repeat", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("is_pooled", sa.Boolean(), server_default=sa.true(), nullable=False),
        sa.Column("tags", sa.Text(), nullable=True),
        sa.Column("erased_at", INSTANT, nullable=True),
        sa.Column("image_erased_at", INSTANT, nullable=True),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1", name="ck_queries_confidence"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_queries_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_queries_detector_id_version_id_versions",
        ),
        *_numbered("queries"),
        sa.UniqueConstraint("detector_id", "key", name="uq_queries_detector_id_key"),
    )
    op.create_index(
        "ix_queries_created_at_id_unlabelled",
        "queries",
        ["created_at", "id"],
        **where("label IS NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_agreement_compared",
        "queries",
        ["detector_id", "agreement", "id"],
        **where("agreement IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_asked_at",
        "queries",
        ["detector_id", "asked_at", "version_id", "is_repeat", "rank"],
    )
    op.create_index(
        "ix_queries_detector_id_confidence_id_given",
        "queries",
        ["detector_id", "confidence", "id"],
        **where("confidence IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_confidence_unlabelled",
        "queries",
        ["detector_id", "confidence", "id"],
        **where("label IS NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_erased",
        "queries",
        ["detector_id"],
        **where("erased_at IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_gold", "queries", ["detector_id"], **where("is_gold")
    )
    op.create_index(
        "ix_queries_detector_id_group_standing_given",
        "queries",
        ["detector_id", "group", "standing", "version_id"],
        **where('"group" IS NOT NULL'),
    )
    op.create_index(
        "ix_queries_detector_id_id_tagged",
        "queries",
        ["detector_id", "id"],
        **where("tags IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_id_unlabelled",
        "queries",
        ["detector_id", "id"],
        **where("label IS NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_id_unsure",
        "queries",
        ["detector_id", "id"],
        **where("confidence IS NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_input_given",
        "queries",
        ["detector_id", "input", "is_repeat", "label", "version_id"],
        **where("input IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_label_predicted_id",
        "queries",
        ["detector_id", "label", "predicted", "id"],
    )
    op.create_index(
        "ix_queries_detector_id_queue_rank_waiting",
        "queries",
        ["detector_id", "queue_rank"],
        **where("queue_rank IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_unpooled",
        "queries",
        ["detector_id", "standing", "label", "predicted", "version_id"],
        **where("NOT is_pooled"),
    )
    op.create_table(
        "projections",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("memory", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_projections_detector_id_version_id_versions",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "version_id", "name", "key", name="pk_projections"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sent_estimates",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_sent_estimates_detector_id_version_id_versions",
        ),
        sa.PrimaryKeyConstraint("detector_id", "version_id", name="pk_sent_estimates"),
    )
    op.create_table(
        "snapshots",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("computed_at", INSTANT, nullable=False),
        sa.Column("job_run_id", BIG, nullable=False),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("population", sa.Text(), nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("unclear", BIG, nullable=False),
        sa.Column("targeted_left_out", BIG, nullable=False),
        sa.CheckConstraint("kind IN ('checkpoint', 'run')", name="ck_snapshots_kind"),
        sa.ForeignKeyConstraint(
            ["detector_id", "job_run_id"],
            ["job_runs.detector_id", "job_runs.id"],
            name="fk_snapshots_detector_id_job_run_id_job_runs",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_snapshots_detector_id_version_id_versions",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "version_id", "sequence", name="pk_snapshots"
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_snapshots_detector_id_version_id_kind_sequence",
        "snapshots",
        ["detector_id", "version_id", "kind", "sequence"],
    )
    op.create_table(
        "study_rounds",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("study_id", BIG, nullable=False),
        sa.Column("number", BIG, nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("validation", sa.Double(), nullable=True),
        sa.Column("training", sa.Double(), nullable=True),
        sa.Column("no_information", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id", "study_id"],
            ["studies.detector_id", "studies.id"],
            name="fk_study_rounds_detector_id_study_id_studies",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "study_id", "number", name="pk_study_rounds"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit_draws",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("audit_id", BIG, nullable=False),
        sa.Column("number", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("rank", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("drawn_at", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "audit_id"],
            ["audits.detector_id", "audits.id"],
            name="fk_audit_draws_detector_id_audit_id_audits",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_audit_draws_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "audit_id", "number", name="pk_audit_draws"
        ),
        sa.UniqueConstraint(
            "detector_id",
            "audit_id",
            "query_id",
            name="uq_audit_draws_detector_id_audit_id_query_id",
        ),
    )
    op.create_table(
        "audit_extensions",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("audit_id", BIG, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("half_width_before", sa.Double(), nullable=False),
        sa.Column("half_width", sa.Double(), nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("extended_by", sa.Text(), nullable=False),
        sa.Column("extended_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "audit_id"],
            ["audits.detector_id", "audits.id"],
            name="fk_audit_extensions_detector_id_audit_id_audits",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "audit_id", "number", name="pk_audit_extensions"
        ),
    )
    op.create_table(
        "audit_items",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("audit_id", BIG, nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("rank", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("known_from", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id", "audit_id"],
            ["audits.detector_id", "audits.id"],
            name="fk_audit_items_detector_id_audit_id_audits",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_audit_items_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id",
            "audit_id",
            "stratum",
            "rank",
            "query_id",
            name="pk_audit_items",
        ),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_audit_items_detector_id_audit_id_known",
        "audit_items",
        ["detector_id", "audit_id", "known_from"],
        **where("known_from IS NOT NULL"),
    )
    op.create_index(
        "ix_audit_items_query_id_detector_id",
        "audit_items",
        ["query_id", "detector_id"],
    )
    op.create_table(
        "audit_rounds",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("audit_id", BIG, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("frozen", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("began_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "audit_id"],
            ["audits.detector_id", "audits.id"],
            name="fk_audit_rounds_detector_id_audit_id_audits",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "audit_id", "number", name="pk_audit_rounds"
        ),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", BIG, nullable=False),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=True),
        sa.Column("event_id", BIG, nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("last_tried_at", INSTANT, nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("next_try_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_deliveries_webhook_id_webhooks"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
    )
    op.create_index(
        "ix_deliveries_waiting",
        "deliveries",
        ["webhook_id", "detector_id", "id"],
        **where("state = 'waiting'"),
    )
    op.create_index("ix_deliveries_webhook_id_id", "deliveries", ["webhook_id", "id"])
    op.create_index("ix_deliveries_event_id", "deliveries", ["event_id"])
    op.create_table(
        "draws",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("other_version_id", BIG, nullable=False),
        sa.Column("drawn_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "other_version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_draws_detector_id_other_version_id_versions",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_draws_detector_id_query_id_queries",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "query_id", "other_version_id", name="pk_draws"
        ),
    )
    op.create_table(
        "golds",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("marked_by", NAME, nullable=False),
        sa.Column("marked_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_golds_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint("detector_id", "query_id", name="pk_golds"),
    )
    op.create_table(
        "judgements",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("judge", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("judged", NAME, nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("judged_at", INSTANT, nullable=False),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.Column("batch", BIG, nullable=True),
        sa.CheckConstraint(
            "kind IN ('human', 'model', 'code')", name="ck_judgements_kind"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_judgements_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id", "query_id", "judge", name="pk_judgements"
        ),
    )
    op.create_index(
        "ix_judgements_detector_id_judge", "judgements", ["detector_id", "judge"]
    )
    op.create_table(
        "labels",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("replaces_id", BIG, nullable=True),
        sa.Column("label", NAME, nullable=False),
        sa.Column("truth", NAME, nullable=True),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("labeler", sa.Text(), nullable=False),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("source_label_id", BIG, nullable=True),
        sa.Column("is_repeat", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("weight", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')", name="ck_labels_sampling"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_labels_detector_id_query_id_queries",
        ),
        *_numbered("labels"),
    )
    # The detector as well: with an index of the query alone PostgreSQL, without fresh
    # statistics, intersects it with the whole of the primary key for each query.
    op.create_index(
        "ix_labels_query_id_detector_id", "labels", ["query_id", "detector_id"]
    )
    op.create_index(
        "ix_labels_detector_id_weighted",
        "labels",
        ["detector_id"],
        **where("weight IS NOT NULL"),
    )
    op.create_table(
        "notices",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("id", BIG, autoincrement=True, nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("event_id", BIG, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_notices_account_id_accounts"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_notices_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "event_id"],
            ["events.detector_id", "events.id"],
            name="fk_notices_detector_id_event_id_events",
        ),
        *_numbered("notices"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_notices_waiting",
        "notices",
        ["account_id", "detector_id", "id"],
        **where("state = 'waiting'"),
    )
    op.create_index("ix_notices_event_id", "notices", ["event_id"])
    op.create_table(
        "investigations",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("number", BIG, nullable=False),
        sa.Column("begun_at", INSTANT, nullable=False),
        sa.Column("begun_by", NAME, nullable=False),
        sa.Column("old_version_id", BIG, nullable=False),
        sa.Column("new_version_id", BIG, nullable=False),
        sa.Column("old_judge", NAME, nullable=False),
        sa.Column("new_judge", NAME, nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("now_since", INSTANT, nullable=False),
        sa.Column("now_until", INSTANT, nullable=False),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("right_then", BIG, nullable=False),
        sa.Column("judged_then", BIG, nullable=False),
        sa.Column("right_now", BIG, nullable=False),
        sa.Column("judged_now", BIG, nullable=False),
        sa.Column("anchors", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_investigations_detector_id_detectors",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "new_version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_investigations_detector_id_new_version_id_versions",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "old_version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_investigations_detector_id_old_version_id_versions",
        ),
        sa.PrimaryKeyConstraint("detector_id", "number", name="pk_investigations"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "recheck_sets",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("frozen_at", INSTANT, nullable=False),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.Column("known", sa.JSON(), nullable=False),
        sa.Column("line", sa.JSON(), nullable=False),
        sa.Column("reached", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_recheck_sets_detector_id_version_id_versions",
        ),
        sa.PrimaryKeyConstraint("detector_id", "version_id", name="pk_recheck_sets"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "rechecks",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("place", BIG, nullable=True),
        sa.Column("clock", sa.Double(), nullable=False),
        sa.Column("drawn_at", INSTANT, nullable=False),
        sa.Column("label_id", BIG, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("answer", NAME, nullable=True),
        sa.Column("labeler", NAME, nullable=True),
        sa.Column("is_trusted", sa.Boolean(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("answered_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_rechecks_detector_id_query_id_queries",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id"],
            ["versions.detector_id", "versions.id"],
            name="fk_rechecks_detector_id_version_id_versions",
        ),
        sa.PrimaryKeyConstraint("detector_id", "query_id", name="pk_rechecks"),
        sa.UniqueConstraint(
            "detector_id",
            "version_id",
            "place",
            name="uq_rechecks_detector_id_version_id_place",
        ),
    )
    op.create_table(
        "reservations",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("place", BIG, nullable=False),
        sa.Column(
            "queue", sa.Text(), server_default=sa.text("'random'"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_reservations_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint("detector_id", "query_id", name="pk_reservations"),
    )
    op.create_index("ix_reservations_labeler", "reservations", ["labeler"])
    op.create_index(
        "ix_reservations_detector_id_until", "reservations", ["detector_id", "until"]
    )
    op.create_table(
        "skips",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("skipped_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["queries.detector_id", "queries.id"],
            name="fk_skips_detector_id_query_id_queries",
        ),
        sa.PrimaryKeyConstraint("detector_id", "query_id", "labeler", name="pk_skips"),
    )
    op.create_index("ix_skips_labeler", "skips", ["labeler"])
    op.create_table(
        "snapshot_intervals",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("correct", BIG, nullable=False),
        sa.Column("labelled", BIG, nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("formula", sa.SmallInteger(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id", "sequence"],
            ["snapshots.detector_id", "snapshots.version_id", "snapshots.sequence"],
            name="fk_snapshot_intervals_detector_id_version_id_sequence_snapshots",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id",
            "version_id",
            "sequence",
            "method",
            "position",
            name="pk_snapshot_intervals",
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "snapshot_measures",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("correct", BIG, nullable=False),
        sa.Column("labelled", BIG, nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("formula", sa.SmallInteger(), server_default="1", nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "version_id", "sequence"],
            ["snapshots.detector_id", "snapshots.version_id", "snapshots.sequence"],
            name="fk_snapshot_measures_detector_id_version_id_sequence_snapshots",
        ),
        sa.PrimaryKeyConstraint(
            "detector_id",
            "version_id",
            "sequence",
            "measure",
            "position",
            name="pk_snapshot_measures",
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "gold_answers",
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("label_id", BIG, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("answered_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"],
            ["golds.detector_id", "golds.query_id"],
            name="fk_gold_answers_detector_id_query_id_golds",
        ),
        sa.PrimaryKeyConstraint("detector_id", "label_id", name="pk_gold_answers"),
    )
    op.create_index(
        "ix_gold_answers_detector_id_answered_at",
        "gold_answers",
        ["detector_id", "answered_at"],
    )
    op.create_index(
        "ix_gold_answers_detector_id_query_id_labeler",
        "gold_answers",
        ["detector_id", "query_id", "labeler"],
    )
