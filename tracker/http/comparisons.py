"""What random labels would have given an audit, kept until a round begins."""

import threading
from collections import OrderedDict

from flask import current_app

from tracker.services.labelling.auditing.audit_draws import Record
from tracker.services.labelling.auditing.audit_reasons import (
    Comparison,
    compare_with_random,
)
from tracker.storage.labelling.auditing.audits import Audit

_EXTENSION = "tracker-comparisons"
_MOST = 200


class Comparisons:
    """The comparison of each audit, which takes about a second to simulate.

    It goes by the labels from before the last round, so that it is right until
    another round begins, the goal is another one or such a label is corrected.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int, str], Comparison] = OrderedDict()

    def find(self, audit: Audit, record: Record) -> Comparison:
        """Return the comparison of *audit* as of its last round."""
        key = (audit.id, len(record.rounds), record.digests[-1])
        with self._lock:
            found = self._known.pop(key, None)
        # Two at once may both simulate; they find the same.
        found = found or compare_with_random(audit, record)
        with self._lock:
            self._known[key] = found
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return found


def find_comparison(audit: Audit, record: Record) -> Comparison:
    known = current_app.extensions.setdefault(_EXTENSION, Comparisons())
    assert isinstance(known, Comparisons)
    return known.find(audit, record)
