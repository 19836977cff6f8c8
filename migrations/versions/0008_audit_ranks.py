"""Which query is labelled next is decided by a hash, and stands in an index.

The first unlabelled query after an id drawn at random is the likelier drawn the
wider the gap before it.  Now each query that waits has a rank from 0 up to 1, a
hash of its id and of the detector's seed, and labelling follows the ranks.
A query leaves the queue, and its rank is gone, once its label counts.  What came
in as picked on purpose is no part of what is drawn from, and has none.
A reservation says which queue gave its query, as that decides how its label is
marked.
"""

import secrets
from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

# A targeted label may have come with its query, as both then have one id.
WAITING = (
    "(label IS NULL AND sampling <> 'targeted')"
    " OR (sampling = 'targeted' AND label_id <> queries.id)"
)
RANK = (
    "((('x' || substr(encode(sha256(convert_to(audit_seed || ':' || queries.id,"
    " 'UTF8')), 'hex'), 1, 14))::bit(56)::bigint >> 3)::double precision"
    " / 9007199254740992::double precision)"
)


def upgrade() -> None:
    op.add_column(
        "detectors",
        sa.Column("audit_rate", sa.Double, nullable=False, server_default="1"),
    )
    op.add_column(
        "detectors",
        sa.Column("audit_seed", sa.Text, nullable=False, server_default=sa.text("''")),
    )
    op.add_column(
        "reservations",
        sa.Column("queue", sa.Text, nullable=False, server_default=sa.text("'random'")),
    )
    op.add_column("queries", sa.Column("audit_rank", sa.Double, nullable=True))
    _fill()
    waiting = sa.text("audit_rank IS NOT NULL")
    op.create_index(
        "ix_queries_detector_id_audit_rank_waiting",
        "queries",
        ["detector_id", "audit_rank"],
        sqlite_where=waiting,
        postgresql_where=waiting,
    )
    unlabelled = sa.text("label IS NULL")
    op.create_index(
        "ix_queries_detector_id_confidence_unlabelled",
        "queries",
        ["detector_id", "confidence", "id"],
        sqlite_where=unlabelled,
        postgresql_where=unlabelled,
    )


def _fill() -> None:
    bind = op.get_bind()
    for (number,) in bind.execute(sa.text("SELECT id FROM detectors")).all():
        bind.execute(
            sa.text("UPDATE detectors SET audit_seed = :seed WHERE id = :id"),
            {"seed": secrets.token_hex(16), "id": number},
        )
    if bind.dialect.name == "postgresql":
        bind.exec_driver_sql(
            f"UPDATE queries SET audit_rank = {RANK} FROM detectors"
            f" WHERE detectors.id = detector_id AND ({WAITING})"
        )
        return
    # SQLite has no hash of its own, but calls ours.
    driver = bind.connection.dbapi_connection
    driver.create_function("audit_rank", 2, _rank, deterministic=True)
    bind.exec_driver_sql(
        "UPDATE queries SET audit_rank = audit_rank("
        "(SELECT audit_seed FROM detectors WHERE detectors.id = detector_id), id)"
        f" WHERE {WAITING}"
    )


def _rank(seed: str, query_id: int) -> float:
    digest = sha256(f"{seed}:{query_id}".encode()).digest()
    return (int.from_bytes(digest[:7]) >> 3) / 2**53


def downgrade() -> None:
    op.drop_index("ix_queries_detector_id_confidence_unlabelled", "queries")
    op.drop_index("ix_queries_detector_id_audit_rank_waiting", "queries")
    op.drop_column("reservations", "queue")
    op.drop_column("queries", "audit_rank")
    op.drop_column("detectors", "audit_seed")
    op.drop_column("detectors", "audit_rate")
