"""What random labels would have given an audit, kept until a round begins."""

from collections import OrderedDict

from flask import current_app

from tracker.services.labelling.auditing.audit_draws import Record
from tracker.services.labelling.auditing.audit_estimates import (
    Comparison,
    compare_with_random,
)
from tracker.storage.labelling.audits import Audit

_EXTENSION = "tracker-comparisons"
_MOST = 200


def find_comparison(audit: Audit, record: Record) -> Comparison:
    """Return the comparison of *audit*, which takes about a second to simulate.

    It goes by the labels from before the last round, so that it is right until
    another round begins, the goal is another one or such a label is corrected.
    """
    found = OrderedDict[tuple[int, int, str], Comparison]()
    known = current_app.extensions.setdefault(_EXTENSION, found)
    key = (audit.id, len(record.rounds), record.digests[-1])
    # Two threads at once may both simulate; they find the same.
    comparison = known.pop(key, None) or compare_with_random(audit, record)
    known[key] = comparison
    for old in [*known][:-_MOST]:
        known.pop(old, None)
    assert isinstance(comparison, Comparison)
    return comparison
