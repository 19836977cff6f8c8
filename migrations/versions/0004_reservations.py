"""Who is about to label what, and what was set aside.

Several people who label at once must never be shown the same query.  So a query
is reserved for one of them for a while, and the primary key decides who got it.
A skipped query is set aside for the one who skipped it, and for nobody else.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "reservations",
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("place", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name="fk_reservations_query_id_queries"
        ),
    )
    op.create_index("ix_reservations_labeler", "reservations", ["labeler"])
    op.create_index("ix_reservations_until", "reservations", ["until"])
    op.create_table(
        "skips",
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("skipped_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("query_id", "labeler", name="pk_skips"),
        sa.ForeignKeyConstraint(
            ["query_id"], ["queries.id"], name="fk_skips_query_id_queries"
        ),
    )
    op.create_index("ix_skips_labeler", "skips", ["labeler"])


def downgrade() -> None:
    for table in ("skips", "reservations"):
        op.drop_table(table)
