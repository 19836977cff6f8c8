"""Marking queries with tags."""

from typing import Annotated

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.detectors import get_open_detector
from tracker.services.fields import Input, VersionWanted
from tracker.services.queries.queries import check_is_there, get_query
from tracker.storage.base import dump_id
from tracker.storage.queries.queries import Query, dump_tags, lock_query

MOST = 20
# A name of at most 100 letters, like that of a version.
Tag = VersionWanted


class NewTags(Input):
    """All tags of a query from now on."""

    tags: Annotated[list[Tag], Field(max_length=MOST)] = Field(
        description=f"At most {MOST}; an empty list removes all tags. A tag given "
        "twice counts once."
    )


def set_tags(session: Session, query_id: str, new: NewTags) -> Query:
    """Mark a query with the tags given, and with no others."""
    query = get_query(session, query_id)
    get_open_detector(session, dump_id("det", query.detector_id))
    query = lock_query(session, query.detector_id, query.id) or query
    check_is_there(query)
    query.tags = dump_tags(new.tags)
    session.flush()
    return query
