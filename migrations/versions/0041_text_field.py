"""Which key of the metadata pages show as text; none: the usual one."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.add_column("detectors", sa.Column("text_field", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("detectors", "text_field")
