"""What was counted by the day on which queries were asked.

Of the labels that the job has folded in: it goes on from there.
"""

from collections import defaultdict

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DAYS = {
    "sqlite": "substr(queries.asked_at, 1, 10)",
    "postgresql": "to_char(timezone('UTC', queries.asked_at), 'YYYY-MM-DD')",
}
# Each label that was folded in counts one more, and one less of what it replaced.  An
# id is that of its batch times 2**24 and more.
COUNTED = (
    "SELECT queries.version_id, {day} AS day, {of}.label, queries.predicted,"
    " {of}.sampling, {of}.is_repeat, count(*) FROM labels"
    " {replaced}JOIN queries ON queries.id = labels.query_id"
    " AND queries.detector_id = labels.detector_id"
    " WHERE labels.id / 16777216 NOT IN (SELECT id FROM pending_batches)"
    " AND labels.id / 16777216 NOT IN (SELECT id FROM staged_batches)"
    " GROUP BY 1, 2, 3, 4, 5, 6"
)
REPLACED = (
    "JOIN labels AS replaced ON replaced.id = labels.replaces_id"
    " AND replaced.detector_id = labels.detector_id "
)


def upgrade() -> None:
    table = op.create_table(
        "day_counts",
        sa.Column(
            "version_id",
            BIG,
            sa.ForeignKey("versions.id", name="fk_day_counts_version_id_versions"),
            nullable=False,
        ),
        sa.Column("day", NAME, nullable=False),
        sa.Column("cells", sa.JSON(), nullable=False),
        sa.Column("unstated", BIG, nullable=False),
        sa.Column("repeats", BIG, nullable=False),
        sa.PrimaryKeyConstraint("version_id", "day", name="pk_day_counts"),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    day = DAYS[connection.dialect.name]
    days = defaultdict(lambda: {"cells": {}, "unstated": 0, "repeats": 0})
    for sign, of, replaced in ((1, "labels", ""), (-1, "replaced", REPLACED)):
        counted = sa.text(COUNTED.format(day=day, of=of, replaced=replaced))
        for (
            version_id,
            asked,
            label,
            predicted,
            sampling,
            is_repeat,
            number,
        ) in connection.execute(counted):
            row = days[version_id, asked]
            if is_repeat:
                row["repeats"] += sign * number
                continue
            pair = row["cells"].setdefault(label, {}).setdefault(predicted, [0, 0])
            pair[sampling == "targeted"] += sign * number
            if sampling == "unstated" and label != "UNCLEAR":
                row["unstated"] += sign * number
    rows = [
        {"version_id": version_id, "day": asked, **row}
        for (version_id, asked), row in days.items()
    ]
    if rows:
        connection.execute(sa.insert(table), rows)


def downgrade() -> None:
    op.drop_table("day_counts")
