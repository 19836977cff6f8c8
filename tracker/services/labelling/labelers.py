"""The people who label: what they are asked for, how they agree, who errs too often."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import shapes, stats
from tracker.services.by import By
from tracker.services.estimates.intervals import score_share
from tracker.services.fields import Input, Instant, KeyName
from tracker.services.labelling.golds import list_counted
from tracker.services.wording import missing
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling import labelers as storage
from tracker.storage.queries.queries import count_agreement
from tracker.words import AGREED, DISPUTED, EDITOR, SETTLED, UNCLEAR

MOST_LABELS = 1_000_000


class Assignee(Input):
    """Whose assignment."""

    labeler: KeyName = Field(description="The name under which the person labels.")


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
    made_at: Instant


def assign(
    session: Session, detector: Detector, new: NewAssignment, by: By
) -> Assignment:
    """Ask a person for a number of labels, counted from now on.

    This replaces what they were asked for before.
    """
    found = storage.find_assignment(session, detector.id, new.labeler)
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


def end_assignment(session: Session, detector: Detector, labeler: str, by: By) -> None:
    found = storage.find_assignment(session, detector.id, labeler)
    if found is None:
        raise missing("assignment", labeler)
    session.delete(found)
    session.flush()
    by.record(session, "assignment ended", detector.name, labeler=labeler)


def list_assignments(session: Session, detector: Detector, by: By) -> list[Assignment]:
    """Return what each person is asked for; labelers see only their own."""
    return [
        Assignment.from_row(one)
        for one in storage.list_assignments(session, detector.id)
        if by.may(EDITOR) or one.labeler == by.name
    ]


# So many of the newest queries that several people labelled are looked at.
MOST_COMPARED = 20_000
# So many pairs, those with the most queries in common.
MOST_PAIRS = 30

# Who said what of a query, in the order in which they did.
_Words = Mapping[str, str]


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
    """Return how often labelers agree, and how many queries are disputed."""
    counts = count_agreement(session, detector.id)
    share = _score(detector, counts.get(AGREED, 0), sum(counts.values()))
    return share, counts.get(DISPUTED, 0)


def get_labelers(session: Session, detector: Detector) -> LabelerReport:
    """Return how the people who labelled agree, and how often each of them errs."""
    rechecked = storage.list_rechecked(session, detector.id)
    agreed, disputed = get_agreement(session, detector)
    words = [
        *_list_words(session, detector),
        *({row.labeler: row.label, row.second: row.answer} for row in rechecked),
    ]
    return LabelerReport(
        detector=dump_id("det", detector.id),
        name=detector.name,
        confidence_level=detector.confidence_level,
        agreed=agreed,
        disputed=disputed,
        pairs=_compare_pairs(detector, words),
        items=_judge_each(
            detector,
            (
                (row.labeler, row.answer, row.label)
                for row in rechecked
                if row.is_trusted
            ),
        ),
        gold=_judge_each(
            detector,
            (
                (row.labeler, row.known, row.label)
                for row in list_counted(session, detector)
            ),
        ),
    )


def count_confirmed(session: Session, detector: Detector) -> dict[str, tuple[int, int]]:
    """Return how many labels of each labeler a trusted second one confirms, of which.

    Those are a random part of their labels; see `list_rechecked`.
    """
    found = Counter[str]()
    confirmed = Counter[str]()
    for row in storage.list_rechecked(session, detector.id):
        if row.is_trusted:
            found[row.labeler] += 1
            confirmed[row.labeler] += row.label == row.answer
    return {name: (confirmed[name], number) for name, number in found.items()}


def _list_words(session: Session, detector: Detector) -> list[_Words]:
    """Return what each person first said, where several were to be asked.

    Where one is enough, a second label is a correction, and its giver saw the first.
    So did the one who settled a dispute.
    """
    if detector.labels_wanted == 1:
        return []
    found: dict[int, dict[str, str]] = {}
    for row in storage.list_words(session, detector.id, limit=MOST_COMPARED):
        if row.agreement != SETTLED or not row.is_current:
            found.setdefault(row.query_id, {}).setdefault(row.labeler, row.label)
    return [words for words in found.values() if len(words) > 1]


def _compare_pairs(detector: Detector, words: Iterable[_Words]) -> list[Pair]:
    cells: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    for said in words:
        for one, other in combinations(sorted(said), 2):
            counts = cells.setdefault((one, other), Counter())
            counts[said[one], said[other]] += 1
    most = sorted(cells.items(), key=lambda item: (-item[1].total(), item[0]))
    return [_compare(detector, *item) for item in most[:MOST_PAIRS]]


def _compare(
    detector: Detector, pair: tuple[str, str], counts: Counter[tuple[str, str]]
) -> Pair:
    places = _places(detector)
    table = np.zeros((len(places), len(places)), dtype=np.int64)
    for (one, other), number in counts.items():
        table[places[one], places[other]] += number
    low, high = stats.cohen_kappa_interval(table, detector.confidence_level)
    return Pair(
        labelers=list(pair),
        agreed=_score(detector, int(np.trace(table)), int(table.sum())),
        kappa=stats.cohen_kappa(table),
        low=float(low),
        high=float(high),
    )


def _judge_each(
    detector: Detector, answers: Iterable[tuple[str, str, str]]
) -> list[Labeler]:
    """Return how often each errs, the worst first.

    *answers* are, in order, a labeler, what is known to be true, and what they said.
    """
    known: dict[str, list[tuple[str, bool]]] = {}
    for labeler, truth, said in answers:
        known.setdefault(labeler, []).append((truth, said != truth))
    found = [_judge(detector, name, pairs) for name, pairs in known.items()]
    return sorted(found, key=lambda one: (-one.low, one.name))


def _judge(detector: Detector, name: str, known: Sequence[tuple[str, bool]]) -> Labeler:
    errors = np.cumsum([is_wrong for _, is_wrong in known])
    answers = np.arange(1, len(known) + 1)
    whole = _score(detector, int(errors[-1]), len(known))
    classes = []
    for one in detector.classes:
        wrong = [is_wrong for truth, is_wrong in known if truth == one]
        score = _score(detector, sum(wrong), len(wrong))
        classes.append(
            KnownClass(
                name=one,
                known=score.labelled,
                wrong=score.correct,
                low=score.low,
                high=score.high,
            )
        )
    return Labeler(
        name=name,
        known=whole.labelled,
        wrong=whole.correct,
        low=whole.low,
        high=whole.high,
        # A flag stays, whatever comes after.
        careless=bool(stats.is_careless(errors, answers).any()),
        classes=classes,
    )


def _score(detector: Detector, count: int, total: int) -> shapes.Score:
    return score_share(count, total, detector.confidence_level)


def _places(detector: Detector) -> dict[str, int]:
    return {name: place for place, name in enumerate([*detector.classes, UNCLEAR])}
