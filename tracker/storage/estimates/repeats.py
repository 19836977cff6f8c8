"""How often the questions that were asked several times were answered right."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tracker.storage.queries.queries import Query, has_standing
from tracker.words import GROUPED, REPLAYED, REPLAYED_UNSTATED, UNSTATED


def count_repeats(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    standings: Collection[str],
) -> Sequence[Any]:
    """Return how many groups there are of each kind.

    That is labelled, correct, and whether their queries differ in what was predicted.
    Of a group counts whatever has a label with one of *standings*, or would have if its
    group did not count by another query; one query is no repeat.
    """
    is_unstated = Query.sampling == UNSTATED
    base = case(
        (Query.is_replayed & is_unstated, REPLAYED_UNSTATED),
        (Query.is_replayed, REPLAYED),
        else_=Query.sampling,
    )
    is_scored = has_standing(Query, {*standings, GROUPED}) & base.in_(sorted(standings))
    is_correct = is_scored & (Query.label == Query.predicted)
    differs = func.min(Query.predicted) != func.max(Query.predicted)
    each = (
        select(
            func.count(case((is_scored, 1))).label("labelled"),
            func.count(case((is_correct, 1))).label("correct"),
            differs.label("differs"),
        )
        .where(
            Query.detector_id == detector_id,
            Query.version_id.in_(version_ids),
            Query.group.is_not(None),
            ~Query.is_repeat,
        )
        .group_by(Query.version_id, Query.group)
        .having(func.count() > 1)
        .subquery()
    )
    kinds = each.c.labelled, each.c.correct, each.c.differs
    statement = select(*kinds, func.count().label("groups")).group_by(*kinds)
    return session.execute(statement).all()
