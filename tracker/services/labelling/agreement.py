"""Several labelers for one query: whether they agree, and who settles it."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import Actor
from tracker.storage.detectors import AnyDetector
from tracker.storage.labelling import labels as labels_storage
from tracker.storage.labelling.rechecks import Recheck, find_recheck
from tracker.storage.queries.queries import AnyQuery
from tracker.words import AGREED, DISPUTED, EDITOR, SETTLED, TARGETED


class SettledError(ConflictError):
    """An editor has settled the query, and the labeler is not an editor."""

    def __init__(self) -> None:
        """Say who may change it."""
        super().__init__(
            "an editor has settled this query; only an editor or an admin may change "
            "its label"
        )


def is_closed(query: AnyQuery, actor: Actor) -> bool:
    """Return whether the label of *query* stays, whatever *actor* answers."""
    return query.agreement == SETTLED and not actor.may(EDITOR)


@dataclass(frozen=True, slots=True)
class Standing:
    """What the labels of a query come to."""

    agreement: str | None
    # Whether somebody else is to be asked too.
    is_open: bool


def weigh(
    session: Session,
    detector: AnyDetector,
    query: AnyQuery,
    *,
    settles: bool,
) -> Standing:
    """Return where *query* stands, whose newest label is stored already.

    The last word of each labeler counts.  What is settled stays so.  Raises
    ConflictError for a label that settles what nobody disputes.
    """
    if settles and query.agreement != DISPUTED:
        raise ConflictError("nobody disputes this query, so there is nothing to settle")
    if settles:
        return Standing(SETTLED, is_open=False)
    last_words: dict[str, str] = {}
    second = None
    if detector.labels_wanted > 1 or query.agreement is not None:
        for label in labels_storage.list_labels(session, query):
            if label.sampling != TARGETED:
                last_words.setdefault(label.labeler, label.label)
        second = find_recheck(session, query.id)
    return weigh_words(detector, query.agreement, last_words, second)


def weigh_words(
    detector: AnyDetector,
    agreement: str | None,
    last_words: Mapping[str, str],
    second: Recheck | None = None,
) -> Standing:
    """Return where a query stands by the last word of each of its labelers.

    And by what was said the *second* time, where it was drawn to be asked again.
    """
    if agreement == SETTLED:
        return Standing(SETTLED, is_open=False)
    if detector.labels_wanted == 1 and agreement is None:
        return Standing(None, is_open=False)
    words = dict(last_words)
    # The person who gave the label a second time does not count as one who was asked.
    if second is not None and second.answer is not None:
        words.setdefault(str(second.labeler), second.answer)
    agreement = None
    if len(words) > 1:
        agreement = AGREED if len(set(words.values())) == 1 else DISPUTED
    return Standing(agreement, is_open=len(last_words) < detector.labels_wanted)


def choose_sampling(session: Session, query: AnyQuery, *, settles: bool) -> str:
    """Return how a label of *query* was come by that does not say so itself.

    Only words on what chance drew are disputed, so that what settles them counts as
    they do, though somebody may have picked the query out meanwhile.
    """
    if settles and query.sampling == TARGETED:
        for label in labels_storage.list_labels(session, query):
            if label.sampling != TARGETED:
                return label.sampling
    return query.sampling
