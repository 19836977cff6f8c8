"""A second step to sign in, and when API keys end, were used, and whose they are."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)
ACCOUNT = "accounts.id"


def upgrade() -> None:
    for name in ("expires_at", "last_used_at"):
        op.add_column("api_keys", sa.Column(name, INSTANT, nullable=True))
    op.add_column("api_keys", sa.Column("owner", NAME, nullable=True))
    op.create_table(
        "totps",
        sa.Column(
            "account_id",
            ID,
            sa.ForeignKey(ACCOUNT, name="fk_totps_account_id_accounts"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_at", INSTANT, nullable=True),
    )
    op.create_table(
        "passkeys",
        sa.Column("id", ID, primary_key=True),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("credential", sa.Text(), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("used_at", INSTANT, nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], [ACCOUNT], name="fk_passkeys_account_id_accounts"
        ),
        sa.UniqueConstraint("credential", name="uq_passkeys_credential"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_passkeys_account_id", "passkeys", ["account_id"])
    op.create_table(
        "recovery_codes",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("account_id", ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], [ACCOUNT], name="fk_recovery_codes_account_id_accounts"
        ),
    )
    op.create_index("ix_recovery_codes_account_id", "recovery_codes", ["account_id"])
    op.create_table(
        "sign_in_steps",
        sa.Column("digest", sa.Text(), primary_key=True),
        sa.Column("account_id", ID, nullable=False),
        sa.Column("how", sa.Text(), nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], [ACCOUNT], name="fk_sign_in_steps_account_id_accounts"
        ),
    )


def downgrade() -> None:
    for table in ("sign_in_steps", "recovery_codes", "passkeys", "totps"):
        op.drop_table(table)
    for name in ("owner", "last_used_at", "expires_at"):
        op.drop_column("api_keys", name)
