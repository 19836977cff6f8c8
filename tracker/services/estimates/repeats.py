"""Questions that were asked several times: how steadily they are answered right."""

from math import comb

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.intervals import score_share
from tracker.services.evidence.populations import PopulationWord
from tracker.services.versions import choose_versions
from tracker.shapes import OfDetector, Score, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import pool
from tracker.storage.estimates.counts import count_repeats

# Of more attempts only the highest number is told.
_MOST = 10


class Attempts(Shape):
    """What *k* attempts at a question come to, on average over the questions."""

    k: int = Field(description="The number of attempts.")
    questions: int = Field(
        description="Questions with a label for at least so many answers."
    )
    pass_at_k: float = Field(
        description="pass@k: the chance that at least one of k of the labelled answers "
        "to a question, drawn at random, is right."
    )
    pass_hat_k: float = Field(
        description="pass^k: the chance that all k of them are right."
    )


class Repeats(OfDetector):
    """Questions that a version was asked several times, each of them a group."""

    population: PopulationWord = Field(description="Whose labels it counts.")
    confidence_level: float
    questions: int = Field(description="Groups with more than one query.")
    differing: Score = Field(
        description="The share of these questions to which the answers differ, with "
        "its exact interval; it needs no label. correct counts those that differ."
    )
    items: list[Attempts] = Field(
        description="By k, up to 10 and the highest there is. They have no interval: "
        "they tell of these questions."
    )


def get_repeats(
    session: Session, detector: Detector, *, version: str | None = None
) -> Repeats:
    """Compute pass@k and pass^k of a version; ``*`` takes each version's groups."""
    versions = choose_versions(session, detector, version)
    counts = pool(current_counts(session, versions).values())
    population, standings = pick_population(detector, counts)
    ids = [one.id for one in versions]
    rows = count_repeats(session, detector.id, ids, standings)
    questions = sum(row.groups for row in rows)
    differing = sum(row.groups for row in rows if row.differs)
    most = max((row.labelled for row in rows), default=0)
    items = []
    for k in sorted({*range(1, min(most, _MOST) + 1), *([most] if most else [])}):
        some = [row for row in rows if row.labelled >= k]
        number = sum(row.groups for row in some)
        fails = sum(
            row.groups * comb(row.labelled - row.correct, k) / comb(row.labelled, k)
            for row in some
        )
        passes = sum(
            row.groups * comb(row.correct, k) / comb(row.labelled, k) for row in some
        )
        items.append(
            Attempts(
                k=k,
                questions=number,
                pass_at_k=1 - fails / number,
                pass_hat_k=passes / number,
            )
        )
    return Repeats(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=version or (versions[-1].name if versions else None),
        population=population,
        confidence_level=detector.confidence_level,
        questions=questions,
        differing=score_share(differing, questions, detector.confidence_level),
        items=items,
    )
