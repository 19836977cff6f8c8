"""Data frames and classifiers in, a data frame out; nothing of them is imported."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from tracker_client import rows

FIELDS = (
    "key",
    "predicted",
    "confidence",
    "label",
    "sampling",
    "note",
    "input",
    "group",
    "version",
    "asked_at",
    "labelled_at",
    "image_url",
)

JUDGE = "judge:"
_LOCAL = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?")
_NANOSECONDS = re.compile(r"(\.\d{6})\d{1,3}(?!\d)")


def frame_rows(frame: Any, columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a pandas or Polars frame, or of a list of dicts.

    Columns named as a field are that field, and *columns* names others:
    ``predicted="guess"``.  ``metadata`` is a list of columns, or one of dicts.  A
    column ``judge:NAME`` holds verdicts of that judge, which are no labels.  Raises
    ValueError for a column that is not there.
    """
    records = _records(frame)
    metadata = columns.get("metadata", "metadata")
    wanted = {
        name: columns.get(name, name) for name in FIELDS if columns.get(name, name)
    }
    there = set(records[0]) if records else set()
    judges = [one for one in (*there, *columns) if str(one).startswith(JUDGE)]
    wanted.update((name, columns.get(name, name)) for name in judges)
    named = [*columns.values()] if records else []
    for one in named:
        for name in one if isinstance(one, (list, tuple)) else [one]:
            if name is not None and name not in there:
                raise ValueError(f"there is no column {name!r}")
    if unknown := set(columns) - {*FIELDS, *judges, "metadata"}:
        raise ValueError(f"there is no field {min(unknown)!r}")
    said = ("predicted", "label", *judges)
    if records and not any(wanted[name] in there for name in said):
        raise ValueError("name the column of the predictions: predicted=…")
    for record in records:
        row = {
            field: _value(field, record[name])
            for field, name in wanted.items()
            if name in record and not _is_missing(record[name])
        }
        if isinstance(metadata, (list, tuple)):
            row["metadata"] = {
                name: record[name] for name in metadata if not _is_missing(record[name])
            }
        elif isinstance(record.get(metadata), Mapping):
            row["metadata"] = record[metadata]
        yield row


def _records(frame: Any) -> list[dict[str, Any]]:
    if hasattr(frame, "to_dicts"):
        return list(frame.to_dicts())
    if hasattr(frame, "to_dict"):
        return list(frame.to_dict(orient="records"))
    return [dict(one) for one in frame]


def _is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, and what pandas calls NA and NaT."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - NaN and NaT are like that.
    except (TypeError, ValueError):
        # NA is neither, an array is many.
        return type(value).__name__ == "NAType"


def _value(field: str, value: Any) -> Any:
    if field in {"predicted", "label"} or field.startswith(JUDGE):
        return rows.class_name(value)
    if field == "confidence":
        return rows.probability(value)
    if field in {"asked_at", "labelled_at"}:
        return _instant(value)
    return str(value)


def _instant(value: Any) -> str:
    """Return an instant as it is read from a file.

    One without a zone is in UTC, and nanoseconds are rounded down; a warning says so.
    """
    given = str(value)
    text = _NANOSECONDS.sub(r"\1", given)
    if isinstance(value, datetime):
        text = value.isoformat(timespec="microseconds")
    elif isinstance(value, date):
        text = f"{value}T00:00:00"
    if _LOCAL.fullmatch(text):
        warnings.warn("times without a time zone are read as UTC", stacklevel=2)
        text += "+00:00"
    if _NANOSECONDS.search(given):
        warnings.warn("nanoseconds are rounded down", stacklevel=2)
    return text


def classifier_rows(
    estimator: Any,
    inputs: Any,
    truth: Any = None,
    *,
    names: Sequence[str] | None = None,
    version: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield what *estimator* predicts of *inputs*, with the *truth* where it is given.

    The confidence is the largest of ``predict_proba``, if it has that.  The rows are
    told apart by the names of their inputs, else by what these hold.
    """
    predicted = _listed(estimator.predict(inputs))
    chances: Iterable[Any] = (
        map(max, _listed(estimator.predict_proba(inputs)))
        if hasattr(estimator, "predict_proba")
        else [None] * len(predicted)
    )
    truths = [None] * len(predicted) if truth is None else _listed(truth)
    told = _contents(inputs) if names is None else [str(name) for name in names]
    if not len(predicted) == len(truths) == len(told):
        raise ValueError(
            f"{len(predicted)} predictions, {len(truths)} labels, {len(told)} inputs"
        )
    seen: dict[str, int] = {}
    for said, chance, label, name in zip(predicted, chances, truths, told):
        seen[name] = seen.get(name, 0) + 1
        row: dict[str, Any] = {
            "key": f"m-{_digest(version, name, seen[name])}",
            "input": name,
            "predicted": rows.class_name(said),
        }
        if chance is not None:
            row["confidence"] = rows.probability(chance)
        if label is not None and not _is_missing(label):
            row["label"] = rows.class_name(label)
        if version is not None:
            row["version"] = version
        yield row


def _listed(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _contents(inputs: Any) -> list[str]:
    """Return a name for each input, made from what it holds."""
    if hasattr(inputs, "to_dict"):
        inputs = inputs.to_dict(orient="records")
    elif hasattr(inputs, "toarray"):
        inputs = inputs.toarray()
    return [_digest(rows.encode({"input": one})) for one in _listed(inputs)]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def history_frame(content: bytes) -> Any:
    """Return JSON Lines as a pandas frame, as a list of dicts where there is none."""
    items = [json.loads(line) for line in content.splitlines()]
    try:
        # Only those who have it get a frame.
        import pandas as pd  # noqa: PLC0415
    except ImportError:
        return items
    frame = pd.DataFrame(items)
    for name in {"computed_at", "asked_at"} & set(frame):
        frame[name] = pd.to_datetime(frame[name], format="ISO8601")
    return frame
