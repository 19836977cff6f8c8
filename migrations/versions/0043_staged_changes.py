"""What queries were before an import into SQLite changed them that has not ended.

Until it ends everybody else is shown what stands here.
"""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
CHANGED = (
    *("input", "label_id", "label", "sampling"),
    *("audit_rank", "agreement", "is_repeat"),
)


def upgrade() -> None:
    op.create_table(
        "staged_changes",
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("owner_id", BIG, nullable=False),
        sa.Column("input", NAME),
        sa.Column("label_id", BIG),
        sa.Column("label", NAME),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("audit_rank", sa.Double()),
        sa.Column("agreement", sa.Text()),
        sa.Column("is_repeat", sa.Boolean(), nullable=False),
    )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        values = ", ".join(f"{name} = was.{name}" for name in CHANGED)
        op.execute(
            f"UPDATE queries SET {values} FROM staged_changes AS was"
            " WHERE was.query_id = queries.id"
            " AND was.owner_id IN (SELECT id FROM staged_batches)"
        )
    op.drop_table("staged_changes")
