"""Keys of rows that have none: the file that a row came in, and its place there."""

import re

from tracker.services.imports.checking import Columns
from tracker.services.imports.reading.rows import Row

_KEY = re.compile(r"import-[0-9a-f]{16}-([0-9]+)")


def key_prefix(digest: str) -> str:
    """Return how the keys begin for the file of *digest*; the row's number follows."""
    return f"import-{digest[:16]}-"


def row_number(key: str) -> int | None:
    """Return which row of its file *key* was made up for, None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else int(found[1])


def keys_of(good: Columns | list[Row], prefix: str) -> list[str]:
    """Return the key of each row; one without has its number behind *prefix*."""
    if isinstance(good, Columns):
        numbered = enumerate(good.get("key"), start=good.first)
        return [key or f"{prefix}{number}" for number, key in numbered]
    return [row.values.get("key") or f"{prefix}{row.number}" for row in good]
