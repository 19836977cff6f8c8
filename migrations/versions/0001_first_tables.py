"""The first tables.

Queries with their current label, labels that are only ever added, pending
batches for the job, its running counts, and the snapshots that make the history.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True)


def _foreign_key(table: str, column: str, other: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{other}.id"], name=f"fk_{table}_{column}_{other}"
    )


def upgrade() -> None:
    _create_detectors()
    _create_queries_and_labels()
    _create_the_tables_of_the_job()
    _create_snapshots()
    op.create_table(
        "api_keys",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("revoked_at", INSTANT),
        sa.UniqueConstraint("name", name="uq_api_keys_name"),
        sa.UniqueConstraint("digest", name="uq_api_keys_digest"),
        sa.CheckConstraint(
            "role IN ('viewer', 'labeler', 'editor', 'admin')", name="ck_api_keys_role"
        ),
        sqlite_autoincrement=True,
    )


def _create_detectors() -> None:
    op.create_table(
        "detectors",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("name", NAME, nullable=False),
        sa.Column("question", NAME, nullable=False),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("target", sa.Double()),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("archived_at", INSTANT),
        sa.Column("revision", BIG, nullable=False),
        sa.CheckConstraint(
            "confidence_level > 0 AND confidence_level < 1", name="ck_detectors_level"
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "uq_detectors_name_unarchived",
        "detectors",
        ["name"],
        unique=True,
        sqlite_where=sa.text("archived_at IS NULL"),
        postgresql_where=sa.text("archived_at IS NULL"),
    )
    op.create_table(
        "versions",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("queries", BIG, nullable=False),
        sa.Column("corrections", BIG, nullable=False),
        sa.Column("last_label_at", INSTANT),
        sa.Column("next_checkpoint", BIG, nullable=False),
        sa.Column("next_joint", BIG, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.UniqueConstraint("detector_id", "name", name="uq_versions_detector_id_name"),
        _foreign_key("versions", "detector_id", "detectors"),
        sqlite_autoincrement=True,
    )


def _create_queries_and_labels() -> None:
    op.create_table(
        "queries",
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
        sa.PrimaryKeyConstraint("id", name="pk_queries"),
        sa.UniqueConstraint("detector_id", "key", name="uq_queries_detector_id_key"),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1", name="ck_queries_confidence"
        ),
        _foreign_key("queries", "detector_id", "detectors"),
        _foreign_key("queries", "version_id", "versions"),
    )
    for columns in (["id"], ["label", "predicted", "id"], ["asked_at"]):
        name = "_".join(["ix_queries_detector_id", *columns])
        op.create_index(name, "queries", ["detector_id", *columns])
    op.create_index(
        "ix_queries_detector_id_input_given",
        "queries",
        ["detector_id", "input"],
        sqlite_where=sa.text("input IS NOT NULL"),
        postgresql_where=sa.text("input IS NOT NULL"),
    )
    op.create_index(
        "ix_queries_detector_id_id_unlabelled",
        "queries",
        ["detector_id", "id"],
        sqlite_where=sa.text("label IS NULL"),
        postgresql_where=sa.text("label IS NULL"),
    )
    op.create_table(
        "labels",
        sa.Column("id", BIG, autoincrement=False, nullable=False),
        sa.Column("query_id", BIG, nullable=False),
        sa.Column("replaces_id", BIG),
        sa.Column("label", NAME, nullable=False),
        sa.Column("sampling", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("labeler", sa.Text(), nullable=False),
        sa.Column("labelled_at", INSTANT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_labels"),
        sa.CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')", name="ck_labels_sampling"
        ),
        _foreign_key("labels", "query_id", "queries"),
    )
    op.create_index("ix_labels_query_id", "labels", ["query_id"])


def _create_the_tables_of_the_job() -> None:
    op.create_table(
        "pending_batches",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        _foreign_key("pending_batches", "detector_id", "detectors"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_pending_batches_detector_id_id", "pending_batches", ["detector_id", "id"]
    )
    op.create_table(
        "counts",
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("label", NAME, nullable=False),
        sa.Column("predicted", NAME, nullable=False),
        sa.Column("is_targeted", sa.Boolean(), nullable=False),
        sa.Column("number", BIG, nullable=False),
        sa.PrimaryKeyConstraint(
            "version_id", "label", "predicted", "is_targeted", name="pk_counts"
        ),
        sa.CheckConstraint("number >= 0", name="ck_counts_number"),
        _foreign_key("counts", "version_id", "versions"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "job_runs",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("detector_id", BIG, nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("batches", BIG, nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("snapshots", BIG, nullable=False),
        sa.Column("error", sa.Text()),
        sa.CheckConstraint("outcome IN ('done', 'failed')", name="ck_job_runs_outcome"),
        _foreign_key("job_runs", "detector_id", "detectors"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_runs_detector_id_id", "job_runs", ["detector_id", "id"])
    op.create_table(
        "heartbeats",
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("worker", name="pk_heartbeats"),
    )


def _create_snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("id", BIG, primary_key=True),
        sa.Column("version_id", BIG, nullable=False),
        sa.Column("sequence", BIG, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("computed_at", INSTANT, nullable=False),
        sa.Column("job_run_id", BIG, nullable=False),
        sa.Column("confidence_level", sa.Double(), nullable=False),
        sa.Column("labels", BIG, nullable=False),
        sa.Column("unclear", BIG, nullable=False),
        sa.Column("targeted_left_out", BIG, nullable=False),
        sa.UniqueConstraint(
            "version_id", "sequence", name="uq_snapshots_version_id_sequence"
        ),
        sa.CheckConstraint("kind IN ('checkpoint', 'run')", name="ck_snapshots_kind"),
        _foreign_key("snapshots", "version_id", "versions"),
        _foreign_key("snapshots", "job_run_id", "job_runs"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_snapshots_version_id_kind_sequence",
        "snapshots",
        ["version_id", "kind", "sequence"],
    )
    op.create_table(
        "snapshot_intervals",
        sa.Column("snapshot_id", BIG, nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.Column("correct", BIG, nullable=False),
        sa.Column("labelled", BIG, nullable=False),
        sa.Column("accuracy", sa.Double()),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint(
            "snapshot_id", "method", "position", name="pk_snapshot_intervals"
        ),
        _foreign_key("snapshot_intervals", "snapshot_id", "snapshots"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    for table in (
        "api_keys",
        "snapshot_intervals",
        "snapshots",
        "heartbeats",
        "job_runs",
        "counts",
        "pending_batches",
        "labels",
        "queries",
        "versions",
        "detectors",
    ):
        op.drop_table(table)
