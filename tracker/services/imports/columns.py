"""The new queries of an import and their labels, column by column."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import compress
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.evidence.decision import stand, stand_in_group
from tracker.services.evidence.ranks import rank_new_query
from tracker.services.fields import dump_metadata
from tracker.services.imports.checking import Columns
from tracker.services.labelling.truths import Truths
from tracker.storage.detectors import Detector
from tracker.storage.inserting import insert_columns
from tracker.storage.labelling.labels import Label, add_labels_of
from tracker.storage.queries.queries import Query
from tracker.words import UNSTATED

_NOT_OF_QUERIES = ("input", "labeler", "labelled_at", "note")


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
    labels, inputs = rows.get("label"), rows.get("input")
    samplings = rows.get("sampling", UNSTATED)
    repeats = no
    if "input" in rows.values:
        repeats = list(map(truths.repeats, version_ids, inputs))
    standings = [
        None if label is None else stand(sampling, is_repeat=is_repeat)
        for label, sampling, is_repeat in zip(labels, samplings, repeats, strict=True)
    ]
    ranks = blank
    if None in labels or "group" in rows.values:
        named = {
            "id": ids,
            "version_id": version_ids,
            "key": keys,
            "input": inputs,
            "group": rows.get("group"),
            "sampling": samplings,
            "is_repeat": repeats,
        }
        ranks = _place(detector, rows_of(named), labels, standings, truths)
    return {
        "id": ids,
        "detector_id": [detector.id] * len(ids),
        "version_id": version_ids,
        "key": keys,
        "input": inputs,
        "group": rows.get("group"),
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
            for number, label in zip(ids, labels, strict=True)
        ],
        "label": labels,
        "sampling": samplings,
        "standing": standings,
        "is_replayed": no,
        "is_gold": no,
        "queue_rank": ranks,
        "agreement": blank,
        "is_repeat": repeats,
        "tags": blank,
        "erased_at": blank,
        "image_erased_at": blank,
    }


def _place(
    detector: Detector,
    queries: Sequence[Mapping[str, Any]],
    labels: Sequence[str | None],
    standings: list[str | None],
    truths: Truths,
) -> list[Any]:
    """Return the ranks of new *queries*, and set the *standings* of those in groups."""
    ranks: list[Any] = []
    for place, (query, label) in enumerate(zip(queries, labels, strict=True)):
        is_spent = False
        if label is not None:
            if query["group"] is not None:
                standings[place], _ = stand_in_group(
                    query, query["sampling"], units=truths.units
                )
        elif query["group"] is not None:
            is_spent = truths.units.is_spent(query)
        rank = None if is_spent else rank_new_query(detector, query, label=label)
        ranks.append(rank)
    return ranks


def add_new(
    session: Session,
    queries: Mapping[str, Sequence[Any]],
    rows: Columns,
    by: By,
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
    }
    for name, values in columns.items():
        columns[name] = list(compress(values, is_given))
    none: list[None] = [None] * number
    return columns | dict.fromkeys(("replaces_id", "truth", "source_label_id"), none)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return *columns* row by row."""
    lines = zip(*columns.values(), strict=True)
    return [dict(zip(columns, line, strict=True)) for line in lines]
