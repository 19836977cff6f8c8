"""The record of an audit: all that its intervals follow from, for others to recount."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.fields import Instant
from tracker.services.labelling.auditing.audit_draws import Record, load_record
from tracker.services.labelling.auditing.audits import measure_of
from tracker.shapes import Shape
from tracker.stats import UNIT
from tracker.storage.base import dump_id
from tracker.storage.labelling.audits import Audit
from tracker.words import NO_ANSWER


class RecordedStratum(Shape):
    """Queries of the set that differ in nothing that the audit goes by."""

    predicted: str
    bin: int = Field(
        description="The log odds of being wrong, by the confidence, in halves and "
        "rounded; -1000 without a confidence."
    )
    verdicts: list[int] = Field(
        description="What judges said, in the order of uses: the place of a class, -1 "
        "for nothing. Of many judges only how many agree, -2 being one that differs."
    )
    queries: int


class RecordedRound(Shape):
    """What was written down before the first draw of a round.

    Lists have one entry for each stratum unless they say otherwise; chances are in
    units of 1/2**20.
    """

    start: int = Field(description="The number of its first draw.")
    began_at: Instant
    weights: list[int]
    wrong: list[int] = Field(description="How likely a prediction is wrong.")
    rows: list[list[int]] = Field(description="And as which class, if it is.")
    directions: list[float] = Field(description="For each class.")
    spreads: list[float] = Field(
        description="For each class, overall and the balanced accuracy."
    )
    wanted: float = Field(description="The half-width that two of the bettors go by.")
    known: list[list[int]] = Field(
        description="The labels that were there without a draw: of each class, and "
        "UNCLEAR."
    )


class RecordedDraw(Shape):
    """One draw; its query had the chance stratum_weight / weight_left."""

    draw: int
    round: int
    query: str
    key: str | None
    predicted: str
    confidence: float | None
    label: str | None
    chance: float
    times_average: float = Field(
        description="How many times the chance of an average query that is."
    )
    labeler: str | None
    drawn_at: Instant
    stratum: int = Field(description="The place of its stratum, from 0 on.")
    stratum_weight: int
    weight_left: int = Field(description="The weights of all that could be drawn.")


DRAW_COLUMNS = list(RecordedDraw.model_fields)


class AuditRecord(Shape):
    """All that the intervals of an audit follow from, but for the order of the set.

    With it anyone can compute them again, as the proof of audits says.
    """

    audit: str = Field(description="The id of the audit.")
    confidence_level: float
    measure: str
    classes: list[str]
    uses: list[str]
    strata: list[RecordedStratum]
    rounds: list[RecordedRound]
    draws: list[RecordedDraw]


def get_audit_record(session: Session, audit: Audit) -> AuditRecord:
    """Return the strata, rounds and draws of an audit with their current labels."""
    record = load_record(session, audit, in_full=True)
    strata, names = record.ledger.strata, [*audit.classes, NO_ANSWER]
    kinds = zip(
        *(one.tolist() for one in (strata.predicted, strata.bins, strata.verdicts)),
        strata.sizes.tolist(),
        strict=True,
    )
    return AuditRecord(
        audit=dump_id("aud", audit.id),
        confidence_level=audit.confidence_level,
        measure=measure_of(audit),
        classes=audit.classes,
        uses=audit.uses,
        strata=[
            RecordedStratum(
                predicted=names[said], bin=of_bin, verdicts=verdicts, queries=size
            )
            for said, of_bin, verdicts, size in kinds
        ],
        rounds=[
            RecordedRound(**frozen.as_json(), began_at=began.began_at, known=known)
            for frozen, began, known in zip(
                record.ledger.rounds,
                record.rounds,
                (one.tolist() for one in record.ledger.known),
                strict=True,
            )
        ],
        draws=_list_draws(record),
    )


def list_draw_rows(
    session: Session, audit: Audit
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the draws of an audit in order, each with the chance it was drawn by.

    The labels are no random sample: each has to be weighed by its chance.
    """
    record = load_record(session, audit, in_full=True)
    return DRAW_COLUMNS, [one.dump() for one in _list_draws(record)]


def _list_draws(record: Record) -> list[RecordedDraw]:
    return [
        RecordedDraw.from_row(
            one.draw,
            draw=one.draw.number,
            query=dump_id("iq", one.draw.query_id),
            round=one.round,
            chance=one.chance,
            times_average=one.times_average,
            stratum_weight=one.weight,
            weight_left=one.weight_left,
        )
        for one in iter_reasons(record)
    ]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one query was drawn.

    Of all that was left, *queries_left* of *weight_left* together, it had *weight*.
    *expected_wrong* is what the model thought of its prediction when the round began.
    """

    draw: Any
    round: int
    weight: int
    weight_left: int
    queries_left: int
    expected_wrong: float

    @property
    def chance(self) -> float:
        return self.weight / self.weight_left

    @property
    def times_average(self) -> float:
        """Its chance beside that of an average query; it counts the inverse."""
        return self.chance * self.queries_left


def iter_reasons(record: Record) -> Iterator[Reason]:
    """Yield for each draw of an audit why it was drawn, in their order."""
    ledger, number = record.ledger, 0
    left = ledger.left_before(0, 0) if ledger.rounds else None
    for place, draw in enumerate(record.draws):
        following = ledger.rounds[number + 1 :]
        if following and following[0].start == place:
            number += 1
            left = ledger.left_before(place, number)
        assert left is not None
        frozen = ledger.rounds[number]
        yield Reason(
            draw=draw,
            round=number,
            weight=int(frozen.weights[draw.stratum]),
            weight_left=int(left @ frozen.weights),
            queries_left=int(left.sum()),
            expected_wrong=int(frozen.wrong[draw.stratum]) / UNIT,
        )
        left[draw.stratum] -= 1


def find_last_reason(record: Record) -> Reason | None:
    """Return why the last draw that has its answer was drawn; before it is a secret."""
    answered = [one for one in iter_reasons(record) if one.draw.label is not None]
    return answered[-1] if answered else None
