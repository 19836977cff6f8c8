"""Keep overall accuracy, precision and F1 in the history.

Snapshots stored before have none of them: the counts by prediction were not kept.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLE = "snapshot_measures"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("snapshot_id", BIG, nullable=False),
        sa.Column("measure", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("correct", BIG, nullable=False),
        sa.Column("labelled", BIG, nullable=False),
        sa.Column("accuracy", sa.Double()),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("formula", sa.SmallInteger(), nullable=False, server_default="1"),
        sa.PrimaryKeyConstraint(
            "snapshot_id", "measure", "position", name="pk_snapshot_measures"
        ),
        sa.ForeignKeyConstraint(
            ["snapshot_id"],
            ["snapshots.id"],
            name="fk_snapshot_measures_snapshot_id_snapshots",
        ),
        sqlite_with_rowid=False,
    )
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {TABLE}_no_{action.lower()} "
                f"BEFORE {action} ON {TABLE} BEGIN "
                f"SELECT RAISE(ABORT, '{TABLE} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE TRIGGER {TABLE}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        f"ON {TABLE} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )


def downgrade() -> None:
    # A table takes its triggers with it.
    op.drop_table(TABLE)
