"""What teams that label need: a guideline, gold queries, and assignments.

A gold query is one whose answer is known.  What people answer to it stands here and
not among the labels: it tells how often each person errs, and is never scored.
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.add_column(
        "detectors",
        sa.Column("guideline", sa.Text(), nullable=False, server_default=sa.text("''")),
    )
    op.add_column(
        "detectors",
        sa.Column("gold_rate", sa.Double(), nullable=False, server_default="0"),
    )
    op.create_table(
        "golds",
        sa.Column("query_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("marked_by", NAME, nullable=False),
        sa.Column("marked_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["query_id", "detector_id"],
            ["queries.id", "queries.detector_id"],
            name="fk_golds_query_id_detector_id_queries",
        ),
    )
    op.create_index("ix_golds_detector_id", "golds", ["detector_id"])
    op.create_table(
        "gold_answers",
        sa.Column("label_id", BIG, primary_key=True, autoincrement=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("labeler", NAME, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("answered_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["query_id"], ["golds.query_id"], name="fk_gold_answers_query_id_golds"
        ),
    )
    for columns in (["query_id", "labeler"], ["detector_id", "answered_at"]):
        name = f"ix_gold_answers_{'_'.join(columns)}"
        op.create_index(name, "gold_answers", columns)
    op.create_table(
        "assignments",
        sa.Column("detector_id", BIG, primary_key=True),
        sa.Column("labeler", NAME, primary_key=True),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("done", BIG, nullable=False),
        sa.Column("made_by", NAME, nullable=False),
        sa.Column("made_at", INSTANT, nullable=False),
        sa.ForeignKeyConstraint(
            ["detector_id"],
            ["detectors.id"],
            name="fk_assignments_detector_id_detectors",
        ),
    )


def downgrade() -> None:
    op.drop_table("assignments")
    op.execute(
        "UPDATE queries SET audit_rank ="
        " CASE WHEN audit_rank < -1 THEN NULL ELSE audit_rank + 1 END"
        " WHERE audit_rank < 0"
    )
    op.drop_table("gold_answers")
    op.drop_table("golds")
    for name in ("gold_rate", "guideline"):
        op.drop_column("detectors", name)
