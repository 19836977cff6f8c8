"""Several people's labels of one query: which class is scored, and who settles it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from tracker.errors import ConflictError
from tracker.services.by import Actor
from tracker.storage.detectors import AnyDetector
from tracker.words import AGREED, DISPUTED, EDITOR, MAJORITY, NEWEST, SETTLED


class SettledError(ConflictError):
    """An editor has settled the query, and the labeler is not an editor."""

    def __init__(self) -> None:
        super().__init__(
            "an editor has settled this query; only an editor or an admin may change "
            "its label"
        )


def is_closed(query: Any, actor: Actor) -> bool:
    """Return whether *actor* may not change the label of a settled query."""
    return query.agreement == SETTLED and not actor.may(EDITOR)


class Consensus(NamedTuple):
    """The class of a query by its labelers."""

    label: str
    agreement: str | None
    # Whether more people are to be asked.
    is_open: bool
    is_scored: bool = True


def are_compared(detector: AnyDetector, agreement: str | None) -> bool:
    return detector.labels_wanted > 1 or agreement is not None


def find_consensus(  # noqa: PLR0911, PLR0913 - one end for each case.
    detector: AnyDetector,
    agreement: str | None,
    newest: str,
    words: Mapping[str, str],
    *,
    second: str | None = None,
    settles: bool = False,
) -> Consensus:
    """Return the class of a query by the newest label of each labeler.

    *agreement* is where the query stood before, *words* has the labels by labeler,
    without those that were picked on purpose: the *newest* may be one of these.
    With one label wanted, and one labeler so far, the newest label is the class.
    Otherwise it is what more than half of them say, once as many have answered as the
    detector wants; without a majority the query is disputed.  With the detector's
    consensus ``newest`` the newest label is scored all the same.  The *second* label
    of a re-check makes a dispute known and changes no class.

    Raises ConflictError for a label that settles a query that is not disputed.
    """
    if settles and agreement != DISPUTED:
        raise ConflictError("nobody disputes this query, so there is nothing to settle")
    if settles or agreement == SETTLED:
        return Consensus(newest, SETTLED, is_open=False)
    if len(words) < 2 and detector.labels_wanted == 1 and second is None:
        return Consensus(newest, None, is_open=False)
    if not words and second is None:
        # All were picked on purpose, and are no word of a majority.
        return Consensus(newest, None, is_open=True, is_scored=False)
    is_open = len(words) < detector.labels_wanted
    has_all = not is_open or detector.consensus == NEWEST
    said = set(words.values()) | ({second} if second is not None else set())
    [(most, number)] = Counter(words.values()).most_common(1) or [(newest, 1)]
    has_majority = 2 * number > len(words)
    if newest not in said:
        newest = most
    if len(said) == 1:
        is_compared = len(words) + (second is not None) > 1
        return Consensus(newest, AGREED if is_compared else None, is_open, has_all)
    if detector.consensus == NEWEST:
        return Consensus(newest, DISPUTED, is_open)
    if is_open or not has_majority:
        return Consensus(newest, DISPUTED, is_open, is_scored=False)
    return Consensus(most, DISPUTED if len(words) < 2 else MAJORITY, is_open=False)
