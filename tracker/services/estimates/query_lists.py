"""Lists of queries: their filters, their totals, and the neighbours of a query."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.detectors import check_class, check_prediction
from tracker.services.estimates.counted import count_part
from tracker.services.estimates.counts import current_counts, find_standings
from tracker.services.evidence.populations import Standings, compared_standings
from tracker.services.fields import is_storable
from tracker.services.queries.where import parse_where
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.storage.deciding.comparison import differs_from
from tracker.storage.detectors import Detector, find_version, list_versions
from tracker.storage.estimates import counts as storage
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.queries import finding
from tracker.storage.queries.queries import Query, build_conditions, has_tag
from tracker.words import ANSWER, UNCLEAR

# Beyond so many combinations their queries are so common that a walk from the
# newest one meets them soon.
_MOST_SEEKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFilter:
    """What a list of queries is narrowed to; None narrows nothing.

    A key with a * at its end stands for all keys that begin so.
    """

    labelled: bool | None = None
    predicted: str | None = None
    label: str | None = None
    version: str | None = None
    key: str | None = None
    is_wrong: bool | None = None
    is_counted: bool | None = None
    agreement: str | None = None
    # A version that did better or worse at the same input.
    versus: str | None = None
    tag: str | None = None
    # Who gave the current label.
    labeler: str | None = None
    # Since when that label was given.
    labelled_since: datetime | None = None
    where: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    # What labels must count for where *is_counted* says so; found by the counts.
    standings: Standings = frozenset()

    def takes(self, label: str, predicted: str) -> bool:
        """Return whether queries with that label and prediction pass."""
        if self.label not in {None, label} or self.predicted not in {None, predicted}:
            return False
        if self.is_wrong is None:
            return True
        return label != UNCLEAR and (label != predicted) == self.is_wrong

    @property
    def is_open(self) -> bool:
        return replace(self, where=tuple(self.where)) == QueryFilter()

    @property
    def is_span(self) -> bool:
        """Whether it asks for a span of time, and for no metadata."""
        spans = self.since, self.until, *self.where
        return any(spans) and all(one.startswith("asked_at:") for one in self.where)

    @property
    def is_told(self) -> bool:
        """Whether counts may tell how many queries pass, if *where* is counted too."""
        named = (self.key, self.agreement, self.versus, self.tag, self.labeler)
        return all(one is None for one in (*named, self.labelled_since))

    def count(self, counts: Counts) -> int:
        """Return how many of the labelled queries in *counts* pass."""
        return sum(
            number
            for cell, number in counts.cells.items()
            if self.takes(cell.label, cell.predicted)
            and self.is_counted in {None, cell.is_scored(self.standings)}
        )


def build_filter(
    session: Session, detector: Detector, wanted: QueryFilter, *, at: datetime
) -> finding.Conditions:
    """Return the conditions of the queries *wanted*; raises InvalidInputError."""
    wanted = _resolve(session, detector, wanted)
    if wanted.predicted is not None:
        check_prediction(detector, wanted.predicted, field="predicted")
    if wanted.label is not None:
        check_class(detector, wanted.label, field="label", may_be_unclear=True)
    texts = {"key": wanted.key, "tag": wanted.tag, "labeler": wanted.labeler}
    for field, text in texts.items():
        if text is not None and not is_storable(text):
            raise invalid(field, text, "NUL and lone surrogates are not allowed")
    version_id = None
    if wanted.version not in {None, "*"}:
        version_id = choose_versions(session, detector, wanted.version)[0].id
    found = build_conditions(
        detector.id,
        labelled=wanted.labelled,
        predicted=wanted.predicted,
        label=wanted.label,
        version_id=version_id,
        is_wrong=wanted.is_wrong,
        is_counted=wanted.is_counted if wanted.versus is None else None,
        standings=wanted.standings,
        agreement=wanted.agreement,
    )
    if wanted.versus is not None:
        other_id = _find_other(session, detector, wanted.versus)
        standings = compared_standings(detector.label_sampling)
        found += differs_from(
            detector.id,
            other_id,
            standings,
            is_counted=wanted.is_counted,
            has_own=detector.label_of == ANSWER,
        )
    if wanted.tag is not None:
        found += has_tag(session, wanted.tag)
    if wanted.labeler is not None or wanted.labelled_since is not None:
        found.append(finding.has_label(wanted.labeler, wanted.labelled_since))
    if wanted.key is not None:
        found += finding.has_key(wanted.key)
    span = finding.Between("asked_at", wanted.since, below=wanted.until)
    where = parse_where(session, detector, wanted.where, at=at)
    return [*found, *(one.test(session) for one in (span, *where))]


def _find_other(session: Session, detector: Detector, name: str) -> int:
    version = find_version(session, detector.id, name) if is_storable(name) else None
    if version is None:
        raise invalid("versus", name, "there is no such version")
    return version.id


def _resolve(session: Session, detector: Detector, wanted: QueryFilter) -> QueryFilter:
    if wanted.is_counted is None or wanted.standings:
        return wanted
    versions = choose_versions(session, detector, wanted.version or "*")
    return replace(wanted, standings=find_standings(session, detector, versions))


def find_queries(  # noqa: PLR0913 - one page of a list in an order.
    session: Session,
    detector: Detector,
    wanted: QueryFilter,
    *,
    sort: str,
    after: Query | None,
    limit: int,
    at: datetime,
    is_backwards: bool = False,
) -> tuple[Sequence[Query], finding.Conditions, Mapping[int, Counts] | None]:
    """Return the queries that pass, behind *after* in the order *sort*.

    After them the conditions of all pages, and counts if only labelled ones pass.
    Backwards it is those before *after*, the nearest first.  The running counts tell
    which combinations of label and prediction there are, and an index leads to the
    queries of each: a walk from the newest query might meet nothing for a million.
    """
    page: Any = {"sort": sort, "after": after, "limit": limit}
    page["is_backwards"] = is_backwards
    conditions = build_filter(session, detector, wanted, at=at)
    counts = None
    is_narrow = wanted.label is not None or wanted.is_wrong is not None
    if wanted.labelled or (is_narrow and wanted.labelled is None):
        versions = choose_versions(session, detector, wanted.version or "*")
        counts = current_counts(session, versions)
    if wanted.is_span and finding.SORTS[sort][0] == "id":
        near = finding.list_near(session, detector.id, conditions, **page)
        if near is not None:
            return near, conditions, counts
    are_few = bool(wanted.where) and finding.are_few(session, conditions)
    pages = [
        finding.list_sorted(session, [*conditions, *seek], **page, are_few=are_few)
        for seek in _seeks(wanted, counts, sort)
    ]
    if len(pages) == 1:
        return pages[0], conditions, counts
    reverse = finding.SORTS[sort][1] != is_backwards
    found = sorted(chain(*pages), key=lambda one: one.id, reverse=reverse)
    return found[:limit], conditions, counts


def find_and_count(  # noqa: PLR0913 - one page of a list in an order.
    session: Session,
    detector: Detector,
    wanted: QueryFilter,
    *,
    sort: str,
    after: Query | None,
    limit: int,
    at: datetime,
    at_most: int | None = None,
) -> tuple[Sequence[Query], int]:
    """Return what `find_queries` does, and how many pass in all, up to *at_most*."""
    wanted = _resolve(session, detector, wanted)
    found, conditions, counts = find_queries(
        session, detector, wanted, sort=sort, after=after, limit=limit, at=at
    )
    total = None
    if wanted.is_open:
        total = count_shown(session, detector.id)
    elif replace(wanted, since=None, until=None).is_open:
        # An index has all that this needs but what is erased.
        span = finding.Between("asked_at", wanted.since, below=wanted.until)
        own = Query.detector_id == detector.id
        asked, gone = (one.test(session) for one in (span, *finding.put_aside([span])))
        erased = finding.count_queries(
            session, [own, gone, Query.erased_at.is_not(None)]
        )
        most = None if at_most is None else at_most + erased
        total = finding.count_queries(session, [own, asked], at_most=most) - erased
    elif wanted.is_told and wanted.labelled is not False:
        total = _count_labelled(session, detector, wanted, counts, at)
        if total is not None and counts is None:
            unlabelled = [*conditions, Query.label.is_(None)]
            total += finding.count_queries(session, unlabelled, at_most=at_most)
    if total is None:
        total = finding.count_queries(session, conditions, at_most=at_most)
    return found, total if at_most is None else min(total, at_most)


def _count_labelled(
    session: Session,
    detector: Detector,
    wanted: QueryFilter,
    counts: Mapping[int, Counts] | None,
    at: datetime,
) -> int | None:
    """Return how many labelled queries pass, None where no counts tell that."""
    filters: dict[str, Any] = {"since": wanted.since, "until": wanted.until}
    where = filters["where"] = parse_where(session, detector, wanted.where, at=at)
    if any(isinstance(one, finding.Metadata) for one in where):
        # Indexes find these sooner than what counts lack.
        return None
    versions = choose_versions(session, detector, wanted.version or "*")
    is_part = any(filters.values())
    if counts is None or is_part:
        known = count_part(session, detector, versions, filters)
        if known is None:
            return None
    else:
        known = pool(counts.values())
    span = finding.Between("asked_at", wanted.since, below=wanted.until)
    limits = [span, *where] if is_part else []
    erased = storage.count_erased(session, detector.id, limits)
    gone = pool(erased[one.id] for one in versions if one.id in erased)
    return wanted.count(known) - wanted.count(gone)


def count_shown(session: Session, detector_id: int) -> int:
    logged = storage.count_logged(session, list_versions(session, detector_id))
    return sum(logged.values()) - storage.count_all_erased(session, detector_id)


def _seeks(
    wanted: QueryFilter, counts: Mapping[int, Counts] | None, sort: str
) -> Sequence[finding.Conditions]:
    """Return conditions that together hold what passes, nothing of it twice."""
    # What is tagged has an index of its own; another order is no walk along ids.
    if counts is None or wanted.tag is not None or finding.SORTS[sort][0] != "id":
        return [[]]
    combinations = {
        (cell.label, cell.predicted)
        for found in counts.values()
        for cell, number in found.cells.items()
        if number and wanted.takes(cell.label, cell.predicted)
    }
    if len(combinations) > _MOST_SEEKS:
        return [[]]
    return [
        [Query.label == label, Query.predicted == predicted]
        for label, predicted in sorted(combinations)
    ]
