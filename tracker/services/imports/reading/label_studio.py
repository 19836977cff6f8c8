"""Tasks with annotations and predictions, as Label Studio exports them in JSON."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from tracker.errors import FieldError
from tracker.services.imports.reading.column_names import normal
from tracker.services.imports.reading.rows import Row
from tracker.services.wording import show


def is_task(item: Any) -> bool:
    """Return whether *item* looks like a task."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("data"), dict)
        and not item.keys().isdisjoint({"annotations", "completions", "predictions"})
    )


def read_tasks(tasks: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Read the rows of each task: one of each annotator, the first with its data.

    Its key is the data's own, else the number of the task.  Of an annotator the last
    annotation counts; those that were cancelled do not.  What is marked as ground
    truth comes last, and so is what counts.  Predictions are the newest one's.
    """
    numbers = count(1)
    for task in tasks:
        values = {name: one for name, one in task["data"].items() if one is not None}
        if not any(normal(name) == "key" for name in values) and "id" in task:
            values["key"] = str(task["id"])
        errors = []
        labels: list[dict[str, Any]] = []
        try:
            labels = _read_annotations(
                task.get("annotations") or task.get("completions") or []
            )
        except ValueError as error:
            errors.append(FieldError("label", str(error)))
        try:
            values |= _read_prediction(task.get("predictions") or [])
        except ValueError as error:
            errors.append(FieldError("predicted", str(error)))
        first, *others = labels or [{}]
        yield Row(next(numbers), values | first, tuple(errors))
        key = {name: one for name, one in values.items() if normal(name) == "key"}
        for label in others:
            yield Row(next(numbers), key | label)


def _read_annotations(annotations: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the label of each annotator; ValueError where nobody says whose one is."""
    given = [
        one
        for one in annotations
        if isinstance(one, dict)
        and not one.get("was_cancelled")
        and not one.get("skipped")
    ]
    given.sort(key=lambda one: bool(one.get("ground_truth")))
    labels: dict[str | None, dict[str, Any]] = {}
    for one in given:
        label, labeler = _choice(one), _annotator(one)
        if label is None:
            continue
        # The last one of an annotator goes behind those of others.
        before = labels.pop(labeler, None)
        if labeler is None and before is not None and before["label"] != label:
            shown = f"{show(before['label'])} and {show(label)}"
            raise ValueError(f"the annotations say {shown}, but not who gave which")
        said = {"labeler": labeler, "labelled_at": one.get("created_at")}
        labels[labeler] = {"label": label} | {k: v for k, v in said.items() if v}
    return list(labels.values())


def _annotator(annotation: Mapping[str, Any]) -> str | None:
    """Return the address of who made it, else their number."""
    who = annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    return None if who is None else str(who)


def _read_prediction(predictions: list[Any]) -> dict[str, Any]:
    # A number instead of the prediction itself stands in short exports.
    given = [one for one in predictions if isinstance(one, dict)]
    if not given:
        return {}
    newest = given[-1]
    found = {
        "predicted": _choice(newest),
        "confidence": newest.get("score"),
        "version": newest.get("model_version") or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _choice(annotation: Mapping[str, Any]) -> str | None:
    """Return the one choice; None where none was made, ValueError for several."""
    choices = [
        choice
        for one in annotation.get("result") or []
        if isinstance(one, dict) and isinstance(one.get("value"), dict)
        for choice in one["value"].get("choices") or []
    ]
    if len(choices) > 1:
        raise ValueError(f"{show(choices)} is not right: there must be one choice")
    return str(choices[0]) if choices else None
