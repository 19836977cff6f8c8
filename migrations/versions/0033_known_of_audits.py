"""Find the labels that an audit knows by the round from which they count.

By the audit alone SQLite took the primary key instead, and read the whole set.
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"

INDEX, TABLE = "ix_audit_items_audit_id_known", "audit_items"
KNOWN = sa.text("known_from IS NOT NULL")


def upgrade() -> None:
    _index("audit_id", "known_from")


def downgrade() -> None:
    _index("audit_id")


def _index(*columns: str) -> None:
    op.drop_index(INDEX, TABLE)
    op.create_index(
        INDEX, TABLE, [*columns], sqlite_where=KNOWN, postgresql_where=KNOWN
    )
