"""The random audit queue: which queries are labelled, and in which order.

Each query gets a rank from 0 up to 1 when it arrives, a hash of its id and of the
detector's seed.  The queue holds those below the detector's rate and goes by the
ranks, so that whatever has been labelled is a random part of what has arrived.
"""

import secrets
from hashlib import sha256

from tracker.storage.detectors import Detector

TARGETED = "targeted"


def draw_seed() -> str:
    """Return a seed that nobody can foresee."""
    return secrets.token_hex(16)


def rank_query(seed: str, query_id: int) -> float:
    """Return the rank of a query; any two are independent, and each is uniform."""
    digest = sha256(f"{seed}:{query_id}".encode()).digest()
    # 53 bits are what both databases and Python keep of a number.
    return (int.from_bytes(digest[:7]) >> 3) / 2**53


def rank_new_query(
    detector: Detector, query_id: int, *, label: str | None, sampling: str
) -> float | None:
    """Return the rank of a query that arrives, None if it does not wait for a label.

    What arrives as picked on purpose is no part of what is drawn from.
    """
    if label is not None or sampling == TARGETED:
        return None
    return rank_query(detector.audit_seed, query_id)
