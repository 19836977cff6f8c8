"""The new queries of an import with their labels, by column and by labeler."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import compress
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.evidence.consensus import are_compared
from tracker.services.evidence.populations import population_of
from tracker.services.evidence.random_queue import (
    does_wait,
    draw_rank_of_new,
    rank_query,
)
from tracker.services.evidence.standing import stand
from tracker.services.evidence.truths import Truths
from tracker.services.evidence.units import Units
from tracker.services.fields import dump_metadata
from tracker.services.imports.checking import Columns
from tracker.services.imports.reading.rows import Row
from tracker.storage.detectors import Detector
from tracker.storage.inserting import insert_columns
from tracker.storage.labelling.rechecks import Recheck, find_rechecks
from tracker.storage.labels import Label, add_labels_of, iter_words
from tracker.storage.queries.queries import Query
from tracker.words import GROUPED, TARGETED, UNSTATED

_NOT_OF_QUERIES = ("input", "labeler", "labelled_at", "note", "weight")


def query_columns(  # noqa: PLR0913, PLR0917 - what the rows do not say themselves.
    detector: Detector,
    ids: Sequence[int],
    keys: Sequence[str],
    version_ids: Sequence[int],
    rows: Columns,
    created_at: datetime,
    truths: Truths,
) -> dict[str, Sequence[Any]]:
    """Return *rows* as the columns of queries that are new."""
    blank: list[None] = [None] * len(ids)
    no = [False] * len(ids)
    named = {
        "id": ids,
        "version_id": version_ids,
        "key": keys,
        "input": rows.get("input"),
        "group": rows.get("group"),
        "label": rows.get("label"),
        "sampling": rows.get("sampling", UNSTATED),
    } | _find_repeats(version_ids, rows, truths)
    return (
        named
        | {
            "detector_id": [detector.id] * len(ids),
            "is_group_given": rows.get("is_group_given"),
            "predicted": rows.get("predicted"),
            "confidence": rows.get("confidence"),
            "asked_at": rows.get("asked_at", created_at),
            "created_at": [created_at] * len(ids),
            "metadata": [
                None if value is None else dump_metadata(value)
                for value in rows.get("metadata")
            ],
            "image": rows.get("image"),
            "image_url": rows.get("image_url"),
            "label_id": [
                None if label is None else number
                for number, label in zip(ids, named["label"], strict=True)
            ],
            "is_replayed": no,
            "is_gold": no,
        }
        | _place(detector, named, truths, has_groups="group" in rows.values)
        | dict.fromkeys(("agreement", "tags", "erased_at", "image_erased_at"), blank)
    )


def _find_repeats(
    version_ids: Sequence[int], rows: Columns, truths: Truths
) -> dict[str, list[bool]]:
    if "input" not in rows.values:
        number = len(version_ids)
        return {"is_repeat": [False] * number, "is_pooled": [True] * number}
    inputs = rows.get("input")
    repeats = list(map(truths.repeats, version_ids, inputs))
    are_new = map(truths.is_new, inputs)
    pooled = [some or other for some, other in zip(repeats, are_new, strict=True)]
    return {"is_repeat": repeats, "is_pooled": pooled}


def _place(
    detector: Detector,
    named: Mapping[str, Sequence[Any]],
    truths: Truths,
    *,
    has_groups: bool,
) -> dict[str, list[Any]]:
    """Return what new queries count for and the ranks of those that wait."""
    labels = named["label"]
    kinds = [*zip(labels, named["sampling"], named["is_repeat"], strict=True)]
    standings = [
        None if label is None else stand(sampling, is_repeat=is_repeat)
        for label, sampling, is_repeat in kinds
    ]
    ranks: list[Any] = [None] * len(labels)
    if not has_groups and None in labels:
        # Without a mapping for each row, which would take as long as the hash.
        columns = zip(named["id"], named["input"], kinds, strict=True)
        ranks = [
            rank_query(detector.queue_seed, name or number)
            if does_wait(label, sampling, is_repeat=is_repeat)
            else None
            for number, name, (label, sampling, is_repeat) in columns
        ]
    if has_groups:
        _group(detector, named, truths.units, standings, ranks)
    kept = [
        rank if name is None or truths.get(name) is None else None
        for rank, name in zip(ranks, named["input"], strict=True)
    ]
    return {"standing": standings, "queue_rank": ranks, "rank": kept}


def _group(
    detector: Detector,
    named: Mapping[str, Sequence[Any]],
    units: Units,
    standings: list[str | None],
    ranks: list[Any],
) -> None:
    """Set the *standings* and *ranks* of new queries that may have groups."""
    known = [*set(filter(None, standings))]
    populations = {one: population_of(one, detector.label_sampling) for one in known}
    columns = (named[name] for name in ("version_id", "group", "id", "key"))
    for row, (version_id, group, number, key, standing) in enumerate(
        zip(*columns, [*standings], strict=True)
    ):
        if standing is None:
            query = {name: values[row] for name, values in named.items()}
            if group is None or not units.is_spent(query):
                ranks[row] = draw_rank_of_new(detector, query, label=None)
            continue
        population = populations[standing]
        if group is None or population is None:
            continue
        if not units.place_new((version_id, group, population), number, key):
            standings[row] = GROUPED


def add_new(
    session: Session, queries: Mapping[str, Sequence[Any]], rows: Columns, by: By
) -> Mapping[str, Sequence[Any]]:
    """Insert *queries* that were made of *rows*, and their labels.

    The ids follow on each other.  Return the labels as columns, or nothing where the
    database can make them from the queries: the rows say no more of them, and have no
    input, whose other queries would get the label too.
    """
    insert_columns(session, Query, queries)
    if rows.values.keys().isdisjoint(_NOT_OF_QUERIES):
        ends = queries["id"][0], queries["id"][-1]
        detector_id = queries["detector_id"][0]
        add_labels_of(session, detector_id, ends, by.name, by.at)
        return {}
    labels = label_columns(queries, rows, by.name)
    insert_columns(session, Label, labels)
    return labels


def label_columns(
    queries: Mapping[str, Sequence[Any]], rows: Columns, labeler: str
) -> dict[str, Sequence[Any]]:
    """Return the labels in *rows* as columns, of the *queries* made from them."""
    is_given = [label is not None for label in queries["label"]]
    number = sum(is_given)
    created_at = queries["created_at"][0]
    columns: dict[str, Sequence[Any]] = {
        "id": queries["label_id"],
        "query_id": queries["id"],
        "detector_id": queries["detector_id"],
        "label": queries["label"],
        "standing": queries["standing"],
        "sampling": queries["sampling"],
        "note": rows.get("note"),
        "labeler": rows.get("labeler", labeler),
        "labelled_at": rows.get("labelled_at", created_at),
        "created_at": queries["created_at"],
        "is_repeat": queries["is_repeat"],
        "weight": rows.get("weight"),
    }
    for name, values in columns.items():
        columns[name] = list(compress(values, is_given))
    none: list[None] = [None] * number
    return columns | dict.fromkeys(("replaces_id", "truth", "source_label_id"), none)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    lines = zip(*columns.values(), strict=True)
    return [dict(zip(columns, line, strict=True)) for line in lines]


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
        self._seconds = find_rechecks(self._session, self._detector.id, query_ids)

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
