"""Events are kept as they happened, and an outbox tells webhooks of them.

An event is written in the transaction of what caused it, and so are its deliveries:
whatever is killed, nothing that happened goes untold.  Events are append-only, as all
history is; a delivery changes with each attempt, and goes with its webhook.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
WAITING = sa.text("state = 'waiting'")


def upgrade() -> None:
    op.add_column("detectors", sa.Column("stalled_after_hours", sa.Integer()))
    op.create_table(
        "events",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("happened_at", INSTANT, nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_events_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name="fk_events_version_id_versions"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_detector_id_id", "events", ["detector_id", "id"])
    op.create_index(
        "ix_events_version_id_type_id", "events", ["version_id", "type", "id"]
    )
    op.create_table(
        "webhooks",
        sa.Column("id", BIG, primary_key=True),
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
        sqlite_autoincrement=True,
    )
    op.create_table(
        "webhook_detectors",
        sa.Column("webhook_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, primary_key=True, autoincrement=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name="fk_webhook_detectors_webhook_id_webhooks",
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_webhook_detectors_detector_id_detectors",
        ),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("webhook_id", BIG, nullable=False),
        sa.Column("event_id", BIG, nullable=True),
        sa.Column("detector_id", BIG, nullable=True),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("first_tried_at", INSTANT, nullable=True),
        sa.Column("last_tried_at", INSTANT, nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["webhook_id"], ["webhooks.id"], name="fk_deliveries_webhook_id_webhooks"
        ),
        sa.ForeignKeyConstraint(
            ["event_id"], ["events.id"], name="fk_deliveries_event_id_events"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_webhook_id_id", "deliveries", ["webhook_id", "id"])
    op.create_index(
        "ix_deliveries_waiting",
        "deliveries",
        ["webhook_id", "detector_id", "id"],
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )
    _refuse_changes()


def _refuse_changes() -> None:
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER events_no_{action.lower()} BEFORE {action} ON events "
                "BEGIN SELECT RAISE(ABORT, 'events is append-only'); END"
            )
        return
    op.execute(
        "CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        "ON events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )


def downgrade() -> None:
    # Their triggers and indexes go with them.
    for table in ("deliveries", "webhook_detectors", "webhooks", "events"):
        op.drop_table(table)
    op.drop_column("detectors", "stalled_after_hours")
