"""Inserting many rows."""

from sqlalchemy.dialects import postgresql

from tracker.storage.inserting import _BINARY
from tracker.storage.operations.schema import metadata


def test_the_type_of_every_column_can_be_copied() -> None:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    for table in metadata.tables.values():
        for column in table.c:
            assert column.type.compile(dialect).split()[0] in _BINARY, column
