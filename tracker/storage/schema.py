"""The schema: bringing it up to date, and saying whether it is."""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

# Importing the tables is what makes the metadata complete.
from tracker.files import shipped_folder
from tracker.storage import (  # noqa: F401
    accounts,
    answers,
    api_keys,
    audit,
    counts,
    detectors,
    import_pieces,
    imports,
    job_runs,
    labels,
    leases,
    pending,
    queries,
    reservations,
    sign_ins,
    snapshots,
    studies,
)
from tracker.storage.base import Base
from tracker.storage.database import Database

metadata = Base.metadata


def alembic_config(database: Database) -> Config:
    """Return Alembic's configuration for *database*."""
    config = Config()
    config.set_main_option("script_location", str(shipped_folder("migrations")))
    config.attributes["engine"] = database.engine
    return config


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to *revision*; two at once are harmless."""
    command.upgrade(alembic_config(database), revision)


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to *revision*; what newer tables held is lost."""
    command.downgrade(alembic_config(database), revision)


def current_revision(database: Database) -> str | None:
    """Return the revision that the database is at, None if it is empty."""
    with database.engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head_revision() -> str:
    """Return the newest revision that this version of the program knows."""
    config = Config()
    config.set_main_option("script_location", str(shipped_folder("migrations")))
    head = ScriptDirectory.from_config(config).get_current_head()
    assert head is not None
    return head
