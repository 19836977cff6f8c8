"""Labels that have a weight, summed up."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, has_standing
from tracker.words import SAMPLINGS


def sum_weights(
    session: Session, detector_id: int, version_ids: Sequence[int]
) -> Sequence[Any]:
    """Return by class the number of current labels with a weight, and their weights.

    *correct* is the weight of those that were predicted.  Labels that were taken over
    from another version have none, and repeats of an input do not count.
    """
    statement = (
        select(
            Query.label,
            func.count().label("labels"),
            func.sum(Label.weight).label("weight"),
            func.sum(case((Query.label == Query.predicted, Label.weight), else_=0.0)),
        )
        .join_from(Label, Query, Query.label_id == Label.id)
        .where(
            Label.detector_id == detector_id,
            Label.weight.is_not(None),
            Query.detector_id == detector_id,
            Query.version_id.in_(version_ids),
            has_standing(Query, SAMPLINGS),
        )
        .group_by(Query.label)
    )
    return session.execute(statement).all()
