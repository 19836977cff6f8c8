"""The last labels or days of a detector, beside all of them."""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
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
    text: str | None,
    since: datetime | None,
    method: str,
    *,
    at: datetime,
    until: datetime | None = None,
) -> tuple[int | None, datetime | None]:
    """Return the window that *text* names: so many labels, or asked since an instant.

    Raises InvalidInputError for any *method* but `exact`, whose interval alone is
    proven to hold for the average of a window in which the accuracy drifts.
    """
    check_method(method)
    last = None
    if text is not None:
        if since is not None:
            why = "must not be given together with since"
            raise InvalidInputError.of("window", why)
        if method != EXACT:
            raise invalid("method", method, "a window supports only the method exact")
        if _COUNT.fullmatch(text) and int(text) <= MOST_LABELS:
            last = int(text)
        elif text[-1:].isalpha() and text[-1:].islower():
            try:
                since = parse_when(text, at=at)
            except ValueError as error:
                raise invalid("window", text, _RIGHT) from error
        else:
            raise invalid("window", text, _RIGHT)
    if since is not None and until is not None and since >= until:
        raise InvalidInputError.of("until", "it must be later than since")
    return last, since


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
    size = len(detector.classes)
    before, classes, is_correct, asked = _load(session, detector, version)
    most = min(_MOST_MOMENTS, max(5, _MOST_SCORED // size))
    step = max(1, -(-len(moments) // most))
    places, correct, labelled = [], [], []
    for one in moments[::-step][::-1]:
        # Which labels lay in the window then, and whether all of them are here.
        end = max(one.labels - before, 0)
        if since is None:
            # Some may have been erased since.
            chosen = np.arange(end - (last or 0), min(end, len(classes)))
            is_whole = end >= (last or 0)
        else:
            until = one.computed_at.timestamp()
            begun = until - (at - since).total_seconds()
            chosen = np.flatnonzero((asked[:end] > begun) & (asked[:end] <= until))
            is_whole = bool(chosen.size and (not before or chosen[0] > 0))
        if not is_whole:
            continue
        places.append(one)
        labelled.append(np.bincount(classes[chosen], minlength=size).tolist())
        is_right = chosen[is_correct[chosen]]
        correct.append(np.bincount(classes[is_right], minlength=size).tolist())
    if not places:
        return []
    scores = score_window(correct, labelled, detector.confidence_level)
    return [
        Moment(labels=one.labels, computed_at=one.computed_at, **dict(score[0]))
        for one, score in zip(places, scores, strict=True)
    ]


def _load(session: Session, detector: Detector, version: Version) -> tuple[Any, ...]:
    """Return how many scored labels came before the last ones, and these by array.

    Their classes, whether they are correct, and when they were asked: oldest first.
    """
    counts = current_counts(session, [version])[version.id]
    _, standings = pick_population(detector, counts)
    rows = list_newest_scored(
        session, detector.id, version.id, standings, limit=_MOST_READ
    )[::-1]
    number_of = {name: number for number, name in enumerate(detector.classes)}
    return (
        max(0, counts.scored(standings) - len(rows)),
        np.array([number_of[row.label] for row in rows], dtype=np.int64),
        np.array([row.label == row.predicted for row in rows], dtype=bool),
        np.array([row.asked_at.timestamp() for row in rows]),
    )
