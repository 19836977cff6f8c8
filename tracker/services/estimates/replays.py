"""Replays: what a version says of inputs that were labelled for another version.

The queries of the old version that were labelled at random are a stream of trials for
the new version too, if it was put to all of them, whatever either version said, and was
made without their labels.  They have an order that knows nothing of them, their ranks.
So it may have been put to those of lowest rank only: what comes after the first gap is
left out.  Up to a tenth may be missing, and counts as wrong in the lower bound and as
right in the upper one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from heapq import nsmallest
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.decision import (
    Decision,
    compare_with_target,
    decide_verdict,
)
from tracker.services.estimates.missing import NOTHING, Missing, count_unlabelled
from tracker.services.evidence.measure import read_measure, spread
from tracker.services.evidence.populations import LIVE, standings_of
from tracker.services.evidence.random_queue import rank_query
from tracker.services.versions import choose_versions
from tracker.shapes import Shape
from tracker.stats import replay_level, shared_level
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, load_versions
from tracker.storage.labelling.inputs import iter_replayable, iter_replayed
from tracker.words import NO_ANSWER

_MISSING_OF = 10  # One of so many may be missing.

SEEN = (
    "its labels were known before it was put to their inputs, so it may have been made "
    "with them; say that it was not (unseen), or label queries of its own"
)
REPLAYS_ASIDE = (
    "its labels were given to another version, whose inputs it was put to; its page "
    "says what they decide"
)
NOT_RANDOM = (
    "its labels were given to another version, and those inputs were not drawn at "
    "random; label queries of its own"
)


class ReplayItem(Shape):
    """An input that another version is to be put to."""

    input: str
    query: str = Field(description="The query that it was labelled with.")


class ReplayList(Shape):
    """The randomly labelled inputs of a version, in the order of their ranks."""

    items: list[ReplayItem]
    next: str | None = Field(description="Always null: n asks for more.")


class Replay(NamedTuple):
    """What a version was right and wrong about, as far as that decides anything."""

    # By label and prediction, and by label what is missing.
    cells: Counter[tuple[str, str]]
    missing: Counter[str]
    # Why it decides nothing, and why it decides nothing about pairs.
    because: str | None = None
    no_pairs_because: str | None = None
    # The queries of the other versions that will get their label.
    awaited: Missing | None = NOTHING
    # How many inputs are not among the cells.
    left: int = 0
    # How many inputs it was put to, if each got its label only later, else none.
    blind: int = 0


class _Member(NamedTuple):
    """An input of a stream; the prediction is None where it is missing."""

    rank: float
    label: str
    predicted: str | None


def list_replay(
    session: Session, detector: Detector, *, version: str | None, n: int
) -> ReplayList:
    """Return the *n* inputs of lowest rank that *version* has a random label of."""
    chosen = choose_versions(session, detector, version)
    found: Iterable[tuple[float, str, int]] = ()
    if chosen:
        standings = standings_of(LIVE, detector.label_sampling)
        rows = iter_replayable(session, detector.id, chosen[0].id, standings=standings)
        seed = detector.queue_seed
        found = ((rank_query(seed, one._mapping), one.input, one.id) for one in rows)
    items = [
        ReplayItem(input=name, query=dump_id("iq", number))
        for _, name, number in nsmallest(n, found)
    ]
    return ReplayList(items=items, next=None)


def find_replay(session: Session, detector: Detector, version: Version) -> Replay:
    """Return what *version* said of the inputs labelled at random for other versions.

    Labels that were there before the version are one stream, and those that came later
    another, for each of the other versions.  A stream that says nothing is left out.
    """
    streams: dict[tuple[int | None, bool], list[_Member]] = {}
    seen: set[str] = set()
    put = late = 0
    standings = standings_of(LIVE, detector.label_sampling)
    for row in iter_replayed(session, detector.id, version.id, standings=standings):
        if row.input in seen:
            continue
        seen.add(row.input)
        put += row.asked is not None
        late += row.asked is not None and _first_label(row) < row.asked
        place = row.version_id, _first_label(row) > version.created_at
        # Whether it said something of the input without its label.
        is_blind = row.asked and (version.unseen or _first_label(row) > row.asked)
        predicted = row.predicted if is_blind else None
        rank = rank_query(detector.queue_seed, row._mapping)
        streams.setdefault(place, []).append(_Member(rank, row.label, predicted))
    taken = [one for some in streams.values() for one in _take_lowest(some)]
    cells = Counter((one.label, one.predicted) for one in taken if one.predicted)
    missing = Counter(one.label for one in taken if one.predicted is None)
    usable = sum(one.predicted is not None for some in streams.values() for one in some)
    because = NOT_RANDOM if not put else SEEN
    if usable:
        because = (
            f"it was put to {put:,} of the {len(seen):,} inputs that were labelled at "
            "random for other versions, which are neither all nor the first ones of a "
            "replay; put it to the others, or label queries of its own"
        )
    # A pair beyond the first gap, or one with a label that was seen, is counted too.
    is_whole = taken and not missing and cells.total() == put
    others = load_versions(session, [detector.id], [one for one, _ in streams if one])
    awaited = count_unlabelled(session, detector, others.values())
    return Replay(
        cells,
        missing,
        None if taken else because,
        None if is_whole else because,
        awaited,
        len(seen) - cells.total(),
        blind=0 if late else put,
    )


def _first_label(row: Any) -> datetime:
    found: datetime = min(one for one in (row.labelled, row.referred) if one)
    return found


def _take_lowest(members: Sequence[_Member]) -> list[_Member]:
    """Return the most members of lowest rank of which at most a tenth is missing.

    An empty list if these are less than half of those that are there: it was put to
    other inputs.
    """
    ordered = sorted(members, key=lambda one: one.rank)
    missing = length = 0
    for number, one in enumerate(ordered, 1):
        missing += one.predicted is None
        if one.predicted is not None and _MISSING_OF * missing <= number:
            length = number
    lowest = ordered[:length]
    there = sum(one.predicted is not None for one in ordered)
    taken = sum(one.predicted is not None for one in lowest)
    return lowest if 2 * taken >= there else []


def decide_replay(
    session: Session, detector: Detector, version: Version, target: float, level: float
) -> dict[str, Any]:
    """Decide by a replay on the detector's measure, and on those beside it."""
    replay = find_replay(session, detector, version)
    if replay.because is not None:
        return {"no_decision_because": replay.because}
    wanted = [(detector.measure, target), *detector.also]
    at = replay_level(shared_level(level, len(wanted)))
    decided: list[Decision] = []
    for name, aim in wanted:
        measure = read_measure(name)
        wrong, right = Counter(replay.cells), Counter(replay.cells)
        for label, number in replay.missing.items():
            # A wrong prediction of the class lowers its precision too.
            said = NO_ANSWER if measure.of in {None, label} else measure.of
            wrong[label, said] += number
            right[label, label] += number
        is_foreseen = not replay.missing
        found, low, high = (
            decide_verdict(
                *(measure, aim, spread(one, detector.classes), at),
                missing=replay.awaited,
                is_foreseen=is_foreseen,
            )
            for one in (replay.cells, wrong, right)
        )
        if replay.missing:
            verdict = compare_with_target(low.low, high.high, aim)
            more = None if verdict == "undecided" else 0
            bounds = {"low": low.low, "high": high.high, "labels_to_decide": more}
            found = found.model_copy(update={**bounds, "verdict": verdict})
        decided.append(found)
    first, *others = decided
    return {"decision": first, "also": others, "no_decision_because": None}
