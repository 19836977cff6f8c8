"""Queries and labels in partitions by detector on PostgreSQL.

A hundred million labels are more than one table and its indexes can be vacuumed,
rebuilt or held in memory well.  PostgreSQL divides both tables by a hash of the
detector.  A label therefore says its detector, which must be that of its query, and so
do reservations and skips; on SQLite too, where the tables stay whole.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

PARTITIONS = 8
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)
REFERRING = ("labels", "reservations", "skips")
UNLABELLED, RANKED = sa.text("label IS NULL"), sa.text("audit_rank IS NOT NULL")
GIVEN, COMPARED = sa.text("input IS NOT NULL"), sa.text("agreement IS NOT NULL")
# Name, columns and what is true of the rows in it.
QUERY_INDEXES = (
    ("detector_id_label_predicted_id", "detector_id, label, predicted, id", None),
    ("detector_id_asked_at", "detector_id, asked_at", None),
    ("detector_id_id_unlabelled", "detector_id, id", UNLABELLED),
    ("detector_id_audit_rank_waiting", "detector_id, audit_rank", RANKED),
    ("detector_id_confidence_unlabelled", "detector_id, confidence, id", UNLABELLED),
    ("created_at_id_unlabelled", "created_at, id", UNLABELLED),
    ("detector_id_input_label_given", "detector_id, input, label", GIVEN),
    ("detector_id_agreement_compared", "detector_id, agreement, id", COMPARED),
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        _replace_index(unique=True)
        _move_labels(has_detector=True)
        op.drop_table("labels")
        op.rename_table("new_labels", "labels")
        op.create_index("ix_labels_query_id", "labels", ["query_id"])
        _refuse_changes_on_sqlite()
    else:
        for table in REFERRING:
            op.drop_constraint(f"fk_{table}_query_id_queries", table)
        _move(partitions=PARTITIONS)
    for table in ("reservations", "skips"):
        _add_detector(table)


def downgrade() -> None:
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for table in ("reservations", "skips"):
        with op.batch_alter_table(table) as batch:
            batch.drop_constraint(
                f"fk_{table}_query_id_detector_id_queries", type_="foreignkey"
            )
            batch.drop_column("detector_id")
    if is_sqlite:
        _move_labels(has_detector=False)
        op.drop_table("labels")
        op.rename_table("new_labels", "labels")
        op.create_index("ix_labels_query_id", "labels", ["query_id"])
        _refuse_changes_on_sqlite()
        _replace_index(unique=False)
    else:
        _move(partitions=0)
    for table in REFERRING[is_sqlite:]:
        with op.batch_alter_table(table) as batch:
            batch.create_foreign_key(
                f"fk_{table}_query_id_queries", "queries", ["query_id"], ["id"]
            )


def _add_detector(table: str) -> None:
    with op.batch_alter_table(table) as batch:
        batch.add_column(sa.Column("detector_id", BIG))
        if op.get_bind().dialect.name == "sqlite":
            batch.drop_constraint(f"fk_{table}_query_id_queries", type_="foreignkey")
    op.execute(
        f"UPDATE {table} SET detector_id ="
        f" (SELECT q.detector_id FROM queries AS q WHERE q.id = {table}.query_id)"
    )
    with op.batch_alter_table(table) as batch:
        batch.alter_column("detector_id", existing_type=BIG, nullable=False)
        batch.create_foreign_key(
            f"fk_{table}_query_id_detector_id_queries",
            "queries",
            ["query_id", "detector_id"],
            ["id", "detector_id"],
        )


def _replace_index(*, unique: bool) -> None:
    """Make the two that others refer to unique, or not so again."""
    name = "ix_queries_detector_id_id"
    op.drop_index(name, "queries")
    op.create_index(name, "queries", ["detector_id", "id"], unique=unique)


def _label_columns(*, has_detector: bool) -> list[sa.Column]:
    return [
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        *([sa.Column("detector_id", BIG, nullable=False)] if has_detector else []),
        sa.Column("replaces_id", BIG),
        sa.Column("label", NAME, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("labeler", sa.Text(), nullable=False),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')", name="ck_labels_sampling"
        ),
    ]


def _copy_labels(*, has_detector: bool) -> None:
    """In the order of their ids, so that labels of a batch lie side by side again."""
    detector = "q.detector_id, " if has_detector else ""
    # Without CROSS, SQLite might begin with the queries and sort.
    source = (
        "labels AS l CROSS JOIN queries AS q WHERE q.id = l.query_id"
        if has_detector
        else "labels AS l"
    )
    op.execute(
        f"INSERT INTO new_labels SELECT l.id, l.query_id, {detector}l.replaces_id,"
        " l.label, l.sampling, l.note, l.labeler, l.labelled_at, l.created_at"
        f" FROM {source} ORDER BY l.id"
    )


def _move_labels(*, has_detector: bool) -> None:
    """Copy the labels of SQLite, which cannot give a full table one more NOT NULL."""
    columns = ["query_id", *(["detector_id"] if has_detector else [])]
    op.create_table(
        "new_labels",
        *_label_columns(has_detector=has_detector),
        sa.PrimaryKeyConstraint("id", name="pk_labels"),
        sa.ForeignKeyConstraint(
            columns,
            [f"queries.{name.removeprefix('query_')}" for name in columns],
            name=f"fk_labels_{'_'.join(columns)}_queries",
        ),
    )
    _copy_labels(has_detector=has_detector)


def _refuse_changes_on_sqlite() -> None:
    for action in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER labels_no_{action.lower()} BEFORE {action} ON labels "
            "BEGIN SELECT RAISE(ABORT, 'labels is append-only'); END"
        )


def _move(*, partitions: int) -> None:
    """Copy both tables of PostgreSQL into new ones; zero partitions are a plain table.

    Whatever is indexed or checked comes once the rows are there, all at a time.
    """
    by = "HASH (detector_id)" if partitions else None
    labels = _label_columns(has_detector=bool(partitions))
    op.create_table("new_queries", *_query_columns(), postgresql_partition_by=by)
    op.create_table("new_labels", *labels, postgresql_partition_by=by)
    for table in ("queries", "labels"):
        for number in range(partitions):
            op.execute(
                f"CREATE TABLE {_part(table, number)} PARTITION OF new_{table}"
                f" FOR VALUES WITH (MODULUS {partitions}, REMAINDER {number})"
            )
    op.execute("INSERT INTO new_queries SELECT * FROM queries ORDER BY id")
    _copy_labels(has_detector=bool(partitions))
    for table in ("labels", "queries"):
        op.drop_table(table)
        op.rename_table(f"new_{table}", table)
    _index_queries(is_partitioned=bool(partitions))
    op.create_index("ix_labels_query_id", "labels", ["query_id"])
    for number in range(partitions):
        _guard_partition(number)
    if not partitions:
        op.create_primary_key("pk_queries", "queries", ["id"])
        op.create_primary_key("pk_labels", "labels", ["id"])
    _refuse_changes("labels")
    op.execute("ANALYZE queries, labels")


def _query_columns() -> list[sa.Column]:
    return [
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("key", NAME),
        sa.Column("input", NAME),
        sa.Column("predicted", NAME, nullable=False),
        sa.Column("confidence", sa.Double()),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("metadata", sa.Text()),
        sa.Column("image", sa.Text()),
        sa.Column("image_url", sa.Text()),
        sa.Column("label_id", BIG),
        sa.Column("label", NAME),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("audit_rank", sa.Double()),
        sa.Column("agreement", sa.Text()),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1", name="ck_queries_confidence"
        ),
    ]


def _index_queries(*, is_partitioned: bool) -> None:
    op.create_index(
        "ix_queries_detector_id_id",
        "queries",
        ["detector_id", "id"],
        unique=is_partitioned,
    )
    op.create_unique_constraint(
        "uq_queries_detector_id_key", "queries", ["detector_id", "key"]
    )
    for name, columns, condition in QUERY_INDEXES:
        op.create_index(
            f"ix_queries_{name}",
            "queries",
            columns.split(", "),
            postgresql_where=condition,
        )
    for column, other in (("detector_id", "detectors"), ("version_id", "versions")):
        op.create_foreign_key(
            f"fk_queries_{column}_{other}", "queries", other, [column], ["id"]
        )


def _part(table: str, number: int) -> str:
    return f"{table}_p{number:02}"


def _guard_partition(number: int) -> None:
    """Give a pair of partitions what only each of them can have.

    A primary key over both would have to hold the detector too, which takes more room
    and says less.  A foreign key from all labels to all queries would be planned again
    for every label and take several times as long; both are divided alike, so the
    query of a label lies in the partition of the same number.  And a trigger on the
    whole does not notice who changes a part of it.
    """
    queries, labels = _part("queries", number), _part("labels", number)
    for table in (queries, labels):
        op.create_primary_key(f"pk_{table}", table, ["id"])
    op.create_foreign_key(
        f"fk_{labels}_query_id_detector_id_{queries}",
        labels,
        queries,
        ["query_id", "detector_id"],
        ["id", "detector_id"],
    )
    _refuse_changes(labels)


def _refuse_changes(table: str) -> None:
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        f"ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
    )
