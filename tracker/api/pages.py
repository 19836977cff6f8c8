"""A page of a list, and the address of the one after it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import request, url_for

Item = TypeVar("Item")


def dump_page(
    found: Sequence[Item],
    limit: int,
    dump: Callable[[Item], dict[str, Any]],
    place: Callable[[Item], str],
) -> dict[str, Any]:
    """Return the page of the first *limit* of *found* as JSON.

    The caller looked for one more than *limit*, which tells whether there is
    another page; *place* says where an item stands in the list.
    """
    items = found[:limit]
    after = place(items[-1]) if len(found) > limit else None
    return {"items": [dump(item) for item in items], "next": next_address(after)}


def next_address(after: str | None) -> str | None:
    """Return this address with *after* in it, None for None."""
    if after is None:
        return None
    # Flask's own address of a request leaves a % in a name as it is.
    address = url_for(
        str(request.endpoint), _external=True, **(request.view_args or {})
    )
    return f"{address}?{urlencode({**request.args.to_dict(), 'after': after})}"
