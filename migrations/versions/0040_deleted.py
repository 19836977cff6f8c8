"""How many counted queries of each version were deleted since.

With it the running counts say how many queries there are, and nobody counts a million.
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# Counted are those that were folded in; an id is its batch times 2**24 and more.
THERE = sa.text(
    "SELECT version_id, count(*) FROM queries"
    " WHERE id / 16777216 NOT IN (SELECT id FROM pending_batches)"
    " AND id / 16777216 NOT IN (SELECT id FROM staged_batches)"
    " GROUP BY version_id"
)


def upgrade() -> None:
    op.add_column(
        "versions", sa.Column("deleted", BIG, nullable=False, server_default="0")
    )
    connection = op.get_bind()
    found = connection.execute(THERE).all()
    op.execute("UPDATE versions SET deleted = queries WHERE queries > 0")
    for version_id, number in found:
        connection.execute(
            sa.text("UPDATE versions SET deleted = queries - :number WHERE id = :id"),
            {"number": number, "id": version_id},
        )


def downgrade() -> None:
    op.drop_column("versions", "deleted")
