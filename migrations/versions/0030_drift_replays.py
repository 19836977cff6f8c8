"""What a watch for drift would say by the labels of today.

The watch itself takes each label as it first came.  Once many were corrected, a replay
with the truth of today says which alarms still stand.
"""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column("drift_watches", sa.Column("replay", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("drift_watches", "replay")
