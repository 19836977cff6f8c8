"""What several labelers say of one query, where the rows of an import name them."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.imports.reading.rows import Row
from tracker.services.labelling.agreement import weigh_words
from tracker.services.labelling.ranks import rank_new_query
from tracker.storage.detectors import Detector
from tracker.storage.labelling.labels import iter_words
from tracker.storage.labelling.rechecks import Recheck, find_rechecks
from tracker.words import TARGETED


class Opinions:
    """The last word of each labeler of the queries of some rows."""

    def __init__(self, session: Session, detector: Detector) -> None:
        """Nothing is known yet."""
        self._session = session
        self._detector = detector
        self._words: dict[int, dict[str, Mapping[str, Any]]] = {}
        self._named: dict[int, dict[str, Any]] = {}
        self._seconds: dict[int, Recheck] = {}

    def meet(self, rows: Iterable[Row], known: Iterable[Mapping[str, Any]]) -> None:
        """Read what was said of the *known* queries of *rows*, and forget others."""
        self._words, self._named, self._seconds = {}, {}, {}
        if not any("labeler" in row.values for row in rows):
            return
        query_ids = [query["id"] for query in known]
        for word in iter_words(self._session, self._detector.id, query_ids):
            self._words.setdefault(word["query_id"], {})[word["labeler"]] = word
        self._seconds = find_rechecks(self._session, query_ids)

    def is_new(self, query_id: int, labeler: str, label: str) -> bool:
        """Return whether *labeler* says *label* for the first time or changes to it."""
        said = self._words.get(query_id, {}).get(labeler)
        return said is None or said["label"] != label

    def note(self, query: dict[str, Any], label: Mapping[str, Any]) -> None:
        """Note a *label* whose row named its labeler, and the *query* it is of."""
        self._words.setdefault(query["id"], {})[label["labeler"]] = label
        self._named[query["id"]] = query

    def settle(self, stored: Iterable[dict[str, Any]]) -> None:
        """Say where each noted query stands: in its own row, or in that of *stored*."""
        changed = {row["query_id"]: row for row in stored}
        for query_id, query in self._named.items():
            words = {
                labeler: word["label"]
                for labeler, word in self._words[query_id].items()
                if word["sampling"] != TARGETED
            }
            second = self._seconds.get(query_id)
            standing = weigh_words(self._detector, query["agreement"], words, second)
            query["agreement"] = standing.agreement
            if query_id in changed:
                changed[query_id]["agreement"] = standing.agreement
                changed[query_id]["is_open"] = standing.is_open
            elif standing.is_open and not query["is_repeat"]:
                query["queue_rank"] = rank_new_query(
                    self._detector,
                    query_id,
                    label=None,
                    sampling=query["sampling"],
                    name=query["input"],
                )
