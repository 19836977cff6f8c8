"""What an audit draws next, and the record that its intervals follow from."""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import errors, shapes, stats, words
from tracker.services.by import By
from tracker.services.fields import Instant
from tracker.services.labelling.auditing import audits
from tracker.services.wording import show
from tracker.storage.base import Key, dump_id
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit, AuditRound

# Longer than for one query, because a hundred can be reserved at once.
RESERVED_FOR = timedelta(minutes=30)
MOST_ASIDE = 3


@dataclass(frozen=True)
class Record:
    """An audit's ledger, its draws, and what stood at the start of each round."""

    audit: Audit
    ledger: stats.Ledger
    draws: Sequence[Any]
    rounds: Sequence[AuditRound]
    standings: tuple[stats.Standing, ...]
    digests: tuple[str, ...]
    # Of the queries that are drawn or known; 0 without one.
    last_label_id: int

    @property
    def drawable(self) -> int:
        """How many queries can be drawn: those whose label is not known otherwise."""
        known = int(self.ledger.known[-1].sum())
        return int(self.ledger.strata.sizes.sum()) - known

    @cached_property
    def look(self) -> stats.Look:
        level = self.audit.confidence_level
        return stats.look(self.ledger, level, standings=self.standings)


def load_record(session: Session, audit: Audit, *, in_full: bool = False) -> Record:
    """Return all that the intervals of an audit follow from, with current labels.

    *in_full*, its draws say who was to answer them, and when.
    """
    stored: dict[str, Any] = {
        name: np.asarray(values, np.int64) for name, values in audit.strata.items()
    }
    strata = stats.Strata(**stored | {"classes": len(audit.classes)})
    rounds = storage.list_rounds(session, audit)
    draws = storage.list_draws(session, audit, in_full=in_full)
    known = np.zeros((len(rounds), len(strata.sizes), strata.classes + 1), np.int64)
    last = max((draw.label_id or 0 for draw in draws), default=0)
    for known_from, stratum, label, number, newest in storage.count_known(
        session, audit
    ):
        known[known_from:, stratum, audits.label_code(audit.classes, label)] += number
        last = max(last, newest)
    labels = [audits.label_code(audit.classes, draw.label) for draw in draws]
    ledger = stats.Ledger(
        strata,
        tuple(stats.Round.from_json(json.loads(one.frozen)) for one in rounds),
        tuple(known),
        np.array([draw.stratum for draw in draws], dtype=np.int64),
        np.array(labels, dtype=np.int64),
    )
    running, at, digests = hashlib.sha256(), 0, list[str]()
    standings: list[stats.Standing] = []
    for number, (one, begun) in enumerate(zip(ledger.rounds, rounds, strict=True)):
        # For each start a digest of all labels from before it.  What stands there goes
        # by what was known in the round before it.
        running.update(ledger.labels[at : one.start].tobytes())
        running.update(ledger.known[max(0, number - 1)].tobytes())
        at = one.start
        digests.append(running.hexdigest())
        # A correction changes the digest, and what follows is computed again.
        is_sound = len(standings) == number and begun.digest == digests[-1]
        if is_sound and begun.standing is not None:
            standings.append(stats.Standing.from_json(json.loads(begun.standing)))
    parts = draws, rounds, tuple(standings), tuple(digests), last
    return Record(audit, ledger, *parts)


def draw_next(
    session: Session, audit: Audit, by: By, *, count: int = 1, aside: Sequence[int] = ()
) -> list[Any]:
    """Return up to *count* draws that ``by.name`` is to answer, in order.

    First what that labeler has open, of which the queries set *aside* are not kept from
    others; then what others left open until their time was up; then new draws.  None is
    ever taken back.  Raises ConflictError for an audit that is paused or closed.
    """
    session.refresh(audit, with_for_update=True)
    for state, since in (("closed", audit.closed_at), ("paused", audit.paused_at)):
        if since is not None:
            raise errors.ConflictError(f"the audit {show(audit.name)} is {state}")
    until = by.at + RESERVED_FOR
    offered = storage.list_offered(
        session, audit, labeler=by.name, at=by.at, limit=count
    )
    kept = [one.number for one in offered if one.query_id not in aside]
    if kept:
        storage.reserve_draws(session, audit, kept, labeler=by.name, until=until)
    numbers = [one.number for one in offered]
    if len(numbers) < count:
        common = {"labeler": by.name, "drawn_at": by.at, "until": until}
        numbers += _draw_new(session, audit, count - len(numbers), common)
    return list(storage.list_draws(session, audit, numbers=numbers))


def draw_ahead(
    session: Session, key: Key, by: By, *, count: int, aside: Sequence[int]
) -> bool:
    """Let ``by.name`` have so many draws beside what they set *aside*, up to a few.

    False where nothing is drawn, from an audit that is paused or closed.
    """
    audit = session.get_one(Audit, key)
    count += min(len(aside), MOST_ASIDE)
    try:
        draw_next(session, audit, by, count=count, aside=aside)
    except errors.ConflictError:
        return False
    return True


def _find_place(
    session: Session, audit: Audit
) -> tuple[int, int, stats.Ints, stats.Ints, stats.Ints]:
    """Return what the next draw goes by: of the draws so far only how many there are.

    Then the start and the weights of the latest round, what can still be drawn of each
    stratum, and the rank that was drawn there last.
    """
    latest = json.loads(storage.get_last_round(session, audit).frozen)
    left = np.array(audit.strata["sizes"], dtype=np.int64)
    last, number = np.full_like(left, -1), 0
    for _, stratum, many in storage.count_known_items(session, audit):
        left[stratum] -= many
    for stratum, many, rank in storage.count_drawn(session, audit):
        left[stratum] -= many
        last[stratum] = rank
        number += many
    weights = np.array(latest["weights"], dtype=np.int64)
    return number, int(latest["start"]), weights, left, last


