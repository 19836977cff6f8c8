"""What an audit draws next, and the record that its intervals follow from."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.labelling.auditing.audits import (
    carried_of,
    goal_of,
    label_code,
    strata_of,
)
from tracker.services.wording import show
from tracker.stats import (
    OPEN,
    Ints,
    Ledger,
    Look,
    Round,
    Standing,
    choose_stratum,
    look,
    next_round,
    round_length,
)
from tracker.storage.base import Key
from tracker.storage.labelling import audit_draws as drawn
from tracker.storage.labelling import audits as storage
from tracker.storage.labelling.audits import Audit, AuditRound
from tracker.words import TARGETED

# Longer than for one query, because a hundred can be reserved at once.
RESERVED_FOR = timedelta(minutes=30)
MOST_ASIDE = 3


@dataclass(frozen=True, slots=True)
class Record:
    """An audit's ledger, its draws, and what stood at the start of each round."""

    ledger: Ledger
    draws: Sequence[Any]
    rounds: Sequence[AuditRound]
    standings: tuple[Standing, ...]
    digests: tuple[str, ...]
    # Of the queries that are drawn or known; 0 without one.
    last_label_id: int

    @property
    def drawable(self) -> int:
        """How many queries can be drawn: those whose label is not known otherwise."""
        known = int(self.ledger.known[-1].sum())
        return int(self.ledger.strata.sizes.sum()) - known


def load_record(session: Session, audit: Audit, *, in_full: bool = False) -> Record:
    """Return all that the intervals of an audit follow from, with current labels.

    *in_full*, its draws say who was to answer them, and when.
    """
    strata = strata_of(audit)
    rounds = storage.list_rounds(session, audit)
    read = drawn.list_draws if in_full else drawn.list_answers
    draws = read(session, audit)
    known = np.zeros(
        (len(rounds), len(strata.sizes), strata.classes + 1), dtype=np.int64
    )
    last = max((draw.label_id or 0 for draw in draws), default=0)
    for known_from, stratum, label, number, newest in drawn.count_known(session, audit):
        known[known_from:, stratum, label_code(audit.classes, label)] += number
        last = max(last, newest)
    labels = [
        OPEN if draw.label is None else label_code(audit.classes, draw.label)
        for draw in draws
    ]
    ledger = Ledger(
        strata,
        tuple(Round.from_json(json.loads(one.frozen)) for one in rounds),
        tuple(known),
        np.array([draw.stratum for draw in draws], dtype=np.int64),
        np.array(labels, dtype=np.int64),
    )
    digests = _digests(ledger)
    standings: list[Standing] = []
    for one, digest in zip(rounds, digests, strict=True):
        # A correction changes the digest, and what follows is computed again.
        if one.standing is None or one.digest != digest:
            break
        standings.append(Standing.from_json(json.loads(one.standing)))
    return Record(ledger, draws, rounds, tuple(standings), digests, last)


def _digests(ledger: Ledger) -> tuple[str, ...]:
    """Return for the start of each round a digest of all labels from before it."""
    running, at, found = hashlib.sha256(), 0, []
    for number, one in enumerate(ledger.rounds):
        running.update(ledger.labels[at : one.start].tobytes())
        # What stands at a start goes by what was known in the round before it.
        running.update(ledger.known[max(0, number - 1)].tobytes())
        at = one.start
        found.append(running.hexdigest())
    return tuple(found)


def look_at(audit: Audit, record: Record) -> Look:
    return look(record.ledger, audit.confidence_level, standings=record.standings)


def draw_next(
    session: Session,
    audit: Audit,
    by: By,
    *,
    count: int = 1,
    aside: Sequence[int] = (),
) -> list[Any]:
    """Return up to *count* draws that ``by.name`` is to answer, in order.

    What that labeler has open comes first, and of it the queries set *aside* are not
    kept from others; then what others have left open until their
    time was up, then new draws.  None is ever taken back: it is answered, or marked
    UNCLEAR.  Raises ConflictError for an audit that is paused or closed.
    """
    audit = storage.lock_one(session, Audit, (audit.detector_id, audit.id))
    for state, since in (("closed", audit.closed_at), ("paused", audit.paused_at)):
        if since is not None:
            raise ConflictError(f"the audit {show(audit.name)} is {state}")
    until = by.at + RESERVED_FOR
    offered = drawn.list_offered(session, audit, labeler=by.name, at=by.at, limit=count)
    kept = [one.number for one in offered if one.query_id not in aside]
    if kept:
        drawn.reserve_draws(session, audit, kept, labeler=by.name, until=until)
    numbers = [one.number for one in offered]
    if len(numbers) < count:
        common = {"labeler": by.name, "drawn_at": by.at, "until": until}
        numbers += _draw_new(session, audit, count - len(numbers), common)
    return list(drawn.list_draws(session, audit, numbers=numbers))


