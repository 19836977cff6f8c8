"""How a file that a worker imports is to be read: its columns, classes and times."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.add_column("imports", sa.Column("choices", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("imports", "choices")
