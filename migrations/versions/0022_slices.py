"""Running counts of slices: the queries that share a value of their metadata.

The job keeps them for the keys that a detector declares, so that a page of five hundred
cameras reads five hundred rows however many labels there are.
"""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COLUMNS = ("slices", "counted_slices")


def upgrade() -> None:
    for name in COLUMNS:
        op.add_column(
            "detectors",
            sa.Column(name, sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        )
    op.create_table(
        "slice_keys",
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("correct", BIG, nullable=False),
        sa.Column("labelled", BIG, nullable=False),
        sa.PrimaryKeyConstraint("version_id", "name", name="pk_slice_keys"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name="fk_slice_keys_version_id_versions"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "slices",
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("value", NAME, nullable=False),
        sa.Column("queries", BIG, nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("worse", sa.Double(), nullable=False),
        sa.Column("better", sa.Double(), nullable=False),
        sa.Column("worse_peak", sa.Double(), nullable=False),
        sa.Column("better_peak", sa.Double(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("is_told", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("version_id", "name", "value", name="pk_slices"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["versions.id"], name="fk_slices_version_id_versions"
        ),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("slices")
    op.drop_table("slice_keys")
    for name in COLUMNS:
        op.drop_column("detectors", name)
