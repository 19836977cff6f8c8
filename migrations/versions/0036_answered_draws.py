"""Remember how many of an audit's first draws have an answer.

The next draw would else look at all of them for one that is still open.
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column(
        "audits",
        sa.Column("answered", BIG, nullable=False, server_default="0"),
    )


def downgrade() -> None:
    op.drop_column("audits", "answered")
