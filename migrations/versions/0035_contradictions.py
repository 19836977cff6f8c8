"""Mark inputs whose queries have contradicting labels as disputed.

Since labels are shared by all queries with one input, two of them cannot differ.
Labels from before that could, and nothing said so: each version was scored by its own
label, and a comparison took that of the older version.  An editor settles what is
disputed, and what the editor says is given to all queries with the input.
"""

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    op.execute(
        "UPDATE queries SET agreement = 'disputed' "
        "WHERE input IS NOT NULL AND label IS NOT NULL "
        "AND (agreement IS NULL OR agreement = 'agreed') "
        "AND EXISTS (SELECT 1 FROM queries AS other "
        "WHERE other.detector_id = queries.detector_id "
        "AND other.input = queries.input AND other.label <> queries.label)"
    )


def downgrade() -> None:
    """Leave them disputed: nothing tells them from those that people dispute."""
