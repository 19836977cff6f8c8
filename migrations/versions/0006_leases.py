"""Which worker has taken up which detector, and which detectors fail.

Workers share out detectors by leases.  One that fails rests under a lease that
nobody holds, whose end moves further away each time.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "leases",
        sa.Column("detector_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("worker", sa.Text()),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_leases_detector_id_detectors"
        ),
    )


def downgrade() -> None:
    op.drop_table("leases")
