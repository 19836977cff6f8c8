"""Tags: what people marked queries with, to find them again."""

import json
from collections.abc import Collection
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, bindparam, cast, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Session

from tracker.storage.dialect import is_sqlite
from tracker.storage.queries.queries import Query

# Nobody chooses from more combinations of tags.
_MOST = 1_000


def load_tags(stored: str | None) -> list[str]:
    found: list[str] = [] if stored is None else json.loads(stored)
    return found


def dump_tags(tags: Collection[str]) -> str | None:
    return json.dumps(sorted(set(tags)), ensure_ascii=False) if tags else None


def has_tag(session: Session, tag: str) -> list[ColumnElement[bool]]:
    """Return the conditions that a query is marked with *tag*."""
    test: Any
    if is_sqlite(session):
        each = func.json_each(Query.tags).table_valued("value")
        found = select(literal(1)).select_from(each).where(each.c.value == tag)
        test = found.correlate(Query).exists()
    else:
        test = cast(Query.tags, JSONB).has_key(tag)
    # By this condition the index of the queries with a tag is used.
    return [Query.tags.is_not(None), test]


# Built once: every list of queries asks this.
_IN_USE = (
    select(Query.tags)
    .where(Query.detector_id == bindparam("detector_id"), Query.tags.is_not(None))
    .distinct()
    .limit(_MOST)
)


def list_tags(session: Session, detector_id: int) -> list[str]:
    found = session.scalars(_IN_USE, {"detector_id": detector_id})
    return sorted(set(chain.from_iterable(map(load_tags, found))))