def draw_ahead(
    session: Session, key: Key, by: By, *, count: int, aside: Sequence[int]
) -> bool:
    """Let ``by.name`` have so many draws beside what they set *aside*.

    A few can be set aside; then the first of them comes again, since evidence waits
    for it.  False where nothing is drawn, from an audit that is paused or closed.
    """
    audit = session.get_one(Audit, key)
    count += min(len(aside), MOST_ASIDE)
    try:
        draw_next(session, audit, by, count=count, aside=aside)
    except ConflictError:
        return False
    return True


@dataclass(slots=True)
class _Place:
    """What the next draw goes by: of the draws so far their number alone counts.

    *start* and *weights* are those of the latest round, *left* counts what can still
    be drawn of each stratum, *last* is the rank that was drawn there last.
    """

    number: int
    start: int
    weights: Ints
    left: Ints
    last: Ints


def _find_place(session: Session, audit: Audit) -> _Place:
    latest = json.loads(storage.get_last_round(session, audit).frozen)
    left = np.array(audit.strata["sizes"], dtype=np.int64)
    last, number = np.full_like(left, -1), 0
    for _, stratum, many in drawn.count_known_items(session, audit):
        left[stratum] -= many
    for stratum, many, rank in drawn.count_drawn(session, audit):
        left[stratum] -= many
        last[stratum] = rank
        number += many
    weights = np.array(latest["weights"], dtype=np.int64)
    return _Place(number, int(latest["start"]), weights, left, last)


def _draw_new(
    session: Session, audit: Audit, count: int, common: dict[str, Any]
) -> list[int]:
    place, key = _find_place(session, audit), bytes.fromhex(audit.secret)
    numbers: list[int] = []
    end = math.inf if audit.budget is None else audit.budget
    while len(numbers) < count and place.number < end:
        if place.number - place.start >= round_length(place.start):
            _begin_round(session, audit, common["drawn_at"])
            place = _find_place(session, audit)
        if not place.left.any():
            break
        stratum = choose_stratum(key, place.number, place.left, place.weights)
        rank, query_id = drawn.find_next_item(
            session, audit, stratum, after=int(place.last[stratum])
        )
        row = {"audit_id": audit.id, "number": place.number, "query_id": query_id}
        row |= {"detector_id": audit.detector_id, "stratum": stratum, "rank": rank}
        drawn.add_draws(session, [row | common])
        # Its label is no part of a random sample; the audit's chances are its own.
        if drawn.set_sampling(session, audit.detector_id, query_id, TARGETED):
            numbers.append(place.number)
        place.last[stratum] = rank
        place.left[stratum] -= 1
        place.number += 1
    return numbers


def _begin_round(session: Session, audit: Audit, began_at: datetime) -> None:
    """Write down the next round, and what stands by now, before anything is drawn."""
    record = load_record(session, audit)
    ledger, number = record.ledger, len(record.rounds)
    waiting = (one.number for one in record.draws if one.label is None)
    audit.answered = next(waiting, record.draws[-1].number + 1 if record.draws else 0)
    drawn.mark_known(session, audit, number)
    known = np.zeros_like(ledger.known[-1])
    for _, stratum, label, many, _ in drawn.count_known(session, audit):
        known[stratum, label_code(audit.classes, label)] += many
    following = next_round(ledger, known, goal_of(audit), carried=carried_of(audit))
    session.add(
        AuditRound(
            detector_id=audit.detector_id,
            audit_id=audit.id,
            number=number,
            frozen=json.dumps(following.as_json(), separators=(",", ":")),
            began_at=began_at,
        )
    )
    session.flush()
    _remember(session, audit)


def _remember(session: Session, audit: Audit) -> None:
    """Store what stands at the starts of rounds, so that looks need not."""
    record = load_record(session, audit)
    found = look_at(audit, record)
    for one, standing, digest in zip(
        record.rounds, found.standings, record.digests, strict=False
    ):
        if one.digest != digest:
            one.standing = json.dumps(standing.as_json(), separators=(",", ":"))
            one.digest = digest
    session.flush()
