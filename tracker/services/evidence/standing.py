"""One decision for every label: what it counts for, and why.

The *standing* of a query says what its current label counts for.  It is stored with
each label, so that the counts, a recount and a replay follow from the labels alone.

===================  ===============================================================
standing             how the label came
===================  ===============================================================
random               drawn by the random queue, or sent as ``random``
unstated             sent without a word on how the query was chosen; the detector's
                     ``label_sampling`` says what such labels count for
targeted             the query was picked because of what it is
replayed             taken over by ``input`` from a random label of another version
replayed_unstated    the same, from an unstated label
repeat               the version was put to the same input before
grouped              another query of its group counts, see ``units``
open                 fewer people have answered than the detector wants
disputed             as many have answered, without a majority
===================  ===============================================================

The first label of a query decides its standing.  Later ones correct its class.  If a
later label could move a query out of the random sample, mistakes could be moved out of
it.  A draw of the random queue, or the word ``random``, does move a query in: its rank
depends on nothing that is known of it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from tracker.errors import ConflictError
from tracker.services.by import Actor
from tracker.services.evidence.populations import RANDOM_ENOUGH, base_standing
from tracker.services.evidence.units import Units
from tracker.storage.detectors import AnyDetector
from tracker.words import (
    AGREED,
    DISPUTED,
    EDITOR,
    GROUPED,
    MAJORITY,
    NEWEST,
    OPEN,
    RANDOM,
    REPEAT,
    REPLAYED_UNSTATED,
    SETTLED,
    TARGETED,
    UNSTATED,
)


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
    without those that were picked on purpose: the *newest* may be one of these.  With
    one label wanted, and one labeler so far, the newest label is the class.  Otherwise
    it is what more than half of them say, once as many have answered as the detector
    wants. The *second* label of a re-check makes a dispute known and changes no class.

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


class Decision(NamedTuple):
    """What a query is labelled with, and what that counts for."""

    label: str
    sampling: str
    standing: str
    is_replayed: bool
    agreement: str | None
    # Whether more people are to be asked.
    is_open: bool
    # Whether those who have answered came to a class that can be scored.
    is_scored: bool = True
    # Whether another query of its group counts, so that none is asked for.
    is_spent: bool = False


def decide_standing(  # noqa: PLR0913 - what is said of which query, and by whom.
    query: Mapping[str, Any],
    detector: Any,
    label: str,
    *,
    said: str | None,
    words: Mapping[str, str],
    second: str | None = None,
    settles: bool = False,
    units: Units | None = None,
) -> Decision:
    """Decide what *query*, as it was before, counts for once *label* is given to it.

    *said* is the sampling that came with the label, or ``random`` for a query drawn by
    the random queue.  *words* has the newest label of each labeler that is not
    targeted, the new one included, where several people may answer; *second* is the
    answer of a re-check, which is compared and never scored.
    """
    sampling = choose_query_sampling(query, said)
    is_replayed = query["is_replayed"] and said != RANDOM
    found = find_consensus(
        detector, query["agreement"], label, words, second=second, settles=settles
    )
    return _stand_in_group(query, found, sampling, is_replayed, units)


def choose_query_sampling(query: Mapping[str, Any], said: str | None) -> str:
    """Choose why *query* counts as chosen, for a label that came with *said*."""
    if query["standing"] is None:
        return said or str(query["sampling"])
    return RANDOM if said == RANDOM else str(query["sampling"])


def choose_label_sampling(
    query: Mapping[str, Any], said: str | None, *, are_compared: bool
) -> str:
    """Choose the sampling of a label; beside others' a targeted one is no word."""
    is_none = are_compared and said == TARGETED
    return TARGETED if is_none else choose_query_sampling(query, said)


def take_over(
    query: Mapping[str, Any], given: Decision, units: Units | None = None
) -> Decision:
    """Decide what *query* counts for once it takes over the label of its input.

    A query that has a label of its own keeps its standing, and its class is corrected.
    """
    sampling, is_replayed = taken_sampling(query, given.sampling)
    return _stand_in_group(query, given, sampling, is_replayed, units)


def taken_sampling(query: Mapping[str, Any], given: str) -> tuple[str, bool]:
    """Return the sampling of *query* with a label taken over, and if it is replayed."""
    has_own = query["standing"] is not None and not query["is_replayed"]
    return (query["sampling"] if has_own else given), not has_own


def _stand_in_group(
    query: Mapping[str, Any],
    found: Consensus | Decision,
    sampling: str,
    is_replayed: bool,
    units: Units | None,
) -> Decision:
    standing, is_spent = stand(sampling, found, is_replayed=is_replayed), False
    if query["is_repeat"]:
        standing = REPEAT
    if units is not None and query["group"] is not None:
        base = base_standing(sampling, is_replayed=is_replayed)
        if standing not in {REPEAT, TARGETED} and not units.place(query, base):
            standing = GROUPED
        is_spent = units.is_spent(query)
    return Decision(
        label=found.label,
        sampling=sampling,
        standing=standing,
        is_replayed=is_replayed,
        agreement=found.agreement,
        is_open=found.is_open,
        is_scored=found.is_scored,
        is_spent=is_spent,
    )


def stand(
    sampling: str,
    found: Consensus | Decision | None = None,
    *,
    is_replayed: bool = False,
    is_repeat: bool = False,
) -> str:
    """Return the standing of a labelled query by what its labelers came to."""
    if is_repeat:
        return REPEAT
    if sampling != TARGETED and found is not None and not found.is_scored:
        return OPEN if found.is_open else DISPUTED
    return base_standing(sampling, is_replayed=is_replayed)


def keeps_rank(standing: str, label_sampling: str | None, *, is_open: bool) -> bool:
    """Return whether the random queue asks for a labelled query all the same.

    A query that somebody picked would be missing in the random sample, and so would
    one of which nobody has said whether it was picked.
    """
    # Of a group that is spent nothing is asked for, so that a grouped query is one of
    # those of which nobody has said how they were picked.
    if is_open or standing in {TARGETED, GROUPED}:
        return True
    is_unstated = standing in {UNSTATED, REPLAYED_UNSTATED}
    return is_unstated and label_sampling not in RANDOM_ENOUGH


def dump_decision(decision: Decision, detector: Any) -> dict[str, Any]:
    """Return what a query is set to by *decision*, as storage takes it."""
    return {
        "label": decision.label,
        "sampling": decision.sampling,
        "standing": decision.standing,
        "is_replayed": decision.is_replayed,
        "agreement": decision.agreement,
        "keeps_rank": not decision.is_spent
        and decision.agreement != SETTLED
        and keeps_rank(
            decision.standing, detector.label_sampling, is_open=decision.is_open
        ),
    }
