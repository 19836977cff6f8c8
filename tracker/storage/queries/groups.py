"""The groups of queries: which query of each is scored, also when counted again."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, func, or_, select, update
from sqlalchemy.orm import Session

from tracker.storage.base import change_rows, columns_of
from tracker.storage.detectors import Detector
from tracker.storage.inserting import Prepared
from tracker.storage.labels import Label
from tracker.storage.queries.lookup import lock_found, look_up
from tracker.storage.queries.queries import Query
from tracker.words import (
    COUNTED,
    DISPUTED,
    GROUPED,
    OPEN,
    RANDOM,
    REPLAYED,
    REPLAYED_UNSTATED,
    UNSTATED,
)

# Those of a unit: nobody else of its group and population has one of them.
_OF_UNITS = (RANDOM, UNSTATED, REPLAYED, REPLAYED_UNSTATED, OPEN, DISPUTED)


_UNITS = select(
    Query.group, Query.id, Query.version_id, Query.sampling, Query.is_replayed
).where(or_(*(Query.standing == one for one in _OF_UNITS)))
# Built once: every label of a query with a group asks this.
_OF_GROUP = Prepared(
    _UNITS.where(
        Query.detector_id == bindparam("detector_id"),
        or_(Query.group == bindparam("name"), Query.group == bindparam("erased")),
    )
)


def find_units(
    session: Session, detector_id: int, groups: Mapping[str, str]
) -> Sequence[Any]:
    """Return the queries by which *groups*, by the names of erased ones, count."""
    if len(groups) == 1:
        ((erased, name),) = groups.items()
        chosen = {"detector_id": detector_id, "name": name, "erased": erased}
        return _OF_GROUP.run(session, chosen)
    names = [*groups.values(), *groups]
    return look_up(session, detector_id, _UNITS, Query.group, names)


def find_groups_of(
    session: Session, detector_id: int, inputs: Collection[str]
) -> set[str]:
    statement = select(Query.group, Query.input).where(Query.group.is_not(None))
    rows = look_up(session, detector_id, statement, Query.input, [*inputs])
    return {row.group for row in rows}


_QUERIES: Any = Query.__table__
_END = Prepared(
    update(_QUERIES)
    .where(
        Query.detector_id == bindparam("of_detector"),
        # All that wait have ranks in the span of their group.
        Query.queue_rank >= bindparam("low"),
        Query.queue_rank < bindparam("high"),
        Query.group == bindparam("group"),
        Query.version_id == bindparam("version_id"),
        Query.id != bindparam("unit"),
    )
    .values(queue_rank=None)
)


def end_waiting(
    session: Session, detector_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Take the queries of groups out of the random queue, apart from their units."""
    _END.run(session, *({**row, "of_detector": detector_id} for row in rows))


def note_groups(session: Session, detector_id: int) -> None:
    is_new = Detector.id == detector_id, Detector.groups.is_(None)
    change_rows(session, Detector, *is_new, groups=COUNTED)


def list_named(
    session: Session, detector_id: int, *, after: int, limit: int, has_metadata: bool
) -> Sequence[Any]:
    """Return the queries behind *after* with a group, or metadata that may give one."""
    names = Query.group.is_not(None)
    columns = columns_of(
        Query,
        *("id", "key", "input", "group", "is_group_given", "metadata", "label_id"),
        *("sampling", "is_repeat", "queue_rank", "rank"),
    )
    statement = (
        select(*columns)
        .where(Query.detector_id == detector_id, Query.id > after)
        .where(or_(names, Query.details.is_not(None)) if has_metadata else names)
        .where(Query.erased_at.is_(None))
        .order_by(Query.id)
        .limit(limit)
    )
    return session.execute(statement).all()


def list_groups(
    session: Session, detector_id: int, *, after: str, limit: int
) -> list[str]:
    """Return the first groups whose names come behind *after*."""
    statement = (
        select(Query.group)
        .where(Query.detector_id == detector_id, Query.group > after)
        .group_by(Query.group)
        .order_by(Query.group)
        .limit(limit)
    )
    return [str(name) for name in session.scalars(statement)]


def end_counting(session: Session, detector: Detector) -> bool:
    """Note that groups are counted; False if *detector* is no longer as it was."""
    statement = select(Detector).where(Detector.id == detector.id).with_for_update()
    now = session.scalars(statement.execution_options(populate_existing=True)).one()
    said = detector.group_by, detector.label_sampling
    if (now.group_by, now.label_sampling) != said:
        return False
    has_group = Query.detector_id == detector.id, Query.group.is_not(None)
    last = session.scalar(select(func.max(Query.id)).where(*has_group))
    now.groups = None if last is None else COUNTED
    return True


_MEMBER = columns_of(
    Query,
    *("id", "version_id", "key", "input", "group", "label", "label_id", "sampling"),
    *("standing", "agreement", "is_replayed", "is_repeat", "erased_at"),
)


def lock_answered(
    session: Session, detector_id: int, groups: Collection[str]
) -> Sequence[Any]:
    statement = select(*_MEMBER).where(Query.label_id.is_not(None))
    return lock_found(session, detector_id, statement, Query.group, [*groups])


def lock_left(session: Session, detector_id: int, *, limit: int) -> Sequence[Any]:
    """Return some queries as rows, locked, that are in no group any more."""
    statement = (
        select(*_MEMBER)
        .where(Query.detector_id == detector_id)
        .where(Query.standing == GROUPED, Query.group.is_(None))
        .order_by(Query.id)
        .limit(limit)
        .with_for_update(key_share=True)
    )
    return session.execute(statement).all()


def list_labels_of(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[Any]:
    statement = select(*Label.__table__.c)
    rows = look_up(session, detector_id, statement, Label.query_id, query_ids)
    return sorted(rows, key=lambda row: int(row.id))
