"""Which version of a detector is in production."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column("detectors", sa.Column("production_version", NAME, nullable=True))


def downgrade() -> None:
    op.drop_column("detectors", "production_version")
