"""Snapshots say by which formula of their method they were computed.

`anytime` has a second formula, which is narrower where classes are unequal.  What
was stored before stays as it is, and is of the first one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column(
        "snapshot_intervals",
        sa.Column("formula", sa.SmallInteger(), nullable=False, server_default="1"),
    )


def downgrade() -> None:
    op.drop_column("snapshot_intervals", "formula")
