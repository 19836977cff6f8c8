"""Predictors of detectors, which are asked about waiting queries, and saved mappings.

A query that waits says how often its predictor was asked in vain, when it is asked
next, and what was wrong the last time.
"""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

UTC_INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("detectors", sa.Column("predictor", sa.Text(), nullable=True))
    op.add_column("detectors", sa.Column("import_mapping", sa.JSON(), nullable=True))
    op.add_column(
        "waiting_queries",
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
    )
    op.add_column("waiting_queries", sa.Column("ask_at", UTC_INSTANT, nullable=True))
    op.add_column("waiting_queries", sa.Column("problem", sa.Text(), nullable=True))


def downgrade() -> None:
    for name in ("problem", "ask_at", "attempts"):
        op.drop_column("waiting_queries", name)
    for name in ("import_mapping", "predictor"):
        op.drop_column("detectors", name)
