"""The inputs that were labelled at random for other versions, to be replayed."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import ColumnElement, and_, func, null, select
from sqlalchemy.orm import Session, aliased

from tracker.storage.base import on_postgresql, stream
from tracker.storage.labelling.references import Reference
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, has_standing
from tracker.words import UNCLEAR

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

    ``version_id``, ``label`` and when the input was first ``labelled`` by any version's
    query or ``referred`` to, and ``predicted`` and ``asked``, when the query of the one
    version arrived; these are None of an input that it was not put to.  References
    follow, of the version None.
    """
    said = (_NEW.predicted, _NEW.created_at.label("asked"))
    referred = (
        select(Reference.created_at)
        .where(Reference.detector_id == detector_id, Reference.input == _OLD.input)
        .scalar_subquery()
    )
    queries = (
        select(_OLD.id, _OLD.input, _OLD.group, _OLD.key, _OLD.version_id, _OLD.label)
        .add_columns(*said, _first_label(detector_id), referred.label("referred"))
        .outerjoin(_NEW, _is_put_to(_OLD.input, detector_id, version_id))
        .where(*_labelled(detector_id, standings), _OLD.version_id != version_id)
    )
    yield from stream(session, queries.order_by(_OLD.id))
    nothing = (null().label("group"), null().label("version_id"))
    references = (
        select(Reference.input, Reference.label, *nothing, *said)
        .add_columns(null().label("labelled"), Reference.created_at.label("referred"))
        .outerjoin(_NEW, _is_put_to(Reference.input, detector_id, version_id))
        .where(
            Reference.detector_id == detector_id,
            Reference.sampling.in_(sorted(standings)),
            Reference.label != UNCLEAR,
        )
    )
    yield from stream(session, references.order_by(Reference.input))


def _is_put_to(name: Any, detector_id: int, version_id: int) -> ColumnElement[bool]:
    """Return the condition that the new query is the first of a version with *name*."""
    return and_(
        _NEW.detector_id == detector_id,
        _NEW.version_id == version_id,
        _NEW.input == name,
        ~_NEW.is_repeat,
    )


def _first_label(detector_id: int) -> Any:
    """Return when any query with the input of the old one was first labelled."""
    found = select(func.min(Label.created_at)).join(_ANY, _ANY.id == Label.query_id)
    chosen = found.where(
        _ANY.detector_id == detector_id,
        _ANY.input == _OLD.input,
        on_postgresql(Label.detector_id == detector_id),
    )
    return chosen.correlate(_OLD).scalar_subquery().label("labelled")


def _labelled(detector_id: int, standings: Collection[str]) -> tuple[Any, ...]:
    return (
        _OLD.detector_id == detector_id,
        _OLD.input.is_not(None),
        ~_OLD.is_repeat,
        has_standing(_OLD, standings),
    )
