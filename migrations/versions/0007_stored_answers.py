"""Store answers, so that a repeated request gets the same one.

A program that got no answer cannot know whether its request was carried out.  It
sends the same again under the same idempotency key and gets the answer that was
stored in the transaction of the first one.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "stored_answers",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.UniqueConstraint("owner", "key", name="uq_stored_answers_owner_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_stored_answers_created_at", "stored_answers", ["created_at"])


def downgrade() -> None:
    op.drop_table("stored_answers")
