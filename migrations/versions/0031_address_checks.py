"""Addresses for mail wait until their owners confirm them.

An address that an account has already keeps its mail; only a new one waits.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "address_checks",
        sa.Column("account_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("is_waiting", sa.Boolean(), nullable=False),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name="fk_address_checks_account_id_accounts",
        ),
    )


def downgrade() -> None:
    op.drop_table("address_checks")
