"""Queries that wait for their prediction, and what the device API says of detectors."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "waiting_queries",
        sa.Column("id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("input", NAME, nullable=True),
        sa.Column("version", NAME, nullable=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("metadata", sa.Text(), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("labels", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_waiting_queries_detector_id_detectors",
        ),
    )
    op.create_index(
        "ix_waiting_queries_detector_id_id", "waiting_queries", ["detector_id", "id"]
    )
    op.create_table(
        "device_settings",
        sa.Column("detector_id", BIG, primary_key=True, autoincrement=False),
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
    )
    op.create_table(
        "detector_groups",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.UniqueConstraint("name", name="uq_detector_groups_name"),
        sqlite_autoincrement=True,
    )


def downgrade() -> None:
    for table in ("detector_groups", "device_settings", "waiting_queries"):
        op.drop_table(table)
