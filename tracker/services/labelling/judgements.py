"""Judgements: what a model, a program or a person without authority says of a query.

They are kept beside the labels and never count as truth.  How good a judge is follows
from the queries that have both.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import TrackerError
from tracker.services.by import By
from tracker.services.detectors import check_class, get_open_detector
from tracker.services.estimates.counted import Unit, unit_of
from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.intervals import ALL, score_share
from tracker.services.evidence.populations import POOLED, PopulationWord
from tracker.services.fields import Input, Instant, Key, LabelText, Note, VersionName
from tracker.services.queries.queries import DEFAULT_VERSION, NewQuery, log_query
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid, missing
from tracker.shapes import OfClass, OfDetector, Score, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import pool
from tracker.storage.labelling import judgements as storage
from tracker.storage.queries.queries import Query, find_query_by_key
from tracker.words import MODEL, UNSTATED, JudgeKind

Reference = Annotated[str, Field(min_length=1, max_length=200)]


# How often a class was judged, by label and class.
_Cells = dict[tuple[str | None, str], int]


class NewVerdict(Input):
    """What a judge says of a query."""

    judge: Key = Field(description="The name of the judge, such as llm-3.")
    kind: JudgeKind = Field(default=MODEL, description="What the judge is.")
    verdict: LabelText = Field(description="A class of the detector.")
    score: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="Kept and shown."
    )
    explanation: Note | None = Field(default=None, description="Kept and shown.")
    judged_at: Instant | None = Field(
        default=None,
        description="When; by default now. Of two verdicts of one judge on one query "
        "the later one stays.",
    )


class NewJudgement(NewVerdict):
    """What a judge says of a query, which is known by its key."""

    detector: Reference
    key: Key
    # What the detector said, where the query is not there yet.
    predicted: LabelText | None = None
    version: VersionName = DEFAULT_VERSION


class JudgedClass(OfClass):
    """How a judge does on one class, by the queries that have a label."""

    sensitivity: Score = Field(
        description="The share of queries with this label that the judge called so."
    )
    specificity: Score = Field(
        description="The share of queries with another label that the judge did not "
        "call so."
    )


class Judge(Shape):
    """A judge, and how it agrees with the labels."""

    name: str
    kind: JudgeKind
    judgements: int = Field(description="Queries that it judged.")
    labelled: int = Field(description="Those of them with a scored label.")
    classes: list[JudgedClass]


class JudgeReport(OfDetector):
    """The judges of a version, each compared with the labels; none is the truth."""

    version: str | None = Field(description="* for all versions together.")
    population: PopulationWord = Field(description="Whose labels it counts.")
    unit: Unit = Field(description="What counts once.")
    confidence_level: float = Field(
        description="The level of each exact interval by itself."
    )
    items: list[Judge]


class QueryJudgement(Shape):
    """What a judge said of a query."""

    judge: str
    kind: JudgeKind
    verdict: str
    score: float | None
    explanation: str | None
    judged_at: Instant


def add_judgements(
    session: Session, found: Sequence[NewJudgement], by: By
) -> list[tuple[int, str]]:
    """Store judgements, and return the place of each that is wrong, and why."""
    wrong = []
    for place, new in enumerate(found):
        try:
            _add(session, new, by)
        except TrackerError as error:
            wrong.append((place, str(error)))
    return wrong


def _add(session: Session, new: NewJudgement, by: By) -> None:
    detector = get_open_detector(session, new.detector)
    if not by.actor.sees(detector.id):
        raise missing("detector", new.detector)
    # Before the query is logged, which would stay.
    check_class(detector, new.verdict, field="verdict", may_be_unclear=False)
    query = find_query_by_key(session, detector.id, new.key)
    if query is None:
        if new.predicted is None:
            raise invalid(
                "key",
                new.key,
                "there is no such query; log it first, or send its prediction",
            )
        logged = NewQuery(
            key=new.key,
            predicted=new.predicted,
            version=new.version,
            asked_at=new.judged_at,
        )
        query, _ = log_query(session, detector, logged, by)
        session.flush()
    add_verdict(session, detector, query.id, new, by)


def add_verdict(
    session: Session, detector: Detector, query_id: int, new: NewVerdict, by: By
) -> None:
    """Store what a judge says of a query; it is no label, and never scored.

    Raises InvalidInputError for what is no class.
    """
    check_class(detector, new.verdict, field="verdict", may_be_unclear=False)
    row = dict(new) | {
        "query_id": query_id,
        "detector_id": detector.id,
        "judged_at": new.judged_at or by.at,
        "received_at": by.at,
    }
    names = storage.Judgement.__table__.columns.keys()
    storage.store_judgement(
        session,
        {name: row.get(name) for name in names} | {"judged": new.verdict},
        is_dated=new.judged_at is not None,
    )


def list_judgements(session: Session, query: Query) -> list[QueryJudgement]:
    found = storage.list_judgements(session, query)
    return [QueryJudgement.from_row(one, verdict=one.judged) for one in found]


def build_report(
    session: Session, detector: Detector, *, version: str | None = None
) -> JudgeReport:
    """Return how each judge agrees with the labels of a version; ``*`` pools all."""
    chosen = choose_versions(session, detector, version)
    is_pooled = version == ALL
    counts = pool(current_counts(session, chosen).values())
    population, standings = pick_population(detector, counts, is_pooled=is_pooled)
    rows = storage.count_judgements(
        session,
        detector.id,
        [one.id for one in chosen],
        standings,
        are_pooled=is_pooled,
    )
    judges: dict[tuple[str, JudgeKind], _Cells] = {}
    for row in rows:
        cells = judges.setdefault((row.judge, row.kind), {})
        cells[row.label, row.judged] = row.queries
    name = version or (chosen[-1].name if chosen else None)
    return JudgeReport(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=name,
        population=POOLED if is_pooled and population != UNSTATED else population,
        unit=unit_of(detector),
        confidence_level=detector.confidence_level,
        items=[_measure(detector, *who, cells) for who, cells in judges.items()],
    )


def _measure(detector: Detector, name: str, kind: JudgeKind, cells: _Cells) -> Judge:
    labelled = {cell: n for cell, n in cells.items() if cell[0] is not None}
    level = detector.confidence_level

    def score(is_of: Any, is_right: Any) -> Score:
        among = {cell: n for cell, n in labelled.items() if is_of(cell[0])}
        correct = sum(n for cell, n in among.items() if is_right(cell[1]))
        total = sum(among.values())
        return score_share(correct, total, level)

    return Judge(
        name=name,
        kind=kind,
        judgements=sum(cells.values()),
        labelled=sum(labelled.values()),
        classes=[
            JudgedClass(
                name=one,
                sensitivity=score(one.__eq__, one.__eq__),
                specificity=score(one.__ne__, one.__ne__),
            )
            for one in detector.classes
        ],
    )
