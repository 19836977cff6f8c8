"""Count as corrections only the labels that changed the class.

Where several people label a query, each label takes the place of the one before it.
Those that agreed with it were counted as corrections, and pages warned of them.
"""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"

# Of the labels that were folded in; an id is that of its batch times 2**24 and more.
CORRECTIONS = sa.text(
    "SELECT queries.version_id, count(*) FROM labels"
    " JOIN labels AS replaced ON replaced.id = labels.replaces_id"
    " AND replaced.detector_id = labels.detector_id"
    " JOIN queries ON queries.id = labels.query_id"
    " AND queries.detector_id = labels.detector_id"
    " WHERE labels.label <> replaced.label AND NOT labels.is_repeat"
    " AND labels.id / 16777216 NOT IN (SELECT id FROM pending_batches)"
    " AND labels.id / 16777216 NOT IN (SELECT id FROM staged_batches)"
    " GROUP BY queries.version_id"
)


def upgrade() -> None:
    connection = op.get_bind()
    found = connection.execute(CORRECTIONS).all()
    op.execute("UPDATE versions SET corrections = 0 WHERE corrections > 0")
    for version_id, number in found:
        connection.execute(
            sa.text("UPDATE versions SET corrections = :number WHERE id = :id"),
            {"number": number, "id": version_id},
        )


def downgrade() -> None:
    """Leave them: a count of the other labels that were replaced was of no use."""
