"""Audits of a fixed set of queries, with all that their intervals follow from.

The index of the items is written once: their order within a stratum is a hash, and
rounds change what strata weigh, never who is next.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
KNOWN = sa.text("known_from IS NOT NULL")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audits",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("since", INSTANT, nullable=True),
        sa.Column("until", INSTANT, nullable=True),
        sa.Column("where", sa.JSON(), nullable=False),
        sa.Column("aim", NAME, nullable=True),
        sa.Column("half_width", sa.Double(), nullable=True),
        sa.Column("target", sa.Double(), nullable=True),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("strata", sa.JSON(), nullable=False),
        sa.Column("queries", BIG, nullable=False),
        sa.Column("labels_expected", BIG, nullable=False),
        sa.Column("labels_at_random", BIG, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_audits_detector_id_detectors"
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name="fk_audits_version_id_versions"
        ),
        sa.UniqueConstraint("detector_id", "name", name="uq_audits_detector_id_name"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audits_detector_id_id", "audits", ["detector_id", "id"])
    op.create_table(
        "audit_items",
        sa.Column("audit_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("stratum", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("rank", BIG, primary_key=True, autoincrement=False),
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("known_from", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name="fk_audit_items_audit_id_audits"
        ),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_audit_items_query_id_detector_id_queries",
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_audit_items_query_id", "audit_items", ["query_id"])
    op.create_index(
        "ix_audit_items_audit_id_known",
        "audit_items",
        ["audit_id"],
        sqlite_where=KNOWN,
        postgresql_where=KNOWN,
    )
    op.create_table(
        "audit_rounds",
        sa.Column("audit_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("frozen", sa.Text(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("began_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name="fk_audit_rounds_audit_id_audits"
        ),
    )
    op.create_table(
        "audit_draws",
        sa.Column("audit_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("number", BIG, primary_key=True, autoincrement=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("stratum", sa.Integer(), nullable=False),
        sa.Column("rank", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("drawn_at", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name="fk_audit_draws_audit_id_audits"
        ),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_audit_draws_query_id_detector_id_queries",
        ),
        sa.UniqueConstraint(
            "audit_id", "query_id", name="uq_audit_draws_audit_id_query_id"
        ),
    )


def downgrade() -> None:
    for table in ("audit_draws", "audit_rounds", "audit_items", "audits"):
        op.drop_table(table)
