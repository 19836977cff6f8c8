"""An index of the erased queries, so that a detector's other ones are counted fast."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"

INDEX = "ix_queries_detector_id_erased"
ERASED = sa.text("erased_at IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        INDEX,
        "queries",
        ["detector_id"],
        sqlite_where=ERASED,
        postgresql_where=ERASED,
    )


def downgrade() -> None:
    op.drop_index(INDEX, "queries")
