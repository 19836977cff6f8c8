"""Which inputs were drawn by chance from those on which two versions disagree.

Their labels are targeted, so no accuracy counts them.  For the question which of
the two versions is better they are as good as random, and a query says no more than
that somebody picked it; so what the queue of disagreements gave out is kept.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "draws",
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("other_version_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("drawn_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("query_id", "other_version_id", name="pk_draws"),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_draws_query_id_detector_id_queries",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["other_version_id"],
            ["versions.id"],
            name="fk_draws_other_version_id_versions",
        ),
    )
    op.create_index("ix_draws_detector_id", "draws", ["detector_id"])


def downgrade() -> None:
    op.drop_table("draws")
