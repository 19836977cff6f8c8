"""Imports that a worker carries out, with their files until it has.

A file lies in pieces of at most a megabyte, so that neither side ever holds it as a
whole.  An import's row stays; the pieces go in the transaction that ends it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
UNFINISHED = sa.text("finished_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "imports",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("format", sa.Text(), nullable=False),
        sa.Column("on_error", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("bytes", BIG, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_kind", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=True),
        sa.Column("finished_at", INSTANT, nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=True),
        sa.Column("since", INSTANT, nullable=True),
        sa.Column("until", INSTANT, nullable=True),
        sa.Column("rows_read", BIG, nullable=False),
        sa.Column("bytes_read", BIG, nullable=False),
        sa.Column("report", sa.JSON(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_imports_detector_id_detectors"
        ),
        sa.CheckConstraint(
            "on_error IN ('reject', 'skip')", name="ck_imports_on_error"
        ),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'rejected', 'failed')",
            name="ck_imports_state",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_imports_detector_id_id", "imports", ["detector_id", "id"])
    op.create_index(
        "ix_imports_id_unfinished",
        "imports",
        ["id"],
        sqlite_where=UNFINISHED,
        postgresql_where=UNFINISHED,
    )
    op.create_table(
        "import_pieces",
        sa.Column("import_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["import_id"], ["imports.id"], name="fk_import_pieces_import_id_imports"
        ),
    )


def downgrade() -> None:
    op.drop_table("import_pieces")
    op.drop_table("imports")
