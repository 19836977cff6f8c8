"""Who may sign in, what they may see, and what was done by whom.

Only hashes are kept of passwords, of links to sign in, and of what a browser shows
once it is signed in.  What was done can only be added to.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("has_all_detectors", sa.Boolean(), nullable=False),
        sa.Column("password_hash", sa.Text()),
        sa.Column("identity", sa.Text()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("disabled_at", INSTANT),
        sa.UniqueConstraint("name", name="uq_accounts_name"),
        sa.UniqueConstraint("identity", name="uq_accounts_identity"),
        sa.CheckConstraint(
            "role IN ('viewer', 'labeler', 'editor', 'admin')", name="ck_accounts_role"
        ),
        sqlite_autoincrement=True,
    )
    _create_access("account_detectors", "account_id", "accounts")
    _create_access("api_key_detectors", "api_key_id", "api_keys")
    op.add_column(
        "api_keys",
        sa.Column(
            "has_all_detectors", sa.Boolean(), nullable=False, server_default=sa.true()
        ),
    )
    _create_sign_ins()
    op.create_table(
        "audit_events",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("happened_at", INSTANT, nullable=False),
        sa.Column("actor", NAME, nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    _refuse_changes("audit_events")


def _create_access(table: str, column: str, owners: str) -> None:
    op.create_table(
        table,
        sa.Column(column, BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.PrimaryKeyConstraint(column, "detector_id", name=f"pk_{table}"),
        sa.ForeignKeyConstraint(
            [column], [f"{owners}.id"], name=f"fk_{table}_{column}_{owners}"
        ),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name=f"fk_{table}_detector_id_detectors"
        ),
    )


def _create_sign_ins() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("browser", sa.Text(), nullable=False),
        sa.UniqueConstraint("digest", name="uq_sign_ins_digest"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sign_ins_account_id_accounts"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sign_ins_account_id", "sign_ins", ["account_id"])
    op.create_table(
        "sign_in_links",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("expires_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sign_in_links"),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="fk_sign_in_links_account_id_accounts"
        ),
    )
    op.create_table(
        "sign_in_tries",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("tried_at", INSTANT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_sign_in_tries_tried_at", "sign_in_tries", ["tried_at"])


def _refuse_changes(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{action.lower()} "
                f"BEFORE {action} ON {table} BEGIN "
                f"SELECT RAISE(ABORT, '{table} is append-only'); END"
            )
    else:
        op.execute(
            f"CREATE TRIGGER {table}_append_only "
            f"BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def downgrade() -> None:
    for table in (
        "audit_events",
        "sign_in_tries",
        "sign_in_links",
        "sign_ins",
        "api_key_detectors",
        "account_detectors",
    ):
        op.drop_table(table)
    op.drop_column("api_keys", "has_all_detectors")
    op.drop_table("accounts")
