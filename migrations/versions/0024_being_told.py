"""A watch for drift, mail to people, and what judges say of queries.

A watch keeps what it needs of all labels before the next one.  A notice waits until
the next mail about its detector may go to its person; it is written in the
transaction of its event, and goes with the mail.  A judgement is what a model, a
program or a person without authority said of a query; it never counts as its truth.
"""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "drift_watches",
        sa.Column("version_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("state", sa.JSON(), nullable=False),
        _refers("drift_watches", "version_id", "versions"),
    )
    op.add_column("accounts", sa.Column("email", sa.Text()))
    op.add_column("accounts", sa.Column("mail_events", sa.JSON()))
    op.create_table(
        "mail_mutes",
        sa.Column("account_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, primary_key=True, autoincrement=False),
        _refers("mail_mutes", "account_id", "accounts"),
        _refers("mail_mutes", "detector_id", "detectors"),
    )
    op.create_table(
        "notices",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("account_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("event_id", BIG, nullable=False),
        _refers("notices", "account_id", "accounts"),
        _refers("notices", "detector_id", "detectors"),
        _refers("notices", "event_id", "events"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_notices_account_id_detector_id_id",
        "notices",
        ["account_id", "detector_id", "id"],
    )
    op.create_table(
        "digests",
        sa.Column("account_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("last_notice_id", BIG, nullable=True),
        sa.Column("sent_at", INSTANT, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        _refers("digests", "account_id", "accounts"),
        _refers("digests", "detector_id", "detectors"),
    )
    op.create_table(
        "sent_estimates",
        sa.Column("version_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.Integer(), nullable=False),
        _refers("sent_estimates", "version_id", "versions"),
    )
    op.create_table(
        "judgements",
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("judge", NAME, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("judged", NAME, nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("judged_at", INSTANT, nullable=False),
        sa.Column("received_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "kind IN ('human', 'model', 'code')", name="ck_judgements_kind"
        ),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_judgements_query_id_detector_id_queries",
        ),
    )
    op.create_index(
        "ix_judgements_detector_id_judge", "judgements", ["detector_id", "judge"]
    )


def _refers(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_{column}_{other}"
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name)


def downgrade() -> None:
    for table in ("judgements", "sent_estimates", "digests", "notices", "mail_mutes"):
        op.drop_table(table)
    op.drop_column("accounts", "mail_events")
    op.drop_column("accounts", "email")
    op.drop_table("drift_watches")
