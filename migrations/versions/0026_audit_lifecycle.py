"""Audits are paused, extended by a narrower aim, and leave a record when closed.

The record is what the audit said at that moment; a correction that comes later
changes what is computed, never what was said.
"""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("audits", sa.Column("paused_at", INSTANT, nullable=True))
    op.add_column("audits", sa.Column("result", sa.Text(), nullable=True))
    op.create_table(
        "audit_extensions",
        sa.Column("audit_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("half_width_before", sa.Double(), nullable=False),
        sa.Column("half_width", sa.Double(), nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("extended_by", sa.Text(), nullable=False),
        sa.Column("extended_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["audit_id"], ["audits.id"], name="fk_audit_extensions_audit_id_audits"
        ),
    )


def downgrade() -> None:
    op.drop_table("audit_extensions")
    op.drop_column("audits", "result")
    op.drop_column("audits", "paused_at")
