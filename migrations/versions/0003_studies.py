"""Resampling studies: what is uploaded beside the labels.

Some uncertainty cannot be had from labels alone, such as the luck of a random
seed.  The rounds of a study are evidence as labels are, so they too can only be
added.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

TABLES = ("studies", "study_rounds")
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "studies",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", NAME),
        sa.Column("note", sa.Text()),
        sa.Column("rounds", BIG, nullable=False),
        sa.Column("added_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.UniqueConstraint("detector_id", "name", name="uq_studies_detector_id_name"),
        sa.CheckConstraint("kind IN ('bootstrap', 'seeds')", name="ck_studies_kind"),
        sa.ForeignKeyConstraint(
            ["detector_id"], ["detectors.id"], name="fk_studies_detector_id_detectors"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_studies_detector_id_id", "studies", ["detector_id", "id"])
    op.create_table(
        "study_rounds",
        sa.Column("study_id", BIG, nullable=False),
        sa.Column("number", BIG, nullable=False),
        sa.Column("accuracy", sa.Double()),
        sa.Column("validation", sa.Double()),
        sa.Column("training", sa.Double()),
        sa.Column("no_information", sa.Double()),
        sa.PrimaryKeyConstraint("study_id", "number", name="pk_study_rounds"),
        sa.ForeignKeyConstraint(
            ["study_id"], ["studies.id"], name="fk_study_rounds_study_id_studies"
        ),
        sqlite_with_rowid=False,
    )
    _refuse_changes()


def _refuse_changes() -> None:
    for table in TABLES:
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
    # A table takes its triggers with it.
    for table in reversed(TABLES):
        op.drop_table(table)
