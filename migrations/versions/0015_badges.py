"""Badges: unguessable addresses that show a detector's accuracy to everybody."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "badges",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_by", NAME, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_badges_detector_id_detectors"
        ),
        sa.UniqueConstraint("digest", name="uq_badges_digest"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_badges_detector_id_id", "badges", ["detector_id", "id"])


def downgrade() -> None:
    op.drop_table("badges")