def _draw_new(
    session: Session, audit: Audit, count: int, common: dict[str, Any]
) -> list[int]:
    number, start, weights, left, last = _find_place(session, audit)
    key = bytes.fromhex(audit.secret)
    numbers: list[int] = []
    end = math.inf if audit.budget is None else audit.budget
    while len(numbers) < count and number < end:
        if number - start >= stats.round_length(start):
            _begin_round(session, audit, common["drawn_at"])
            number, start, weights, left, last = _find_place(session, audit)
        if not left.any():
            break
        stratum = stats.choose_stratum(key, number, left, weights)
        rank, query_id = storage.find_next_item(
            session, audit, stratum, after=int(last[stratum])
        )
        row = {"audit_id": audit.id, "number": number, "query_id": query_id}
        row |= {"detector_id": audit.detector_id, "stratum": stratum, "rank": rank}
        insert_rows(session, storage.AuditDraw, [row | common])
        # Its label is no part of a random sample; the audit's chances are its own.
        if storage.set_sampling(session, audit.detector_id, query_id, words.TARGETED):
            numbers.append(number)
        last[stratum] = rank
        left[stratum] -= 1
        number += 1
    return numbers


def _begin_round(session: Session, audit: Audit, began_at: datetime) -> None:
    """Write down the next round, and what stands by now, before anything is drawn."""
    record = load_record(session, audit)
    ledger, number = record.ledger, len(record.rounds)
    waiting = (one.number for one in record.draws if one.label is None)
    audit.answered = next(waiting, record.draws[-1].number + 1 if record.draws else 0)
    storage.mark_known(session, audit, number)
    known = np.zeros_like(ledger.known[-1])
    for _, stratum, label, many, _ in storage.count_known(session, audit):
        known[stratum, audits.label_code(audit.classes, label)] += many
    following = stats.next_round(
        ledger, known, audits.goal_of(audit), carried=audits.carried_of(audit)
    )
    audits.add_round(session, audit, number, following, began_at)
    # What stands at the starts of rounds is stored, so that looks need not find it.
    record = load_record(session, audit)
    for one, standing, digest in zip(
        record.rounds, record.look.standings, record.digests, strict=False
    ):
        if one.digest != digest:
            one.standing = json.dumps(standing.as_json(), separators=(",", ":"))
            one.digest = digest
    session.flush()


class RecordedStratum(shapes.Shape):
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


class RecordedRound(shapes.Shape):
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


class RecordedDraw(shapes.Shape):
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


class AuditRecord(shapes.Shape):
    """All that the intervals of an audit follow from, except the order of the set.

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
    """Return the strata, rounds and draws of an audit with their current labels.

    The labels are no random sample: each has to be weighed by its chance.
    """
    record = load_record(session, audit, in_full=True)
    strata, names = record.ledger.strata, [*audit.classes, words.NO_ANSWER]
    columns = strata.predicted, strata.bins, strata.verdicts, strata.sizes
    kinds = zip(*(one.tolist() for one in columns), strict=True)
    draws = []
    for one in iter_reasons(record):
        known = one._asdict()
        draw, _ = known.pop("draw"), known.pop("expected_wrong")
        known |= {"draw": draw.number, "query": dump_id("iq", draw.query_id)}
        draws.append(RecordedDraw.from_row(draw, **known))
    return AuditRecord(
        audit=dump_id("aud", audit.id),
        confidence_level=audit.confidence_level,
        measure=audits.measure_of(audit),
        classes=audit.classes,
        uses=audit.uses,
        strata=[
            RecordedStratum(
                predicted=names[said], bin=of_bin, verdicts=verdicts, queries=size
            )
            for said, of_bin, verdicts, size in kinds
        ],
        rounds=[
            RecordedRound(
                **frozen.as_json(), began_at=began.began_at, known=there.tolist()
            )
            for frozen, began, there in zip(
                record.ledger.rounds, record.rounds, record.ledger.known, strict=True
            )
        ],
        draws=draws,
    )


def list_draw_rows(session: Session, audit: Audit) -> list[dict[str, Any]]:
    return [one.dump() for one in get_audit_record(session, audit).draws]


class Reason(NamedTuple):
    """Why one query was drawn, with this *chance* of all that was left.

    It is so many *times* that of an *average* query, which counts the inverse.
    *expected_wrong* is what the model thought of its prediction when the round began.
    """

    draw: Any
    round: int
    chance: float
    times_average: float
    stratum_weight: int
    weight_left: int
    expected_wrong: float


def iter_reasons(record: Record) -> Iterator[Reason]:
    """Yield for each draw of an audit why it was drawn, in their order."""
    ledger, number = record.ledger, -1
    for place, draw in enumerate(record.draws):
        following = ledger.rounds[number + 1 :]
        if following and following[0].start == place:
            number += 1
            left = ledger.left_before(place, number)
        frozen = ledger.rounds[number]
        weight, in_all = int(frozen.weights[draw.stratum]), int(left @ frozen.weights)
        chance = weight / in_all
        yield Reason(
            draw=draw,
            round=number,
            chance=chance,
            times_average=chance * int(left.sum()),
            stratum_weight=weight,
            weight_left=in_all,
            expected_wrong=int(frozen.wrong[draw.stratum]) / stats.UNIT,
        )
        left[draw.stratum] -= 1
