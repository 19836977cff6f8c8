"""The queues that queries wait in for a label, as conditions and orders."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import ColumnElement, func, or_, select, true
from sqlalchemy.orm import Session, aliased

from tracker.storage.base import equal, on_postgresql
from tracker.storage.detectors import Detector, Version, select_open
from tracker.storage.dialect import is_sqlite
from tracker.storage.labelling.audits import AuditDraw
from tracker.storage.labelling.rechecks import Recheck
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, is_about
from tracker.words import RANDOM, REPLAYED_UNSTATED, TARGETED, UNSTATED


class _Waiting:
    """What most queues have in common."""

    @property
    def name(self) -> str:
        return repr(self)

    def order(self) -> list[Any]:
        return [Query.queue_rank]

    def holds(self, query: Query) -> bool:
        """Return whether *query*, which was found here, still waits."""
        return query.label is None


@dataclass(frozen=True, slots=True)
class RandomQueue(_Waiting):
    """What was drawn by chance, in the order of the ranks."""

    kind: ClassVar[str] = RANDOM
    detector_id: int
    rate: float
    # Who labels, where what they labelled already waits for the word of others.
    labeler: str | None = None
    # None for all versions.
    version_id: int | None = None
    # Whether the detector says that labels without a sampling are of random queries;
    # those are not asked for once more.
    skips_unstated: bool = False
    sampling: str = RANDOM

    @property
    def name(self) -> str:
        return self.sampling

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        found = [
            *equal(Query, detector_id=self.detector_id, version_id=self.version_id),
            Query.queue_rank < self.rate,
            ~Query.is_gold,
        ]
        if self.labeler is not None:
            found.append(~_has_label_by(self.detector_id, self.labeler))
        if self.skips_unstated:
            is_unstated = Query.standing.in_((UNSTATED, REPLAYED_UNSTATED))
            found.append(Query.standing.is_(None) | ~is_unstated)
        return found

    def holds(self, query: Query) -> bool:
        """Return whether *query* waits here, or is gold and was mixed in."""
        rank = query.queue_rank
        is_drawn = query.is_gold or (rank is not None and rank < self.rate)
        is_ours = self.version_id in {None, query.version_id}
        return is_drawn and is_ours and query.detector_id == self.detector_id


def list_queued(session: Session, *, among: Collection[int] | None) -> Sequence[int]:
    """Return the detectors in whose random queues something may wait."""
    waits = select(Query.id).where(
        Query.detector_id == Detector.id, Query.queue_rank < Detector.queue_rate
    )
    # With OFFSET PostgreSQL asks for each detector, and does not read all that waits.
    return session.scalars(select_open(among).where(waits.offset(0).exists())).all()


# How many waiting queries are read for each that is counted.
_READ_FOR_EACH = 5


class Work(NamedTuple):
    """What a person may see and label, over all detectors."""

    detectors: int
    waiting: int
    # Whether more may wait, which were not read.
    is_cut: bool


def count_all(
    session: Session, labeler: str, *, among: Collection[int] | None, limit: int
) -> Work:
    """Count the open detectors, and the queries that wait in theirs for *labeler*.

    Every page asks, so that no more are counted than *limit*, and a few times as many
    are read: those that wait may be of a version that is not shown.
    """
    read_most = _READ_FOR_EACH * limit
    rows = select(Query.id, Query.detector_id, Query.version_id).where(
        Query.detector_id == Detector.id,
        Query.queue_rank < Detector.queue_rate,
        ~Query.is_gold,
    )
    if not is_sqlite(session):
        # In the order of an index; otherwise PostgreSQL would read all queries.
        found = rows.order_by(Query.queue_rank).limit(read_most).lateral("found")
        rows = select(found).join_from(Detector, found, true())
    some = rows.where(Detector.id.in_(select_open(among))).limit(read_most).subquery()
    own = select(Label.id).where(
        Label.query_id == some.c.id,
        on_postgresql(Label.detector_id == some.c.detector_id),
        Label.labeler == labeler,
    )
    named = select(Version.id).where(
        Version.detector_id == some.c.detector_id,
        Version.name == Detector.production_version,
    )
    shown = func.coalesce(named.scalar_subquery(), Detector.shown_version_id)
    waits = (
        func.coalesce(shown, some.c.version_id) == some.c.version_id,
        or_(Detector.labels_wanted == 1, ~own.offset(0).exists()),
    )
    read = (
        select(func.count().filter(*waits).label("mine"), func.count().label("read"))
        .join_from(some, Detector, some.c.detector_id == Detector.id)
        .subquery()
    )
    seen = select(func.count()).select_from(select_open(among).subquery())
    row = session.execute(select(seen.scalar_subquery(), read.c.mine, read.c.read))
    detectors, mine, number = row.one()
    is_cut = mine > limit or number == read_most
    return Work(detectors, min(mine, limit), is_cut)


def _has_label_by(detector_id: int, labeler: str) -> ColumnElement[bool]:
    own = select(Label.id).where(
        Label.query_id == Query.id,
        on_postgresql(Label.detector_id == detector_id),
        Label.labeler == labeler,
    )
    # For somebody without a label PostgreSQL would make a join of it and go through
    # all others' labels; with OFFSET it asks for each query.
    return own.offset(0).exists()


@dataclass(frozen=True, slots=True)
class TargetedQueue(_Waiting):
    """What somebody picks because of what the detector said of it."""

    kind: ClassVar[str] = TARGETED
    detector_id: int
    order_by: str
    version_id: int | None = None
    # As they were written, and as conditions.
    where: tuple[str, ...] = ()
    tests: tuple[ColumnElement[bool], ...] = field(
        default=(), repr=False, compare=False
    )
    sampling: str = TARGETED

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        own = {"detector_id": self.detector_id, "version_id": self.version_id}
        return [
            *equal(Query, **own),
            Query.label.is_(None),
            ~Query.is_repeat,
            Query.erased_at.is_(None),
            ~Query.is_gold,
            *self.tests,
        ]

    def order(self) -> list[Any]:
        if self.order_by == "newest":
            return [Query.id.desc()]
        return [Query.confidence.asc().nulls_last(), Query.id]


@dataclass(frozen=True, slots=True)
class DisagreementQueue(_Waiting):
    """What two versions disagree on, in the order of the ranks.

    A rank is a hash of the query's id, so which input comes next depends on no
    prediction, confidence or truth.  What arrived as picked on purpose has no rank
    and does not wait here.
    """

    kind: ClassVar[str] = "disagreements"
    detector_id: int
    old_id: int
    new_id: int
    sampling: str = "targeted"

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        other = aliased(Query)
        differs = select(other.id).where(
            other.detector_id == self.detector_id,
            other.version_id == self.old_id,
            other.input == Query.input,
            other.predicted != Query.predicted,
            other.label.is_(None),
            ~other.is_repeat,
        )
        return [
            Query.detector_id == self.detector_id,
            Query.version_id == self.new_id,
            Query.label.is_(None),
            ~Query.is_repeat,
            Query.queue_rank.is_not(None),
            ~Query.is_gold,
            Query.input.is_not(None),
            # With OFFSET PostgreSQL asks for each query in the order of the ranks.
            differs.offset(0).exists(),
        ]


@dataclass(frozen=True, slots=True)
class AuditQueue(_Waiting):
    """What an audit has drawn for one labeler, in the order of the draws."""

    kind: ClassVar[str] = "audit"
    detector_id: int
    audit_id: int
    labeler: str
    sampling: str = TARGETED

    @property
    def name(self) -> str:
        return f"audit {self.audit_id}"

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        drawn = select(AuditDraw.query_id).filter_by(
            detector_id=self.detector_id, audit_id=self.audit_id, labeler=self.labeler
        )
        return [
            Query.detector_id == self.detector_id,
            Query.label.is_(None),
            Query.id.in_(drawn),
        ]

    def order(self) -> list[Any]:
        of_audit = {"detector_id": self.detector_id, "audit_id": self.audit_id}
        number = select(AuditDraw.number).filter_by(**of_audit, query_id=Query.id)
        return [number.scalar_subquery()]


@dataclass(frozen=True, slots=True)
class RecheckQueue(_Waiting):
    """Labels that chance drew to be given again, by somebody else than before."""

    kind: ClassVar[str] = "recheck"
    detector_id: int
    version_id: int
    # None for all that wait, whatever person may answer them.
    labeler: str | None
    # Whether what others have answered who are not trusted waits too.
    is_trusted: bool = False
    sampling: str = RANDOM

    @property
    def name(self) -> str:
        return f"recheck {self.version_id}"

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return what is true of the queries that wait here."""
        is_open: ColumnElement[bool] = Recheck.answered_at.is_(None)
        if self.is_trusted:
            is_open |= Recheck.is_trusted.is_(False)
        drawn = select(Recheck.query_id).where(
            Recheck.detector_id == self.detector_id,
            Recheck.version_id == self.version_id,
            is_open,
        )
        return [
            Query.detector_id == self.detector_id,
            Query.id.in_(drawn),
            Query.erased_at.is_(None),
            *([~_has_label_by(self.detector_id, self.labeler)] if self.labeler else []),
        ]

    def order(self) -> list[Any]:
        place = select(Recheck.place).where(is_about(Recheck, Query))
        return [place.scalar_subquery()]

    def holds(self, query: Query) -> bool:
        """Return whether *query*, which was found here, can still be answered.

        Its answer is not the query's, and ends the reservation.
        """
        return query.erased_at is None


Queue = RandomQueue | TargetedQueue | DisagreementQueue | AuditQueue | RecheckQueue
