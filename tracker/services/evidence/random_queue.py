"""The random queue: which queries are labelled, and in which order.

Each query gets a rank from 0 up to 1 when it arrives, a hash of its id, or of its
input, and of the detector's seed.  The queue holds those below the detector's rate
and goes by the ranks, so that whatever has been labelled is a random part of what has
arrived.

Groups have ranks too, and the queries of one follow each other: the queue asks for one
of each group, whose chance does not grow with the size of the group.
"""

import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from tracker.storage.detectors import Detector
from tracker.words import TARGETED

# The first bits of the rank of a query in a group are those of the group.
_GROUP_BITS, _MEMBER_BITS = 32, 21


def draw_seed() -> str:
    return secrets.token_hex(16)


def hash_to_unit(seed: str, place: int | str) -> float:
    """Return a uniform number from 0 up to 1 for an id, or for a text such as an input.

    Of an input it is the same in every version: what one version's queue has labelled
    is, up to some rank, a random part of another's queries too.
    """
    mark = "" if isinstance(place, int) else "input:"
    return _hash(f"{seed}:{mark}{place}")


def _hash(text: str) -> float:
    digest = sha256(text.encode()).digest()
    # 53 bits are what both databases and Python keep of a number.
    return (int.from_bytes(digest[:7]) >> 3) / 2**53


def rank_member(seed: str, query: Mapping[str, Any]) -> float:
    """Return the rank of *query* in its group; a file is ranked before it has ids."""
    if query["input"] is None and query["key"] is not None:
        return rank_key(seed, query["key"])
    return hash_to_unit(seed, query["input"] or query["id"])


def rank_key(seed: str, key: str) -> float:
    """Return the rank in its group of a query with a *key* and without an input."""
    return _hash(f"{seed}:key:{key}")


def group_span(seed: str, group: str) -> tuple[float, float]:
    """Return the ranks from and below which all queries of *group* lie."""
    first = int(_hash(f"{seed}:group:{group}") * 2**_GROUP_BITS)
    return first / 2**_GROUP_BITS, (first + 1) / 2**_GROUP_BITS


def rank_query(seed: str, query: Mapping[str, Any]) -> float:
    """Return the rank of *query* in the random queue."""
    if query["group"] is None:
        return hash_to_unit(seed, query["input"] or query["id"])
    low, _ = group_span(seed, query["group"])
    place = int(rank_member(seed, query) * 2**_MEMBER_BITS)
    return low + place / float(2 ** (_GROUP_BITS + _MEMBER_BITS))


def rank_version(seed: str, version_id: int, name: str) -> float:
    """Return the rank of a version among those that the input *name* was put to."""
    return _hash(f"{seed}:version:{version_id}:{name}")


def does_wait(label: str | None, sampling: str, *, is_repeat: bool) -> bool:
    """Return whether a new query waits for a label: no picked one, and no repeat."""
    return label is None and sampling != TARGETED and not is_repeat


def rank_new_query(
    detector: Detector, query: Mapping[str, Any], *, label: str | None
) -> float | None:
    """Return the rank of a query that arrives, None if it does not wait for a label."""
    if not does_wait(label, query["sampling"], is_repeat=query["is_repeat"]):
        return None
    return rank_query(detector.queue_seed, query)
