"""How many people label a query, and whether they agree.

Where a detector asks for several labelers, the audit queue gives a query to that
many.  What they said of it is summed up in a word, so that disputes are found
without a look at all labels: agreed, disputed, or settled by an editor.
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column(
        "detectors",
        sa.Column("labels_wanted", sa.Integer(), nullable=False, server_default="1"),
    )
    op.add_column("queries", sa.Column("agreement", sa.Text(), nullable=True))
    compared = sa.text("agreement IS NOT NULL")
    op.create_index(
        "ix_queries_detector_id_agreement_compared",
        "queries",
        ["detector_id", "agreement", "id"],
        sqlite_where=compared,
        postgresql_where=compared,
    )


def downgrade() -> None:
    op.drop_index("ix_queries_detector_id_agreement_compared", "queries")
    op.drop_column("queries", "agreement")
    op.drop_column("detectors", "labels_wanted")
