"""Queries are marked with tags, to find them again."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

INDEX = "ix_queries_detector_id_id_tagged"
TAGGED = sa.text("tags IS NOT NULL")


def upgrade() -> None:
    op.add_column("queries", sa.Column("tags", sa.Text(), nullable=True))
    op.create_index(
        INDEX,
        "queries",
        ["detector_id", "id"],
        sqlite_where=TAGGED,
        postgresql_where=TAGGED,
    )


def downgrade() -> None:
    op.drop_index(INDEX, "queries")
    op.drop_column("queries", "tags")
