"""Queries and scored labels by the confidence of the prediction."""

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session

from tracker.storage.dialect import floor
from tracker.storage.queries.queries import Query, has_standing

STEPS = 1000
"""Steps from a confidence of 0 to 1; a bin is one of them, so a million queries are
at most a thousand and one rows."""


class ConfidenceBin(NamedTuple):
    """The queries whose confidence lies in one step, and their scored labels.

    *least* is the lowest confidence among them, *confidence* their sum.
    """

    step: int
    least: float
    confidence: float
    queries: int
    correct: int
    labelled: int


def count_confidences(
    session: Session,
    detector_id: int,
    version_ids: Collection[int],
    standings: Collection[str],
    *,
    are_pooled: bool = False,
) -> list[ConfidenceBin]:
    """Return the bins that hold queries of these versions, the lowest first.

    Labels with one of *standings* are counted in them, of versions that *are pooled*
    each input once.
    """
    scored = has_standing(Query, standings)
    if are_pooled:
        scored = and_(scored, Query.is_pooled)
    right = and_(scored, Query.label == Query.predicted)
    step = floor(session, Query.confidence * STEPS).label("step")
    statement = (
        select(
            step,
            func.min(Query.confidence),
            func.sum(Query.confidence),
            func.count(),
            func.sum(case((right, 1), else_=0)),
            func.sum(case((scored, 1), else_=0)),
        )
        .where(Query.detector_id == detector_id)
        .where(Query.version_id.in_(version_ids))
        .where(Query.confidence.is_not(None))
        .group_by(step)
        .order_by(step)
    )
    return [ConfidenceBin(*row) for row in session.execute(statement)]
