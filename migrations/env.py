"""Run the migrations inside one transaction on either database."""

from alembic import context
from sqlalchemy import Connection, Engine, text

from tracker.storage.operations.schema import metadata

# Any number: it only keeps two migrating processes apart.
_ADVISORY_LOCK = 7_261_001


def _migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        compare_server_default=True,
        # Indexes of metadata differ between the databases, and between detectors.
        include_name=lambda name, *_: not str(name).startswith("ix_queries_metadata"),
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
