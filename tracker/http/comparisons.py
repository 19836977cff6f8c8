"""A cache of the comparisons of audits with random labels."""

from collections import OrderedDict

from flask import current_app

from tracker.services.labelling.auditing.audit_draws import Record
from tracker.services.labelling.auditing.audit_estimates import (
    Comparison,
    compare_with_random,
)

_EXTENSION = "tracker-comparisons"
_MOST = 200


def find_comparison(record: Record) -> Comparison:
    """Return the comparison of an audit, which takes about a second to simulate.

    It uses the labels from before the last round, so it stays right until another round
    begins, the goal changes or one of those labels is corrected.
    """
    found = OrderedDict[tuple[int, int, str], Comparison]()
    known = current_app.extensions.setdefault(_EXTENSION, found)
    key = (record.audit.id, len(record.rounds), record.digests[-1])
    # No lock: two threads at once may both simulate and find the same.
    comparison = known.pop(key, None) or compare_with_random(record)
    known[key] = comparison
    for old in [*known][:-_MOST]:
        known.pop(old, None)
    assert isinstance(comparison, Comparison)
    return comparison
