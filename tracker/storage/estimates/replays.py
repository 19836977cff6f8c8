"""The inputs that were labelled at random for other versions, to be replayed."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tracker.storage.base import on_postgresql, stream
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, has_standing

_OLD, _NEW, _ANY = aliased(Query), aliased(Query), aliased(Query)


def iter_replayable(
    session: Session,
    detector_id: int,
    version_id: int,
    *,
    standings: Collection[str],
) -> Iterator[Any]:
    """Yield the queries of a version whose inputs were labelled at random, as rows.

    They are those with a label of one of *standings*; of an input the first one.
    """
    statement = select(_OLD.id, _OLD.input, _OLD.group, _OLD.key)
    chosen = _labelled(detector_id, standings)
    yield from stream(session, statement.where(*chosen, _OLD.version_id == version_id))


def iter_replayed(
    session: Session,
    detector_id: int,
    version_id: int,
    *,
    standings: Collection[str],
) -> Iterator[Any]:
    """Yield the same of all other versions, by id, with what one version said.

    ``version_id``, ``label`` and when the input was first labelled by any version's
    query, and ``predicted`` and ``asked``, when the query of the one version arrived;
    both are None of an input that it was not put to.
    """
    first_label = (
        select(func.min(Label.created_at))
        .join(_ANY, _ANY.id == Label.query_id)
        .where(
            _ANY.detector_id == detector_id,
            _ANY.input == _OLD.input,
            on_postgresql(Label.detector_id == detector_id),
        )
        .correlate(_OLD)
        .scalar_subquery()
    )
    is_same = and_(
        _NEW.detector_id == detector_id,
        _NEW.input == _OLD.input,
        _NEW.version_id == version_id,
        ~_NEW.is_repeat,
    )
    statement = (
        select(
            _OLD.id,
            _OLD.input,
            _OLD.group,
            _OLD.key,
            _OLD.version_id,
            _OLD.label,
            _NEW.predicted,
            _NEW.created_at.label("asked"),
            first_label.label("labelled"),
        )
        .outerjoin(_NEW, is_same)
        .where(*_labelled(detector_id, standings), _OLD.version_id != version_id)
        .order_by(_OLD.id)
    )
    yield from stream(session, statement)


def _labelled(detector_id: int, standings: Collection[str]) -> tuple[Any, ...]:
    return (
        _OLD.detector_id == detector_id,
        _OLD.input.is_not(None),
        ~_OLD.is_repeat,
        has_standing(_OLD, standings),
    )
