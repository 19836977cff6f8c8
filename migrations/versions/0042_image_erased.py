"""When the image of a query alone was erased."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"

INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("queries", sa.Column("image_erased_at", INSTANT))


def downgrade() -> None:
    op.drop_column("queries", "image_erased_at")
