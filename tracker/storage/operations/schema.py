"""Upgrading and checking the schema."""

from functools import lru_cache
from importlib import import_module
from pkgutil import walk_packages

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tracker import storage
from tracker.errors import ConfigurationError
from tracker.files import shipped_folder
from tracker.storage.base import Base
from tracker.storage.database import (
    DATABASE_ERRORS,
    Database,
    find_unavailable,
    first_line,
)

# Importing the tables completes the metadata.
for _module in walk_packages(storage.__path__, "tracker.storage."):
    if ".operations" not in _module.name:
        import_module(_module.name)
metadata = Base.metadata
_FORBIDDEN = "42501"


def alembic_config(database: Database | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(shipped_folder("migrations")))
    if database is not None:
        config.attributes["engine"] = database.engine
    return config


def upgrade(database: Database, revision: str = "head") -> None:
    """Upgrade the schema; two upgrades at once are harmless.

    Raises ConfigurationError if that cannot be done.
    """
    current = current_revision(database)
    if current is not None and not _is_known(current):
        raise ConfigurationError(_describe(current))
    try:
        command.upgrade(alembic_config(database), revision)
    except DATABASE_ERRORS as error:
        found = find_unavailable(error)
        if found is not None:
            raise found from error
        if getattr(getattr(error, "orig", None), "sqlstate", None) != _FORBIDDEN:
            raise
        raise ConfigurationError(
            f"the database does not let its user create tables ({first_line(error)}); "
            "make that user its owner"
        ) from error


def current_revision(database: Database) -> str | None:
    with database.read() as session:
        context = MigrationContext.configure(session.connection())
        return context.get_current_revision()


def head_revision() -> str:
    head = _scripts().get_current_head()
    assert head is not None
    return head


def find_mismatch(database: Database) -> str | None:
    """Return why this program cannot use *database*, and what to do."""
    current = current_revision(database)
    return None if current == head_revision() else _describe(current)


def _describe(current: str | None) -> str:
    head = head_revision()
    if current is None:
        return "the database is empty: run tracker db upgrade"
    if _is_known(current):
        return (
            f"the database is at revision {current} and older than this program, which "
            f"is at {head}: run tracker db upgrade"
        )
    return (
        f"the database is at revision {current} and newer than this program, which is "
        f"at {head}: install the version of the program that upgraded it"
    )


def _is_known(revision: str) -> bool:
    return revision in {script.revision for script in _scripts().walk_revisions()}


@lru_cache(maxsize=1)
def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(alembic_config())
