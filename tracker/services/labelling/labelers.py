"""The people who label and the judges: how they agree, and who errs too often.

A judgement is what a model, a program or a person without authority says of a query.
It is kept beside the labels and never counts as truth.  How good a judge is follows
from the queries that have both.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import shapes, stats, words
from tracker.errors import TrackerError
from tracker.services import fields
from tracker.services.by import By
from tracker.services.detectors import check_class, get_open_detector
from tracker.services.estimates.counted import Unit, unit_of
from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.intervals import ALL, score_share
from tracker.services.evidence.populations import POOLED, PopulationWord
from tracker.services.labelling.golds import list_counted
from tracker.services.queries.queries import DEFAULT_VERSION, NewQuery, log_query
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid, missing
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import pool
from tracker.storage.labelling import labelers as storage
from tracker.storage.queries.queries import Query, count_agreement, find_query_by_key

MOST_LABELS = 1_000_000


class Assignee(fields.Input):
    """Whose assignment."""

    labeler: fields.KeyName = Field(
        description="The name under which the person labels."
    )


class NewAssignment(Assignee):
    """How many labels a person is asked for."""

    labels: Annotated[int, Field(ge=1, le=MOST_LABELS)] = Field(
        description="How many queries to label, counted from now on."
    )


class Assignment(shapes.Shape):
    """How many labels a person is asked for, and how many they have given."""

    labeler: str
    labels: int
    done: int = Field(
        description="Queries that the person has labelled since then one by one, on "
        "pages or by API; a change of their own label is not counted again."
    )
    made_by: str
    made_at: fields.Instant


def assign(
    session: Session, detector: Detector, new: NewAssignment, by: By
) -> Assignment:
    """Ask a person for a number of labels from now on; what was asked before ends."""
    found = session.get(storage.Assignment, (detector.id, new.labeler))
    if found is None:
        found = storage.Assignment(detector_id=detector.id, labeler=new.labeler)
        session.add(found)
    found.labels, found.done = new.labels, 0
    found.made_by, found.made_at = by.name, by.at
    session.flush()
    by.record(
        session, "labels assigned", detector.name, labeler=new.labeler, count=new.labels
    )
    return Assignment.from_row(found)


def end_assignment(
    session: Session, detector: Detector, whose: Assignee, by: By
) -> None:
    found = session.get(storage.Assignment, (detector.id, whose.labeler))
    if found is None:
        raise missing("assignment", whose.labeler)
    session.delete(found)
    session.flush()
    by.record(session, "assignment ended", detector.name, labeler=whose.labeler)


def list_assignments(session: Session, detector: Detector, by: By) -> list[Assignment]:
    """Return what each person is asked for; labelers see only their own."""
    return [
        Assignment.from_row(one)
        for one in storage.list_assignments(session, detector.id)
        if by.may(words.EDITOR) or one.labeler == by.name
    ]


# So many of the newest queries that several people labelled are looked at.
MOST_COMPARED = 20_000
# So many pairs, those with the most queries in common.
MOST_PAIRS = 30


class Pair(shapes.Shape):
    """How two people agree: Cohen's kappa, and its guaranteed interval."""

    labelers: list[str]
    agreed: shapes.Score = Field(description="On how many of their queries they agree.")
    kappa: float | None = Field(
        description="Agreement beyond what chance gives; null where chance alone would "
        "agree."
    )
    low: float
    high: float


class KnownClass(shapes.OfClass):
    """Errors on the queries whose true class is known to be this one."""

    known: int
    wrong: int
    low: float
    high: float


class Labeler(shapes.Shape):
    """How often one person errs, by answers that are known."""

    name: str
    known: int = Field(
        description="Labels that a trusted person gave again, or answers to gold "
        "queries."
    )
    wrong: int = Field(description="Those of them that differ from what is known.")
    low: float = Field(description="The lower bound of the error rate, exact.")
    high: float
    careless: bool = Field(
        description=f"Whether the error rate is above {stats.ACCEPTABLE_RATE:g} beyond "
        "doubt; somebody whose rate is not has a chance of at most 0.01 of ever being "
        "flagged."
    )
    classes: list[KnownClass] = Field(description="By the true class.")


