"""The labels of a span that are a random sample of its queries.

They are those of the queries that rank below the first one without an answer.  Labels
beyond that do not count: if new queries are labelled first, the average over all labels
is not the average over the queries of the span.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Cell
from tracker.storage.estimates.weeks import SpanOfQueries, count_below_gap
from tracker.words import RANDOM

AverageWord = Literal["labels", "span"]


def count_sample(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    filters: Mapping[str, Any],
    others: Iterable[object],
) -> dict[Cell, int]:
    """Count the sample of the queries that were asked between the ends in *filters*.

    Raises InvalidInputError where there is none: without both ends, with any of the
    *others* that choose labels, where groups count once, and where queries without a
    label were deleted.
    """
    since, until = filters["since"], filters["until"]
    if since is None or until is None or filters["where"] or any(others):
        raise _refuse("it needs since and until, and takes no other choice of labels")
    if detector.groups is not None:
        raise _refuse("the queries have groups; weeks counts each group once")
    if any(one.deleted_to and one.deleted_to >= since for one in versions):
        raise _refuse("queries of the span were deleted before anybody labelled them")
    # However a query was chosen for its label: its rank chose it for the sample.
    return {
        Cell(RANDOM, label, predicted): number
        for one in versions
        for label, predicted, number in count_below_gap(
            session, SpanOfQueries(detector.id, one.id, since, until)
        )
    }


def _refuse(why: str) -> InvalidInputError:
    return InvalidInputError.of("average_of", f"span is not possible: {why}")
