"""The queues that queries wait in for a label, as conditions and orders."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select

from tracker.storage.base import for_partitions
from tracker.storage.labels import Label
from tracker.storage.queries import Query


@dataclass(frozen=True, slots=True)
class RandomQueue:
    """What was drawn by chance, in the order of the ranks."""

    detector_id: int
    rate: float
    # Who labels, where what they labelled already waits for the word of others.
    labeler: str | None = None
    sampling: str = "random"

    @property
    def name(self) -> str:
        """What a reservation says of how its query was found."""
        return self.sampling

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        found = [Query.detector_id == self.detector_id, Query.audit_rank < self.rate]
        if self.labeler is not None:
            own = select(Label.id).where(
                Label.query_id == Query.id,
                for_partitions(Label.detector_id == self.detector_id),
                Label.labeler == self.labeler,
            )
            # For somebody without a label PostgreSQL would make a join of it and go
            # through all others' labels; with OFFSET it asks for each query.
            found.append(~own.offset(0).exists())
        return found

    def order(self) -> list[Any]:
        """Return what they are sorted by."""
        return [Query.audit_rank]

    def holds(self, query: Query) -> bool:
        """Return whether *query* waits here."""
        rank = query.audit_rank
        is_drawn = rank is not None and rank < self.rate
        return is_drawn and query.detector_id == self.detector_id


@dataclass(frozen=True, slots=True)
class TargetedQueue:
    """What somebody picks because of what the detector said of it."""

    detector_id: int
    order_by: str
    predicted: str | None = None
    version_id: int | None = None
    min_confidence: float | None = None
    max_confidence: float | None = None
    sampling: str = "targeted"

    @property
    def name(self) -> str:
        """What a reservation says of how its query was found."""
        return repr(self)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        found = [Query.detector_id == self.detector_id, Query.label.is_(None)]
        if self.predicted is not None:
            found.append(Query.predicted == self.predicted)
        if self.version_id is not None:
            found.append(Query.version_id == self.version_id)
        if self.min_confidence is not None:
            found.append(Query.confidence >= self.min_confidence)
        if self.max_confidence is not None:
            found.append(Query.confidence <= self.max_confidence)
        return found

    def order(self) -> list[Any]:
        """Return what they are sorted by."""
        if self.order_by == "newest":
            return [Query.id.desc()]
        return [Query.confidence.asc().nulls_last(), Query.id]

    def holds(self, query: Query) -> bool:
        """Return whether *query*, which was found here, still waits."""
        return query.label is None


Queue = RandomQueue | TargetedQueue
