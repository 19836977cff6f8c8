"""Why an audit drew what it drew, and whether choosing has helped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.labelling.auditing.audit_draws import Record, load_record
from tracker.services.labelling.auditing.audits import goal_of
from tracker.services.wording import dump_instant
from tracker.stats import (
    UNIT,
    Step,
    imagine_average,
    label_shares,
    round_length,
    without_judges,
)
from tracker.storage.base import dump_id
from tracker.storage.labelling.auditing.audits import Audit

DRAW_COLUMNS = [
    *("draw", "round", "query", "key", "predicted", "confidence", "label"),
    *("chance", "times_average", "labeler", "drawn_at"),
]
# Before so many labels the detector's confidences have hardly been put to the test.
_ENOUGH = 100
# As narrow is an interval when nothing is open but the last digits.
_NOTHING = 1e-4


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one query was drawn.

    It had *chance*, which is *times_average* that of an average query, and counts
    the inverse of that.  *expected_wrong* is what the model thought of its
    prediction when the round began.
    """

    draw: Any
    round: int
    chance: float
    times_average: float
    expected_wrong: float


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
        chance = int(frozen.weights[draw.stratum]) / int(left @ frozen.weights)
        yield Reason(
            draw=draw,
            round=number,
            chance=chance,
            times_average=chance * int(left.sum()),
            expected_wrong=int(frozen.wrong[draw.stratum]) / UNIT,
        )
        left[draw.stratum] -= 1


def find_last_reason(record: Record) -> Reason | None:
    """Return why the last draw that has its answer was drawn; before it is a secret."""
    answered = [one for one in iter_reasons(record) if one.draw.label is not None]
    return answered[-1] if answered else None


def list_draw_rows(
    session: Session, audit: Audit
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the draws of an audit in order, each with the chance it was drawn by.

    The labels are no random sample: each has to be weighed by its chance.
    """
    rows = [
        {
            "draw": one.draw.number,
            "round": one.round,
            "query": dump_id("iq", one.draw.query_id),
            "key": one.draw.key,
            "predicted": one.draw.predicted,
            "confidence": one.draw.confidence,
            "label": one.draw.label,
            "chance": one.chance,
            "times_average": one.times_average,
            "labeler": one.draw.labeler,
            "drawn_at": dump_instant(one.draw.drawn_at),
        }
        for one in iter_reasons(load_record(session, audit, in_full=True))
    ]
    return DRAW_COLUMNS, rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """How an audit closes in when it chooses, and when chance alone does.

    Both are simulated by what the labels had taught when the last round began, and
    are means of a few audits, so that the luck of none of them counts.  Their rounds
    are longer than those of an audit and their intervals somewhat wider, both alike:
    so only what lies between the two is told of an audit.
    """

    chosen: Sequence[Step]
    even: Sequence[Step]
    # As chosen without what judges said; empty where none said anything.
    unjudged: Sequence[Step] = ()

    def at_random(self, steps: Sequence[Step]) -> list[Step]:
        """Return what random labels would be expected to have given beside *steps*."""
        found = []
        for one in self.even:
            if one.labels <= steps[-1].labels:
                middle = (one.low + one.high) / 2.0
                half = self._ratio(self.even, one.labels) * _half_width(
                    steps, one.labels
                )
                low, high = max(0.0, middle - half), min(1.0, middle + half)
                found.append(Step(one.labels, low, high))
        return found

    def half_width_at_random(self, draws: int, half_width: float) -> float:
        """Return what so many random labels would have given for that *half_width*."""
        return half_width * self._ratio(self.even, draws)

    def labels_saved(self, draws: int) -> int | None:
        """Return how many random labels the choice has saved; below 0 it has cost.

        None before there are enough labels to tell.
        """
        return self._saved(self.even, draws)

    def saved_by_judges(self, draws: int) -> int | None:
        """Return how many labels the judges have saved; below 0 they have cost some.

        None without judges, and before there are enough labels to tell.
        """
        return self._saved(self.unjudged, draws) if self.unjudged else None

    def _saved(self, other: Sequence[Step], draws: int) -> int | None:
        if draws < _ENOUGH:
            return None
        return round(draws * (self._ratio(other, draws) ** 2 - 1.0))

    def _ratio(self, other: Sequence[Step], draws: int) -> float:
        """Return how many times as wide the *other* interval is.

        They are compared where a simulated round ends: within one the intervals of
        choice narrow at a pace that no line between two ends follows.
        """
        ends = list(zip(self.chosen, other, strict=False))
        later = (both for both in ends if both[0].labels >= draws)
        chosen, wide = (one.half_width for one in next(later, ends[-1]))
        # Once nearly all is labelled, there is nothing to choose.
        return wide / chosen if chosen > _NOTHING else 1.0


def compare_with_random(audit: Audit, record: Record) -> Comparison:
    """Return how random labels would have done, as known when the last round began."""
    start = record.ledger.rounds[-1].start
    ledger = replace(
        record.ledger,
        drawn=record.ledger.drawn[:start],
        labels=record.ledger.labels[:start],
    )
    goal, known = goal_of(audit), ledger.known[-1]
    shares = label_shares(ledger, known, goal)
    courses = [(ledger.strata, shares, known, is_even) for is_even in (False, True)]
    if ledger.strata.verdicts.size:
        courses.append((*without_judges(ledger.strata, shares, known), False))
    return Comparison(
        *(
            imagine_average(
                *(strata, some, there, goal, audit.confidence_level),
                is_even=is_even,
                draws=start + round_length(start),
            )
            for strata, some, there, is_even in courses
        )
    )


def _half_width(steps: Sequence[Step], draws: int) -> float:
    """Return the half-width at so many draws, between or beyond the steps."""
    later = [one for one in steps if one.labels >= draws]
    before = [one for one in steps if one.labels <= draws][-1]
    if not later:
        # The square of the width goes with 1 / labels.
        return float(before.half_width * (before.labels / draws) ** 0.5)
    after = later[0]
    if after.labels == before.labels:
        return after.half_width
    share = (draws - before.labels) / (after.labels - before.labels)
    return before.half_width + share * (after.half_width - before.half_width)
