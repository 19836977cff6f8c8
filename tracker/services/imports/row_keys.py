"""Keys of rows that have none: the file that a row came in, and its place there."""

import re

_KEY = re.compile(r"import-[0-9a-f]{16}-([0-9]+)")


def key_prefix(digest: str) -> str:
    """Return how the keys begin for the file of *digest*; the row's number follows."""
    return f"import-{digest[:16]}-"


def row_number(key: str) -> int | None:
    """Return which row of its file *key* was made up for, None for any other key."""
    found = _KEY.fullmatch(key)
    return None if found is None else int(found[1])
