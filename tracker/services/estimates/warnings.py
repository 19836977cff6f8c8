"""What speaks against an estimate: mistakes that come in bursts."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from typing import Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.counts import pick_population
from tracker.services.evidence.populations import standings_of
from tracker.shapes import Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, midnight_in
from tracker.storage.estimates.label_changes import list_first_labelled
from tracker.storage.estimates.projections import BURSTS, Kept, Row, load_states

_FIRST_LOOK = 100
# The last look is at 6,400 labels: bursts that these do not show are weak.
_MOST_LOOKS = 7


class DependentMistakes(Shape):
    """Mistakes come in bursts, as those of one event do."""

    code: Literal["dependent_mistakes"] = "dependent_mistakes"
    message: str = Field(description="What was found, and what to do.")
    labels: int = Field(description="The first labels of the version, looked at.")
    neighbours: int = Field(
        description="Mistakes that follow another one of their class, in the order in "
        "which the queries were asked."
    )
    expected: float = Field(description="How many would if order told nothing.")


def find_warnings(  # noqa: PLR0913, PLR0917 - whose labels, and what is known of them.
    session: Session,
    detector: Detector,
    version: Version,
    population: str,
    labels: int,
    changes: Sequence[date],
) -> list[DependentMistakes]:
    """Return what to be warned of in an estimate of so many *labels* of *version*."""
    look = _looks_at(labels)
    if detector.groups is not None or not look:
        return []
    states = load_states(session, [version]).get(version.id, {})
    state = states.get((BURSTS, population))
    if state is None or state["word"] != detector.label_sampling:
        state = {"look": 0, "found": None}
    found = state["found"]
    if found is None and state["look"] < look:
        read = Look.read(session, detector, version, population, look)
        found = read.find(state["look"], changes)
    if found is None:
        return []
    message = (
        f"Mistakes come in bursts ({found['neighbours']:,} neighbouring pairs, "
        f"{found['expected']:,} expected), so the labels are not independent and the "
        "intervals are too narrow. Name what belongs together: a group for each "
        "query, or the detector's group_by"
    )
    return [DependentMistakes(message=message, **found)]


@dataclass(slots=True)
class Look:
    """The looks for bursts up to the last one that the labels of a version brought.

    Each is at the labels that had come by then, however many there are now.
    """

    place: Row
    zone: tzinfo
    word: str | None
    last: int
    # The first labels of the version.
    rows: Sequence[Any]
    found: dict[str, Any] | None = None

    @classmethod
    def read(
        cls, session: Session, detector: Detector, version: Version, *which: Any
    ) -> "Look":
        """Read the labels of *which* population, up to a look."""
        population, last = which
        standings = standings_of(population, detector.label_sampling)
        limit = _labels_of(last)
        rows = list_first_labelled(session, version, standings, limit=limit)
        place = detector.id, version.id, BURSTS, population
        return cls(place, detector.zone, detector.label_sampling, last, rows)

    def find(
        self, after: int = 0, changes: Sequence[date] = ()
    ) -> dict[str, Any] | None:
        """Return what the first look behind *after* found that leaves no doubt.

        Labels before and since a change are looked at apart: a sudden fall in the
        middle of a block would look like a burst.
        """
        starts = [midnight_in(day, self.zone) for day in changes]
        for look in range(after + 1, self.last + 1):
            some = self.rows[: _labels_of(look)]
            # By class which are mistakes, in the order of their queries.
            mistakes: dict[tuple[str, int], list[bool]] = {}
            for row in sorted(some, key=lambda row: (row.asked_at, row.id)):
                part = row.label, bisect_right(starts, row.asked_at)
                mistakes.setdefault(part, []).append(row.label != row.predicted)
            found = stats.find_bursts(list(mistakes.values()))
            if stats.bursts_are_beyond_doubt(found, len(some)):
                self.found = {
                    "labels": len(some),
                    "neighbours": found.neighbours,
                    "expected": round(found.expected, 1),
                }
                break
        return self.found

    def dump(self) -> Kept:
        state = {"look": self.last, "found": self.found, "word": self.word}
        return Kept(self.place[-1], state)


def read_looks(
    session: Session,
    detector: Detector,
    version: Version,
    counts: Counts,
    kept: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Iterator[Look]:
    """Read the next look, if it is behind the one that is *kept*."""
    if detector.groups is not None:
        return
    population, standings = pick_population(detector, counts)
    state = kept.get((BURSTS, population), {})
    look = _looks_at(counts.scored(standings))
    is_new = state.get("word") != detector.label_sampling
    if look > (0 if is_new else state.get("look", 0)):
        yield Look.read(session, detector, version, population, look)


def _looks_at(labels: int) -> int:
    return min(stats.burst_look(labels), _MOST_LOOKS)


def _labels_of(look: int) -> int:
    return int(_FIRST_LOOK * 2 ** (look - 1))
