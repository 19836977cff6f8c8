"""On SQLite the rows of an import come in by pieces, hidden until it ends.

A staged batch is hidden from everybody, and so is a version that came with it.  Labels
can still only be added; those of a batch that nobody has seen yet can be taken away.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
REFUSED = "BEGIN SELECT RAISE(ABORT, 'labels is append-only'); END"


def upgrade() -> None:
    op.create_table(
        "staged_batches",
        sa.Column("id", BIG, primary_key=True, autoincrement=False),
        sa.Column("owner_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("import_id", BIG, nullable=True),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("is_given_up", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_staged_batches_detector_id_detectors",
        ),
    )
    op.create_table(
        "staged_versions",
        sa.Column("version_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("owner_id", BIG, nullable=False),
        sa.ForeignKeyConstraint(
            ["version_id"],
            ["versions.id"],
            name="fk_staged_versions_version_id_versions",
        ),
    )
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER labels_no_delete")
        op.execute(
            "CREATE TRIGGER labels_no_delete BEFORE DELETE ON labels "
            "WHEN OLD.id >> 24 NOT IN (SELECT id FROM staged_batches) " + REFUSED
        )


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER labels_no_delete")
        op.execute(f"CREATE TRIGGER labels_no_delete BEFORE DELETE ON labels {REFUSED}")
    op.drop_table("staged_versions")
    op.drop_table("staged_batches")
