"""Several labelers for one query: whether they agree, and who settles it."""

from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.estimates import ScopeEstimate
from tracker.services.ranks import TARGETED
from tracker.stats.binomial import clopper_pearson
from tracker.storage import labels as labels_storage
from tracker.storage.detectors import Detector
from tracker.storage.queries import Query, count_agreement

AGREED, DISPUTED, SETTLED = "agreed", "disputed", "settled"
STATES = (AGREED, DISPUTED, SETTLED)


class SettledError(ConflictError):
    """An editor has settled the query, and whoever labels it now is none."""

    def __init__(self) -> None:
        """Say who may change it."""
        super().__init__(
            "an editor has settled this query; only an editor or an admin may change "
            "its label"
        )


def is_closed(query: Query, *, is_editor: bool) -> bool:
    """Return whether the label of *query* stays, whatever this labeler says."""
    return query.agreement == SETTLED and not is_editor


@dataclass(frozen=True, slots=True)
class Standing:
    """What the labels of a query come to."""

    agreement: str | None
    # Whether somebody else is to be asked too.
    is_open: bool


def weigh(
    session: Session, detector: Detector, query: Query, *, settles: bool
) -> Standing:
    """Return where *query* stands, whose newest label is stored already.

    The last word of each labeler counts.  What is settled stays so.  Raises
    ConflictError for a label that settles what nobody disputes.
    """
    if settles and query.agreement != DISPUTED:
        raise ConflictError("nobody disputes this query, so there is nothing to settle")
    if settles or query.agreement == SETTLED:
        return Standing(SETTLED, is_open=False)
    if detector.labels_wanted == 1 and query.agreement is None:
        return Standing(None, is_open=False)
    last_words: dict[str, str] = {}
    for label in labels_storage.list_labels(session, query):
        if label.sampling != TARGETED:
            last_words.setdefault(label.labeler, label.label)
    agreement = None
    if len(last_words) > 1:
        agreement = AGREED if len(set(last_words.values())) == 1 else DISPUTED
    return Standing(agreement, is_open=len(last_words) < detector.labels_wanted)


def choose_sampling(session: Session, query: Query, *, settles: bool) -> str:
    """Return how a label of *query* was come by that does not say so itself.

    Only words on what chance drew are disputed, so that what settles them counts as
    they do, though somebody may have picked the query out meanwhile.
    """
    if settles and query.sampling == TARGETED:
        for label in labels_storage.list_labels(session, query):
            if label.sampling != TARGETED:
                return label.sampling
    return query.sampling


@dataclass(frozen=True, slots=True)
class Agreement:
    """On how many of the queries that several people labelled they agreed."""

    share: ScopeEstimate
    disputed: int


def get_agreement(session: Session, detector: Detector) -> Agreement:
    """Return how often labelers agree, with the exact interval of that share."""
    counts = count_agreement(session, detector.id)
    agreed, compared = counts.get(AGREED, 0), sum(counts.values())
    low, high = clopper_pearson(
        np.array(agreed), np.array(compared), detector.confidence_level
    )
    share = ScopeEstimate(
        scope="agreement",
        correct=agreed,
        labelled=compared,
        accuracy=agreed / compared if compared else None,
        low=float(low),
        high=float(high),
    )
    return Agreement(share, counts.get(DISPUTED, 0))
