"""The last labels or days of a detector, beside all of them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.intervals import check_method, score_window
from tracker.services.fields import parse_when
from tracker.services.wording import invalid
from tracker.shapes import Moment
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.replay import list_newest_scored
from tracker.words import EXACT

MOST_LABELS = 100_000
# So many labels are read for the line of a chart, and so many moments computed.
_MOST_READ = 20_000
_MOST_MOMENTS = 120
_MOST_SCORED = 2_400
_COUNT = re.compile(r"[1-9]\d{0,5}", re.ASCII)
_RIGHT = (
    f"it must be a number of labels up to {MOST_LABELS:,}, such as 500, or a time "
    "such as 12h, 7d or 2w"
)


def parse_window(
    text: str | None, since: datetime | None, method: str, *, at: datetime
) -> tuple[int | None, datetime | None]:
    """Return the window that *text* names: so many labels, or asked since an instant.

    Raises InvalidInputError for any *method* but `exact`, whose interval alone is
    proven to hold for the average of a window in which the accuracy drifts.
    """
    check_method(method)
    if text is None:
        return None, None
    if since is not None:
        raise InvalidInputError.of("window", "must not be given together with since")
    if method != EXACT:
        raise invalid("method", method, "a window supports only the method exact")
    if _COUNT.fullmatch(text) and int(text) <= MOST_LABELS:
        return int(text), None
    if text[-1:].isalpha() and text[-1:].islower():
        try:
            return None, parse_when(text, at=at)
        except ValueError as error:
            raise invalid("window", text, _RIGHT) from error
    raise invalid("window", text, _RIGHT)


@dataclass(frozen=True, slots=True)
class _Labels:
    """The scored labels of a version that came last, the oldest first."""

    # How many came before the first of these.
    before: int
    classes: npt.NDArray[np.int64]
    is_correct: npt.NDArray[np.bool_]
    asked: npt.NDArray[np.float64]

    def count(
        self, chosen: slice | npt.NDArray[np.intp], number: int
    ) -> tuple[list[int], list[int]]:
        classes, is_correct = self.classes[chosen], self.is_correct[chosen]
        labelled = np.bincount(classes, minlength=number)
        correct = np.bincount(classes[is_correct], minlength=number)
        return correct.tolist(), labelled.tolist()


def roll(  # noqa: PLR0913 - which labels, and at which moments.
    session: Session,
    detector: Detector,
    version: Version,
    moments: Sequence[Moment],
    *,
    window: str,
    at: datetime,
) -> list[Moment]:
    """Return the balanced accuracy of *window* at some of *moments*, in order.

    It goes by labels as they are known now, and begins where the window is full.
    """
    last, since = parse_window(window, None, EXACT, at=at)
    lasts = None if since is None else at - since
    size = len(detector.classes)
    labels = _load(session, detector, version)
    most = min(_MOST_MOMENTS, max(5, _MOST_SCORED // size))
    step = max(1, -(-len(moments) // most))
    places, counted = [], []
    for one in moments[::-step][::-1]:
        chosen = _choose(labels, one, last, lasts)
        if chosen is None:
            continue
        places.append(one)
        counted.append(labels.count(chosen, size))
    if not counted:
        return []
    correct, labelled = zip(*counted, strict=True)
    scores = score_window(correct, labelled, detector.confidence_level)
    return [
        Moment(labels=one.labels, computed_at=one.computed_at, **dict(score[0]))
        for one, score in zip(places, scores, strict=True)
    ]


def _load(session: Session, detector: Detector, version: Version) -> _Labels:
    counts = current_counts(session, [version])[version.id]
    _, standings = pick_population(detector, counts)
    rows = list_newest_scored(
        session, detector.id, version.id, standings, limit=_MOST_READ
    )[::-1]
    number_of = {name: number for number, name in enumerate(detector.classes)}
    return _Labels(
        before=max(0, counts.scored(standings) - len(rows)),
        classes=np.array([number_of[row.label] for row in rows], dtype=np.int64),
        is_correct=np.array([row.label == row.predicted for row in rows], dtype=bool),
        asked=np.array([row.asked_at.timestamp() for row in rows]),
    )


def _choose(
    labels: _Labels, moment: Moment, last: int | None, lasts: timedelta | None
) -> slice | npt.NDArray[np.intp] | None:
    """Return which labels lay in the window at *moment*; None if not all are here."""
    end = moment.labels - labels.before
    if last is not None:
        return slice(end - last, end) if end >= last else None
    assert lasts is not None
    until = moment.computed_at.timestamp()
    asked = labels.asked[: max(end, 0)]
    is_inside = (asked > until - lasts.total_seconds()) & (asked <= until)
    found = np.flatnonzero(is_inside)
    is_whole = not labels.before or (found.size and found[0] > 0)
    return found if found.size and is_whole else None
