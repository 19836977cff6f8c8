"""The random queue: which queries are labelled, and in which order.

Each query gets a rank from 0 up to 1 when it arrives, a hash of its id, or of its
input, and of the detector's seed.  The queue holds those below the detector's rate
and goes by the ranks, so that whatever has been labelled is a random part of what has
arrived.
"""

import secrets
from hashlib import sha256

from tracker.storage.detectors import Detector
from tracker.words import TARGETED


def draw_seed() -> str:
    """Return a seed that nobody can foresee."""
    return secrets.token_hex(16)


def rank_query(seed: str, place: int | str) -> float:
    """Return the rank of a query by its id, or by its input where it has one.

    Any two are independent, and each is uniform.  Of an input it is the same in every
    version: what one version's queue has labelled is, up to some rank, a random part
    of another's queries too.
    """
    mark = "" if isinstance(place, int) else "input:"
    digest = sha256(f"{seed}:{mark}{place}".encode()).digest()
    # 53 bits are what both databases and Python keep of a number.
    return (int.from_bytes(digest[:7]) >> 3) / 2**53


def rank_new_query(
    detector: Detector,
    query_id: int,
    *,
    label: str | None,
    sampling: str,
    name: str | None = None,
) -> float | None:
    """Return the rank of a query that arrives, None if it does not wait for a label.

    What arrives as picked on purpose is no part of what is drawn from.  *name* is
    that of its input.
    """
    if label is not None or sampling == TARGETED:
        return None
    return rank_query(detector.queue_seed, query_id if name is None else name)
