"""Queries that were never labelled can be found by their age, and deleted.

The worker goes through them from the oldest on.  A query that stands beside a
labelled one with the same input is kept, because versions are compared by the two:
with the label in the index of the inputs that is one look, however many queries
share an input.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

UNLABELLED = sa.text("label IS NULL")
GIVEN = sa.text("input IS NOT NULL")


def upgrade() -> None:
    op.create_index(
        "ix_queries_created_at_id_unlabelled",
        "queries",
        ["created_at", "id"],
        sqlite_where=UNLABELLED,
        postgresql_where=UNLABELLED,
    )
    op.drop_index("ix_queries_detector_id_input_given", "queries")
    op.create_index(
        "ix_queries_detector_id_input_label_given",
        "queries",
        ["detector_id", "input", "label"],
        sqlite_where=GIVEN,
        postgresql_where=GIVEN,
    )


def downgrade() -> None:
    op.drop_index("ix_queries_detector_id_input_label_given", "queries")
    op.create_index(
        "ix_queries_detector_id_input_given",
        "queries",
        ["detector_id", "input"],
        sqlite_where=GIVEN,
        postgresql_where=GIVEN,
    )
    op.drop_index("ix_queries_created_at_id_unlabelled", "queries")
