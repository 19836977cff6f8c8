"""What several labelers say of one query, where the rows of an import name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.evidence.consensus import are_compared
from tracker.services.imports.reading.rows import Row
from tracker.storage.detectors import Detector
from tracker.storage.labelling.rechecks import Recheck, find_rechecks
from tracker.storage.labels import iter_words
from tracker.words import TARGETED


class Opinions:
    """The last word of each labeler of the queries of some rows."""

    def __init__(self, session: Session, detector: Detector) -> None:
        """Nothing is known yet."""
        self._session = session
        self._detector = detector
        self._words: dict[int, dict[str, Mapping[str, Any]]] = {}
        self._seconds: dict[int, Recheck] = {}

    def meet(self, rows: Iterable[Row], known: Iterable[Mapping[str, Any]]) -> None:
        """Read what was said of the *known* queries of *rows*, and forget others."""
        self._words, self._seconds = {}, {}
        known = list(known)
        if (
            self._detector.labels_wanted == 1
            and not any("labeler" in row.values for row in rows)
            and not any(query["agreement"] for query in known)
        ):
            return
        query_ids = [query["id"] for query in known]
        for word in iter_words(self._session, self._detector.id, query_ids):
            self._words.setdefault(word["query_id"], {})[word["labeler"]] = word
        self._seconds = find_rechecks(self._session, query_ids)

    def is_new(self, query_id: int, labeler: str, label: str) -> bool:
        """Return whether *labeler* says *label* for the first time or changes to it."""
        said = self._words.get(query_id, {}).get(labeler)
        return said is None or said["label"] != label

    def note(self, label: Mapping[str, Any]) -> None:
        """Note a new *label*."""
        self._words.setdefault(label["query_id"], {})[label["labeler"]] = label

    def are_compared(self, query: Mapping[str, Any], *, is_named: bool) -> bool:
        """Return whether what people say is: rows name them, or it was so before."""
        return is_named or are_compared(self._detector, query["agreement"])

    def of(self, query: Mapping[str, Any], *, is_named: bool) -> dict[str, Any]:
        """Return what people say of *query*, where several of them are compared."""
        if not self.are_compared(query, is_named=is_named):
            return {"words": {}}
        words = {
            labeler: word["label"]
            for labeler, word in self._words.get(query["id"], {}).items()
            if word["sampling"] != TARGETED
        }
        second = self._seconds.get(query["id"])
        return {"words": words, "second": None if second is None else second.answer}
