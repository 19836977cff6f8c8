"""The truth belongs to the input, a repeat is not scored, and a query can be erased.

A label may be taken over from another query with the same input, and then says from
which label.  What a repeat was given says so too, because counts follow from labels
alone.  Queries and labels that are there stay as they were counted.

A note is all of a label that can be taken away, with the query that is erased.
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"

PARTITIONS = 8
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True)
FIRST = sa.text("input IS NOT NULL AND NOT is_repeat")
FIRSTS = "ix_queries_detector_id_input_version_id_first"
# All but the note.
FIXED = (
    "id, query_id, detector_id, replaces_id, label, sampling, labeler, labelled_at,"
    " created_at, source_label_id, is_repeat"
)


def upgrade() -> None:
    for table in ("queries", "labels"):
        column = sa.Column(
            "is_repeat", sa.Boolean(), nullable=False, server_default=sa.false()
        )
        op.add_column(table, column)
    op.add_column("queries", sa.Column("erased_at", INSTANT))
    op.add_column("labels", sa.Column("source_label_id", BIG))
    op.add_column(
        "versions", sa.Column("repeats", BIG, nullable=False, server_default="0")
    )
    op.add_column(
        "detectors",
        sa.Column("added_classes", sa.Text(), nullable=False, server_default="[]"),
    )
    op.create_index(
        FIRSTS,
        "queries",
        ["detector_id", "input", "version_id"],
        sqlite_where=FIRST,
        postgresql_where=FIRST,
    )
    op.create_table(
        "input_locks",
        sa.Column("detector_id", BIG, autoincrement=False, nullable=False),
        sa.Column("number", BIG, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("detector_id", "number", name="pk_input_locks"),
        sqlite_with_rowid=False,
    )
    _drop_triggers()
    _make_triggers(f"UPDATE OF {FIXED}")
    _keep_notes()


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER labels_no_new_note")
    else:
        op.execute("DROP TRIGGER labels_no_new_note ON labels")
    _drop_triggers()
    op.drop_table("input_locks")
    op.drop_index(FIRSTS, "queries")
    op.drop_column("detectors", "added_classes")
    op.drop_column("versions", "repeats")
    op.drop_column("labels", "source_label_id")
    op.drop_column("queries", "erased_at")
    for table in ("queries", "labels"):
        op.drop_column(table, "is_repeat")
    _make_triggers("UPDATE")


def _tables() -> list[str]:
    return ["labels", *(f"labels_p{number:02}" for number in range(PARTITIONS))]


def _drop_triggers() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER labels_no_update")
        return
    for table in _tables():
        op.execute(f"DROP TRIGGER {table}_append_only ON {table}")


def _make_triggers(update: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            f"CREATE TRIGGER labels_no_update BEFORE {update} ON labels "
            "BEGIN SELECT RAISE(ABORT, 'labels is append-only'); END"
        )
        return
    for table in _tables():
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE {update} OR DELETE OR TRUNCATE "
            f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def _keep_notes() -> None:
    """Let a note be taken away, and never another be put in its place."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "CREATE TRIGGER labels_no_new_note BEFORE UPDATE OF note ON labels "
            "WHEN NEW.note IS NOT NULL "
            "BEGIN SELECT RAISE(ABORT, 'labels is append-only'); END"
        )
        return
    # On a table of partitions it holds for each of them.
    op.execute(
        "CREATE TRIGGER labels_no_new_note BEFORE UPDATE OF note ON labels "
        "FOR EACH ROW WHEN (NEW.note IS NOT NULL) EXECUTE FUNCTION refuse_change()"
    )
