"""Labels that have a weight, counted."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tracker.storage.base import on_postgresql
from tracker.storage.labels import Label, is_of_query
from tracker.storage.queries.queries import Query, has_standing
from tracker.words import SAMPLINGS


def count_weights(
    session: Session, detector_id: int, version_ids: Sequence[int]
) -> Sequence[Any]:
    """Count current labels by class, by whether they were predicted, and by weight.

    The weights are not added up here: each database would round the sum differently.
    Labels that were taken over from another version have no weight, and repeats of an
    input do not count.
    """
    statement = (
        select(
            Query.label,
            (Query.label == Query.predicted).label("is_right"),
            Label.weight,
            func.count().label("labels"),
        )
        .join_from(Label, Query, is_of_query())
        .where(
            Label.detector_id == detector_id,
            Label.weight.is_not(None),
            Query.label_id == Label.id,
            # SQLite would begin with all queries of the detector.
            on_postgresql(Query.detector_id == detector_id),
            Query.version_id.in_(version_ids),
            has_standing(Query, SAMPLINGS),
        )
        .group_by(Query.label, Query.label == Query.predicted, Label.weight)
    )
    return session.execute(statement).all()
