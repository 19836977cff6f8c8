"""Labels that are given a second time, blind, to tell how often labels are wrong.

What the second person says changes no label and is never scored.  Where it differs
the query is disputed, and an editor settles it.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from itertools import takewhile
from operator import itemgetter
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.errors import ConflictError, ForbiddenError
from tracker.services import fields
from tracker.services.by import By
from tracker.services.detectors import check_class
from tracker.services.estimates.counts import find_standings
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.estimates.intervals import ALL
from tracker.services.estimates.measures import Bounds, ClassErrors, LabelErrors
from tracker.services.evidence.populations import standings_of
from tracker.services.queries.queries import check_is_there
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid, missing
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, find_version
from tracker.storage.dialect import lock
from tracker.storage.labelling import rechecks as storage
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import list_labels
from tracker.storage.queries.queries import Query, delete_about, lock_query
from tracker.words import AGREED, DISPUTED, EDITOR, SETTLED, UNCLEAR

MOST_DRAWN = 2_000
# So long the one who answered may change the answer: a finger slips.
MAY_CHANGE = timedelta(minutes=5)


class NewRechecks(fields.Input):
    """How many more labels are to be given a second time."""

    count: Annotated[int, Field(ge=1, le=MOST_DRAWN)] = Field(
        description="How many to draw from the labels of the version."
    )
    version: fields.VersionName | None = Field(
        default=None, description="The version; by default the one that is shown."
    )
    new_set: bool = Field(
        default=False,
        description="Draw from the labels there are now. Without it, from those there "
        "were at the first draw.",
    )


class NewRecheck(fields.Input):
    """A second label of a query, by somebody who does not know the first."""

    label: fields.LabelText = Field(description="A class of the detector, or UNCLEAR.")
    note: fields.Note | None = Field(default=None, description="A note by the labeler.")
    labeler: fields.KeyName | None = Field(
        default=None, description="The labeler, if not the caller; editors only."
    )
    trusted: bool | None = Field(
        default=None,
        description="Whether the labeler is trusted to know the truth; editors only. "
        "By default editors who name no other labeler are.",
    )


class Recheck(Shape):
    """The second label of a query, which is not scored."""

    query: str = Field(description="The id of the query.")
    label: str = Field(description="A class of the detector, or UNCLEAR.")
    labeler: str
    trusted: bool = Field(description="Whether the labeler is trusted.")
    note: str | None
    answered_at: fields.Instant


def describe_recheck(found: storage.Recheck) -> Recheck:
    return Recheck.from_row(
        found,
        query=dump_id("iq", found.query_id),
        label=found.answer,
        trusted=found.is_trusted,
    )


def choose_version(
    session: Session, detector: Detector, name: str | None = None
) -> Version:
    """Return the version whose labels are drawn from, or raise ConflictError."""
    if name == "*":
        raise invalid("version", name, "each version's labels are drawn by themselves")
    versions = choose_versions(session, detector, name)
    if not versions:
        raise ConflictError("the detector has no queries yet")
    return versions[0]


def freeze_labels(
    session: Session, detector: Detector, version: Version, at: datetime
) -> storage.RecheckSet:
    """Return a set of the labels that a version has now, and in which order to draw.

    A new hash decides each time: earlier draws have shown some of the truth and may
    have changed labels.  All labels are gone through, so this belongs in a read.
    """
    seed = f"rechecks {detector.queue_seed} {version.id} {at.isoformat()}"
    key = sha256(seed.encode()).digest()
    cells: Counter[tuple[str, str]] = Counter()
    known: Counter[tuple[str, str, str]] = Counter()
    line: list[tuple[float, float, Any]] = []
    standings = find_standings(session, detector, [version])
    for row in storage.iter_candidates(session, version, standings):
        cells[row.predicted, row.label] += 1
        if row.answer is not None:
            known[row.predicted, row.label, row.answer] += 1
            continue
        differs = row.predicted != row.label
        clock, time = stats.draw_times(key, str(row.id), differs=differs)
        heapq.heappush(line, (-time, -clock, row))
        if len(line) > MOST_DRAWN:
            heapq.heappop(line)
    return storage.RecheckSet(
        detector_id=detector.id,
        version_id=version.id,
        frozen_at=at,
        cells=[[*cell, number] for cell, number in sorted(cells.items())],
        known=[[*cell, number] for cell, number in sorted(known.items())],
        line=[
            [row.id, row.label_id, row.label, -clock, -time]
            for time, clock, row in sorted(line, key=itemgetter(0, 1), reverse=True)
        ],
    )


def draw_rechecks(
    session: Session,
    version: Version,
    frozen: storage.RecheckSet | None,
    new: NewRechecks,
    by: By,
) -> int:
    """Draw the next labels of the set of *version*, and return how many there were.

    The set is *frozen* if there is none yet, or another is asked for.
    """
    # Two draws at once would take the same places.
    lock(session, f"rechecks {version.id}")
    found = storage.find_set(session, version)
    if frozen is not None and (found is None or new.new_set):
        storage.begin_set(session, frozen)
        found = frozen
    if found is None:
        raise ConflictError("another draw was made meanwhile; try again")
    drawn = storage.draw_more(session, found, new.count, drawn_at=by.at)
    if drawn is None:
        raise ConflictError(
            "queries of the set that labels are drawn from were deleted; ask for a new "
            "set"
        )
    if not drawn:
        raise ConflictError(
            "no label is left to draw: all of the set were drawn, or it has none; ask "
            "for a new set once there are more labels"
        )
    storage.share_answers(session, version.detector_id, drawn)
    by.record(session, "rechecks drawn", version.name, count=len(drawn))
    return len(drawn)


def freeze_if_needed(
    session: Session, detector: Detector, new: NewRechecks, at: datetime
) -> tuple[Version, storage.RecheckSet | None]:
    """Return the version to draw from, and a set of its labels if one is to begin."""
    version = choose_version(session, detector, new.version)
    if not new.new_set and storage.find_set(session, version) is not None:
        return version, None
    return version, freeze_labels(session, detector, version, at)


def add_recheck(
    session: Session, detector: Detector, query: Query, new: NewRecheck, by: By
) -> storage.Recheck:
    """Store what ``by`` says of *query* the second time; its label stays.

    Raises ForbiddenError for what takes the role editor, and ConflictError for a query
    that is not theirs to answer.
    """
    if not by.may(EDITOR) and (new.labeler is not None or new.trusted is not None):
        raise ForbiddenError("to name the labeler, or trust, takes the role editor")
    check_class(detector, new.label, field="label", may_be_unclear=True)
    who = by.credit(new.labeler)
    current = lock_query(session, detector.id, query.id)
    if current is None:
        raise missing("query", dump_id("iq", query.id))
    check_is_there(current)
    by_default = by.may(EDITOR) and new.labeler is None
    is_trusted = by_default if new.trusted is None else new.trusted
    found = storage.find_recheck(session, current)
    if found is None:
        raise ConflictError("the label of this query was not drawn to be given again")
    # Who is trusted may answer what others have answered.
    if found.answered_at is not None and (found.is_trusted or not is_trusted):
        is_own = found.labeler == who.name
        if not is_own or found.answered_at < who.at - MAY_CHANGE:
            raise ConflictError("the second label of this query was given already")
    if who.name in {label.labeler for label in list_labels(session, current)}:
        raise ConflictError(
            f"{who.name} labelled this query before; another person must do it again"
        )
    found.answer, found.labeler, found.note = new.label, who.name, new.note
    found.is_trusted = is_trusted
    found.answered_at = by.at
    if current.agreement != SETTLED:
        # A slip that was changed within minutes leaves no dispute behind.
        current.agreement = DISPUTED if new.label != current.label else AGREED
    session.flush()
    storage.share_answers(session, detector.id, [current.input])
    delete_about(session, current, Reservation, Skip)
    return found


ASSUMES_NOTHING = (
    "none: all second labels that count are by people trusted to know the truth"
)
INDEPENDENT = (
    "the two labelers err independently of each other, and on each input each is right "
    "more often than not"
)


class RecheckReport(Shape):
    """The labels of a version that are given a second time."""

    detector: str = Field(description="The id of the detector.")
    version: str
    drawn: int = Field(description="Labels drawn at random to be given again.")
    answered: int
    waiting: int
    label_errors: LabelErrors | None = Field(description="null until the first answer.")


def get_recheck_report(
    session: Session, detector: Detector, version: Version, at: datetime
) -> RecheckReport:
    """Return what was drawn of *version*, and what it says at an instant."""
    estimate = get_estimate(session, detector, version=version.name, computed_at=at)
    rows = storage.list_rechecks(session, version)
    answered = sum(row.answer is not None for row in rows)
    return RecheckReport(
        detector=dump_id("det", detector.id),
        version=version.name,
        drawn=len(rows),
        answered=answered,
        waiting=len(rows) - answered,
        label_errors=_build(session, detector, version, rows, estimate),
    )


def find_label_errors(
    session: Session, detector: Detector, estimate: Estimate
) -> LabelErrors | None:
    """Return how often labels of the version of *estimate* are wrong.

    The estimate is that of all its labels, without the targeted ones.  None before the
    first answer, and for versions that are pooled: each has a sample of its own.
    """
    version = None
    if estimate.version not in {None, ALL}:
        version = find_version(session, detector.id, estimate.version)
    if version is None:
        return None
    rows = storage.list_rechecks(session, version)
    return _build(session, detector, version, rows, estimate)


def _build(
    session: Session,
    detector: Detector,
    version: Version,
    rows: Sequence[Any],
    estimate: Estimate,
) -> LabelErrors | None:
    standings = standings_of(estimate.population.kind, detector.label_sampling)
    # What counts in another population says nothing of this one.
    is_of_this = any(row.standing in standings for row in rows)
    found = storage.find_set(session, version) if is_of_this else None
    if found is None:
        return None
    answered = _count_first(row.answer is not None or row.erased_at for row in rows)
    trusted = _count_first(row.is_trusted or row.erased_at for row in rows)
    # Who answered decides, not what was said.
    is_trusted = bool(trusted) and 2 * trusted >= answered
    counted = trusted if is_trusted else answered
    if not counted:
        return None
    cells, known, draws = _read_evidence(detector.classes, found, rows)
    level, by_truth = estimate.confidence_level, None
    if trusted:
        evidence = cells, known, draws[:trusted]
        by_truth = stats.recheck_accuracies(len(detector.classes), *evidence, level)
    return LabelErrors(
        frozen_at=found.frozen_at,
        queries=sum(number for *_, number in found.cells),
        drawn=len(rows),
        answered=sum(row.answer is not None for row in rows),
        counted=counted,
        different=sum(row.answer != row.label for row in rows[:counted]),
        trusted=is_trusted,
        assumption=ASSUMES_NOTHING if is_trusted else INDEPENDENT,
        error_high=stats.label_error_bound(cells, known, draws[:counted], level),
        classes=[
            ClassErrors(
                name=name,
                drawn=sum(row.label == name for row in rows[:counted]),
                different=sum(
                    row.label == name != row.answer for row in rows[:counted]
                ),
                truth=by_truth and _bounds(by_truth.measures, place),
            )
            for place, name in enumerate(detector.classes)
        ],
        overall=by_truth and _bounds(by_truth.measures, -1),
        balanced=by_truth and _bounds(by_truth.balanced),
        process=by_truth and _bounds(by_truth.process),
    )


def _read_evidence(
    classes: Sequence[str], found: storage.RecheckSet, rows: Sequence[Any]
) -> tuple[Any, Any, tuple[stats.Drawn, ...]]:
    said_at = {name: place for place, name in enumerate(classes)}
    places = {name: said_at.get(name or "") for name in (UNCLEAR, None, *classes)}
    at = {(said, first): n for n, (said, first, _) in enumerate(found.cells)}
    cells = tuple(
        # What is no class is no answer, and wrong whatever the label is.
        stats.Cell(said_at.get(said, len(classes)), places[first], number)
        for said, first, number in found.cells
    )
    known = tuple(
        (stats.Drawn(at[said, first], places[answer]), number)
        for said, first, answer, number in found.known
    )
    # Nobody can tell any more what was erased.
    draws = tuple(
        stats.Drawn(
            at[row.predicted, row.label],
            None if row.erased_at and not row.is_trusted else places[row.answer],
        )
        for row in rows
    )
    return cells, known, draws


def _count_first(are_there: Iterable[Any]) -> int:
    return sum(1 for _ in takewhile(bool, are_there))


def _bounds(found: stats.Interval, place: Any = ()) -> Bounds:
    return Bounds(low=float(found.low[place]), high=float(found.high[place]))
