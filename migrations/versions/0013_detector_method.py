"""The method by which pages show intervals, and how many labels are unstated.

Detectors that are there already get the default, too: `joint` promises what `exact`
does and says more.

Of each version the job counts the scored labels of which nobody said why their
queries were chosen.  Here they are counted for the labels that it has folded in: each
adds one if it is such a label, and takes one if the label that it replaced was.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
COUNT = sa.text("""
    UPDATE versions SET unstated = (
        SELECT coalesce(sum(
            CASE WHEN labels.sampling = 'unstated' AND labels.label <> 'UNCLEAR'
                THEN 1 ELSE 0 END
            - CASE WHEN old.sampling = 'unstated' AND old.label <> 'UNCLEAR'
                THEN 1 ELSE 0 END
        ), 0)
        FROM queries
        JOIN labels ON labels.query_id = queries.id
            AND labels.detector_id = queries.detector_id
        LEFT JOIN labels AS old ON old.id = labels.replaces_id
            AND old.detector_id = labels.detector_id
        WHERE queries.detector_id = versions.detector_id
            AND queries.version_id = versions.id
            AND labels.id / 16777216 NOT IN (SELECT id FROM pending_batches)
    )
""")


def upgrade() -> None:
    op.add_column(
        "detectors",
        sa.Column("method", sa.Text(), nullable=False, server_default="joint"),
    )
    op.add_column(
        "versions", sa.Column("unstated", BIG, nullable=False, server_default="0")
    )
    op.execute(COUNT)


def downgrade() -> None:
    op.drop_column("versions", "unstated")
    op.drop_column("detectors", "method")
