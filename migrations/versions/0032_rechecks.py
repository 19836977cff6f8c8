"""Labels that were drawn by chance to be given a second time, blind.

What the second person says stands here and not among the labels, where the newest is
the one that is scored: it tells how often labels are wrong, and changes none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "rechecks",
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("place", BIG, nullable=False),
        sa.Column("drawn_at", INSTANT, nullable=False),
        sa.Column("label_id", BIG, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("answer", NAME, nullable=True),
        sa.Column("labeler", NAME, nullable=True),
        sa.Column("is_trusted", sa.Boolean(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("answered_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_rechecks_query_id_detector_id_queries",
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name="fk_rechecks_version_id_versions"
        ),
        sa.UniqueConstraint("version_id", "place", name="uq_rechecks_version_id_place"),
    )


def downgrade() -> None:
    op.drop_table("rechecks")
