"""What several people said of the same queries."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tracker.storage.base import on_postgresql
from tracker.storage.labelling.rechecks import Recheck
from tracker.storage.labels import Label, is_of_query
from tracker.storage.queries.queries import Query
from tracker.words import TARGETED


def list_rechecked(session: Session, detector_id: int) -> Sequence[Any]:
    """Return the labels that were given a second time, as they were answered.

    Each row has ``labeler`` and ``label`` of the first, ``second``, ``answer`` and
    ``is_trusted`` of the second label.  Those of one input in several versions stand
    in it once.
    """
    near = on_postgresql(Label.detector_id == Recheck.detector_id)
    source = Label.source_label_id
    statement = (
        select(
            Label.id,
            source.label("source_id"),
            Label.labeler,
            Recheck.label,
            Recheck.labeler.label("second"),
            Recheck.answer,
            Recheck.is_trusted,
        )
        .join(Label, (Label.id == Recheck.label_id) & near)
        .where(Recheck.detector_id == detector_id, Recheck.answered_at.is_not(None))
        .order_by(Recheck.answered_at, Recheck.query_id)
    )
    once = {row.source_id or row.id: row for row in session.execute(statement)}
    return list(once.values())


def list_words(session: Session, detector_id: int, *, limit: int) -> Sequence[Any]:
    """Return the labels of the newest *limit* queries that several people labelled.

    Each row has ``query_id``, ``agreement`` and ``is_current``, ``labeler`` and
    ``label`` of the label; those of a query in the order they were given.
    """
    newest = (
        select(Query.id)
        .where(
            Query.detector_id == detector_id,
            Query.agreement.is_not(None),
            ~Query.is_repeat,
        )
        .order_by(Query.id.desc())
        .limit(limit)
    )
    statement = (
        select(
            Label.query_id,
            Query.agreement,
            (Query.label_id == Label.id).label("is_current"),
            Label.labeler,
            Label.label,
        )
        .join(Query, is_of_query())
        .where(
            Query.detector_id == detector_id,
            Query.id.in_(newest),
            Label.sampling != TARGETED,
            Label.source_label_id.is_(None),
        )
        .order_by(Label.query_id, Label.id)
    )
    return session.execute(statement).all()