class LabelerReport(shapes.Shape):
    """The people who labelled, compared with each other and with what is known."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    confidence_level: float = Field(description="The level of each interval by itself.")
    unit: Unit = Field(description="What counts once.")
    agreed: shapes.Score = Field(
        description="Of the queries that several people labelled, those on which they "
        "agree."
    )
    disputed: int = Field(description="Queries that wait for an editor to settle.")
    pairs: list[Pair] = Field(
        description=f"At most {MOST_PAIRS}, those with the most queries in common."
    )
    items: list[Labeler] = Field(
        description="The labelers, by labels that a trusted person gave again, blind."
    )
    gold: list[Labeler] = Field(description="The labelers, by gold queries.")


def get_agreement(session: Session, detector: Detector) -> tuple[shapes.Score, int]:
    counts = count_agreement(session, detector.id)
    share = _score(detector, counts.get(words.AGREED, 0), sum(counts.values()))
    return share, counts.get(words.DISPUTED, 0)


def get_labelers(session: Session, detector: Detector) -> LabelerReport:
    """Return how the people who labelled agree, and how often each of them errs."""
    rechecked = storage.list_rechecked(session, detector.id)
    again = [(r.labeler, r.answer, r.label) for r in rechecked if r.is_trusted]
    answers = list_counted(session, detector.id)
    known = [(r.labeler, r.known, r.label) for r in answers]
    agreed, disputed = get_agreement(session, detector)
    said: dict[int, dict[str, str]] = {}
    # Where one is enough, a second label is a correction, and its giver saw the first.
    # So did the one who settled a dispute.
    if detector.labels_wanted > 1:
        for row in storage.list_words(session, detector.id, limit=MOST_COMPARED):
            if row.agreement != words.SETTLED or not row.is_current:
                said.setdefault(row.query_id, {}).setdefault(row.labeler, row.label)
    opinions = [one for one in said.values() if len(one) > 1]
    opinions += [{one.labeler: one.label, one.second: one.answer} for one in rechecked]
    return LabelerReport(
        detector=dump_id("det", detector.id),
        name=detector.name,
        confidence_level=detector.confidence_level,
        unit=unit_of(detector),
        agreed=agreed,
        disputed=disputed,
        pairs=_compare_pairs(detector, opinions),
        items=_judge_each(detector, again),
        gold=_judge_each(detector, known),
    )


def count_confirmed(session: Session, detector: Detector) -> dict[str, tuple[int, int]]:
    """Count by labeler the labels that trusted ones confirm, and how many got one."""
    found, confirmed = Counter[str](), Counter[str]()
    for row in storage.list_rechecked(session, detector.id):
        if row.is_trusted:
            found[row.labeler] += 1
            confirmed[row.labeler] += row.label == row.answer
    return {name: (confirmed[name], number) for name, number in found.items()}


def _compare_pairs(
    detector: Detector, opinions: Iterable[Mapping[str, str]]
) -> list[Pair]:
    cells: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for said in opinions:
        for one, other in combinations(sorted(said), 2):
            counts = cells.setdefault((one, other), Counter())
            counts[said[one], said[other]] += 1
    most = sorted(cells.items(), key=lambda item: (-item[1].total(), item[0]))
    answers = [*detector.classes, words.UNCLEAR]
    places = {name: place for place, name in enumerate(answers)}
    found = []
    for pair, counts in most[:MOST_PAIRS]:
        table = np.zeros((len(places), len(places)), dtype=np.int64)
        for (one, other), number in counts.items():
            table[places[one], places[other]] += number
        low, high = stats.cohen_kappa_interval(table, detector.confidence_level)
        found.append(
            Pair(
                labelers=list(pair),
                agreed=_score(detector, int(np.trace(table)), int(table.sum())),
                kappa=stats.cohen_kappa(table),
                low=float(low),
                high=float(high),
            )
        )
    return found


def _judge_each(
    detector: Detector, answers: Iterable[tuple[str, str, str]]
) -> list[Labeler]:
    """Return how often each errs, the worst first.

    *answers* are, in order, a labeler, what is known to be true, and what they said.
    """
    known: dict[str, list[tuple[str, bool]]] = {}
    for labeler, truth, said in answers:
        known.setdefault(labeler, []).append((truth, said != truth))
    found = []
    for name, pairs in known.items():
        errors = np.cumsum([is_wrong for _, is_wrong in pairs])
        careless = stats.is_careless(errors, np.arange(1, len(pairs) + 1))
        classes = []
        for one in detector.classes:
            wrong = [is_wrong for truth, is_wrong in pairs if truth == one]
            counts = {"known": len(wrong), "wrong": sum(wrong)}
            score = _score(detector, sum(wrong), len(wrong))
            classes.append(KnownClass.from_row(score, name=one, **counts))
        whole = _score(detector, int(errors[-1]), len(pairs))
        more: dict[str, Any] = {"known": whole.labelled, "wrong": whole.correct}
        # A flag stays, whatever comes after.
        more |= {"name": name, "careless": bool(careless.any()), "classes": classes}
        found.append(Labeler.from_row(whole, **more))
    return sorted(found, key=lambda one: (-one.low, one.name))


def _score(detector: Detector, count: int, total: int) -> shapes.Score:
    return score_share(count, total, detector.confidence_level)


# How often a class was judged, by label and class.
_Cells = dict[tuple[str | None, str], int]


class NewVerdict(fields.Input):
    """What a judge says of a query."""

    judge: fields.Key = Field(description="The name of the judge, such as llm-3.")
    kind: words.JudgeKind = Field(default=words.MODEL, description="What the judge is.")
    verdict: fields.LabelText = Field(description="A class of the detector.")
    score: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="Kept and shown."
    )
    explanation: fields.Note | None = Field(default=None, description="Kept and shown.")
    judged_at: fields.Instant | None = Field(
        default=None,
        description="When; by default now. Of two verdicts of one judge on one query "
        "the later one stays.",
    )


class NewJudgement(NewVerdict):
    """What a judge says of a query, which is known by its key."""

    detector: Annotated[str, Field(min_length=1, max_length=200)]
    key: fields.Key
    # What the detector said, where the query is not there yet.
    predicted: fields.LabelText | None = None
    version: fields.VersionName = DEFAULT_VERSION


class JudgedClass(shapes.OfClass):
    """How a judge does on one class, by the queries that have a label."""

    sensitivity: shapes.Score = Field(
        description="The share of queries with this label that the judge called so."
    )
    specificity: shapes.Score = Field(
        description="The share of queries with another label that the judge did not "
        "call so."
    )


class Judge(shapes.Shape):
    """A judge, and how it agrees with the labels."""

    name: str
    kind: words.JudgeKind
    judgements: int = Field(description="Queries that it judged.")
    labelled: int = Field(description="Those of them with a scored label.")
    classes: list[JudgedClass]


class JudgeReport(shapes.OfDetector):
    """The judges of a version, each compared with the labels; none is the truth."""

    version: str | None = Field(description="* for all versions together.")
    population: PopulationWord = Field(description="Whose labels it counts.")
    unit: Unit = Field(description="What counts once.")
    confidence_level: float = Field(
        description="The level of each exact interval by itself."
    )
    items: list[Judge]


class QueryJudgement(shapes.Shape):
    """What a judge said of a query."""

    judge: str
    kind: words.JudgeKind
    verdict: str
    score: float | None
    explanation: str | None
    judged_at: fields.Instant


def add_judgements(
    session: Session, found: Sequence[NewJudgement], by: By
) -> list[tuple[int, str]]:
    """Store judgements, and return the place of each that is wrong, and why."""
    wrong = []
    for place, new in enumerate(found):
        try:
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
                said = new.model_dump(include={"key", "predicted", "version"})
                logged = NewQuery(**said, asked_at=new.judged_at)
                query, _ = log_query(session, detector, logged, by)
                session.flush()
            add_verdict(session, detector, query.id, new, by)
        except TrackerError as error:
            wrong.append((place, str(error)))
    return wrong


def add_verdict(
    session: Session, detector: Detector, query_id: int, new: NewVerdict, by: By
) -> None:
    """Store what a judge says of a query; it is no label, and never scored."""
    check_class(detector, new.verdict, field="verdict", may_be_unclear=False)
    row = {"query_id": query_id, "detector_id": detector.id, "judged": new.verdict}
    row |= {"judged_at": new.judged_at or by.at, "received_at": by.at, "batch": None}
    row |= new.model_dump(include={"judge", "kind", "score", "explanation"})
    storage.store_judgement(session, row, is_dated=new.judged_at is not None)


def list_judgements(session: Session, query: Query) -> list[QueryJudgement]:
    found = storage.list_judgements(session, query)
    return [QueryJudgement.from_row(one, verdict=one.judged) for one in found]


def get_judges(
    session: Session, detector: Detector, *, version: str | None = None
) -> JudgeReport:
    """Return how each judge agrees with the labels of a version; ``*`` pools all."""
    chosen = choose_versions(session, detector, version)
    is_pooled = version == ALL
    counts = pool(current_counts(session, chosen).values())
    population, standings = pick_population(detector, counts, is_pooled=is_pooled)
    asked = session, detector.id, [one.id for one in chosen], standings
    judges: dict[tuple[str, words.JudgeKind], _Cells] = {}
    for row in storage.count_judgements(*asked, are_pooled=is_pooled):
        cells = judges.setdefault((row.judge, row.kind), {})
        cells[row.label, row.judged] = row.queries
    return JudgeReport(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=version or (chosen[-1].name if chosen else None),
        population=POOLED if is_pooled and population != words.UNSTATED else population,
        unit=unit_of(detector),
        confidence_level=detector.confidence_level,
        items=[_measure_judge(detector, *who, cells) for who, cells in judges.items()],
    )


def _measure_judge(
    detector: Detector, name: str, kind: words.JudgeKind, cells: _Cells
) -> Judge:
    labelled = {cell: n for cell, n in cells.items() if cell[0] is not None}

    def score(is_of: Any, is_right: Any) -> shapes.Score:
        among = {cell: n for cell, n in labelled.items() if is_of(cell[0])}
        correct = sum(n for cell, n in among.items() if is_right(cell[1]))
        return _score(detector, correct, sum(among.values()))

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
