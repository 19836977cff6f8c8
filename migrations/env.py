"""Run the migrations inside one transaction on either database."""

import re

from alembic import context
from sqlalchemy import Connection, Engine, text
from sqlalchemy.schema import SchemaItem

from tracker.storage.operations.schema import metadata

# Any number: it only keeps two migrating processes apart.
_ADVISORY_LOCK = 7_261_001


# On PostgreSQL alone: by metadata, and by ids, which on SQLite number the rows.  On
# SQLite alone: by detector and id, which on PostgreSQL are the primary key.
_NOT_COMPARED = re.compile(
    "ix_queries_metadata.*|ix_(queries|waiting_queries|imports|events)_id"
    "|ix_labels_detector_id_id_given"
)


def _is_compared(
    _item: SchemaItem,
    name: str | None,
    kind: str,
    is_reflected: bool,
    _other: SchemaItem | None,
) -> bool:
    """Return whether an item has to be the same on both databases.

    Indexes of metadata differ between the databases, and between detectors.  What the
    tables call their primary key is on SQLite a unique constraint.
    """
    is_key = (
        is_reflected
        and kind == "unique_constraint"
        and str(name).endswith("_detector_id_id")
    )
    return not is_key and not _NOT_COMPARED.fullmatch(str(name))


def _migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        compare_server_default=True,
        include_object=_is_compared,
    )
    with context.begin_transaction():
        context.run_migrations()


def _run(engine: Engine) -> None:
    with engine.connect() as connection:
        if connection.dialect.name == "sqlite":
            # A batch migration drops and renames tables; with foreign keys on,
            # the drop deletes every child row without a word.  The pragma does
            # nothing inside a transaction, so it goes straight to the driver.
            driver = connection.connection.dbapi_connection
            assert driver is not None
            driver.cursor().execute("PRAGMA foreign_keys=OFF")
            try:
                with connection.begin():
                    _migrate(connection)
                    broken = connection.execute(text("PRAGMA foreign_key_check")).all()
                    if broken:
                        raise RuntimeError(f"the migration left orphans: {broken[:5]}")
            finally:
                driver.cursor().execute("PRAGMA foreign_keys=ON")
        else:
            with connection.begin():
                connection.execute(text("SET LOCAL lock_timeout = '60s'"))
                connection.execute(
                    text("SELECT pg_advisory_xact_lock(:lock)"),
                    {"lock": _ADVISORY_LOCK},
                )
                _migrate(connection)


_run(context.config.attributes["engine"])
