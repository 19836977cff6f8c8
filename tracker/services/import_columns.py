"""The new queries of an import and their labels, column by column."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import compress
from typing import Any

from tracker.services.fields import dump_metadata
from tracker.services.import_rows import Columns
from tracker.services.queries import UNSTATED
from tracker.services.ranks import rank_new_query
from tracker.storage.detectors import Detector


def query_columns(  # noqa: PLR0913, PLR0917 - what the rows do not say themselves.
    detector: Detector,
    ids: Sequence[int],
    keys: Sequence[str],
    version_ids: Sequence[int],
    rows: Columns,
    created_at: datetime,
) -> dict[str, Sequence[Any]]:
    """Return *rows* as the columns of queries that are new."""
    blank: list[None] = [None] * len(ids)
    labels, samplings = rows.get("label"), rows.get("sampling", UNSTATED)
    waits = None in labels
    return {
        "id": ids,
        "detector_id": [detector.id] * len(ids),
        "version_id": version_ids,
        "key": keys,
        "input": rows.get("input"),
        "predicted": rows.get("predicted"),
        "confidence": rows.get("confidence"),
        "asked_at": rows.get("asked_at", created_at),
        "created_at": [created_at] * len(ids),
        "metadata": [
            None if value is None else dump_metadata(value)
            for value in rows.get("metadata")
        ],
        "image": blank,
        "image_url": rows.get("image_url"),
        "label_id": [
            None if label is None else number
            for number, label in zip(ids, labels, strict=True)
        ],
        "label": labels,
        "sampling": samplings,
        "audit_rank": [
            rank_new_query(detector, number, label=label, sampling=sampling)
            for number, label, sampling in zip(ids, labels, samplings, strict=True)
        ]
        if waits
        else blank,
        "agreement": blank,
    }


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
        "sampling": queries["sampling"],
        "note": rows.get("note"),
        "labelled_at": rows.get("labelled_at", created_at),
        "created_at": queries["created_at"],
    }
    for name, values in columns.items():
        columns[name] = list(compress(values, is_given))
    return columns | {"replaces_id": [None] * number, "labeler": [labeler] * number}
