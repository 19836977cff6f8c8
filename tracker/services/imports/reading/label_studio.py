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


def read_tasks(
    tasks: Iterable[Mapping[str, Any]], columns: Mapping[str, str]
) -> Iterator[Row]:
    """Read the rows of each task: one of each annotator, the first with its data.

    Its key is the data's own, else the number of the task.  Of an annotator the newest
    annotation counts; those that were cancelled do not.  What is marked as ground
    truth comes last, and so is what counts.  Predictions are the newest one's.  Where
    a task is labelled with several controls, *columns* say which one is read.
    """
    numbers = count(1)
    for task in tasks:
        values = {name: one for name, one in task["data"].items() if one is not None}
        if not any(normal(name) == "key" for name in values) and "id" in task:
            values["key"] = str(task["id"])
        errors = []
        controls = {
            name: columns[name]
            for name in ("label", "predicted")
            if name in columns and columns[name] not in task["data"]
        }
        values |= dict.fromkeys(controls.values())
        labels: list[dict[str, Any]] = []
        try:
            labels = _read_annotations(
                task.get("annotations") or task.get("completions") or [],
                controls.get("label"),
            )
        except ValueError as error:
            errors.append(FieldError("label", str(error)))
        try:
            values |= _read_prediction(
                task.get("predictions") or [], controls.get("predicted")
            )
        except ValueError as error:
            errors.append(FieldError("predicted", str(error)))
        first, *others = labels or [{}]
        yield Row(next(numbers), values | first, tuple(errors))
        key = {name: one for name, one in values.items() if normal(name) == "key"}
        for label in others:
            yield Row(next(numbers), key | label)


def _read_annotations(
    annotations: Iterable[Any], control: str | None
) -> list[dict[str, Any]]:
    """Return the label of each annotator; ValueError where nobody says whose one is."""
    given = [
        one
        for one in annotations
        if isinstance(one, dict)
        and not one.get("was_cancelled")
        and not one.get("skipped")
    ]
    given.sort(key=lambda one: (bool(one.get("ground_truth")), _made_at(one)))
    labels: dict[str | None, dict[str, Any]] = {}
    name = control or "label"
    for one in given:
        label, labeler = _choice(one, control), _annotator(one)
        if label is None:
            continue
        # The newest one of an annotator goes behind those of others.
        before = labels.pop(labeler, None)
        if labeler is None and before is not None and before[name] != label:
            shown = f"{show(before[name])} and {show(label)}"
            raise ValueError(f"the annotations say {shown}, but not who gave which")
        said = {"labeler": labeler, "labelled_at": one.get("created_at")}
        labels[labeler] = {name: label} | {k: v for k, v in said.items() if v}
    return list(labels.values())


def _annotator(annotation: Mapping[str, Any]) -> str | None:
    """Return the address of who made it, else their number."""
    who = annotation.get("completed_by")
    if isinstance(who, dict):
        who = who.get("email") or who.get("id")
    return None if who is None else str(who)


def _made_at(annotation: Mapping[str, Any]) -> str:
    """Return when it was made, as all of an export write it: in ISO 8601."""
    return str(annotation.get("created_at") or "")


def _read_prediction(predictions: list[Any], control: str | None) -> dict[str, Any]:
    # A number instead of the prediction itself stands in short exports.
    given = [one for one in predictions if isinstance(one, dict)]
    if not given:
        return {}
    newest = sorted(given, key=_made_at)[-1]
    found = {
        control or "predicted": _choice(newest, control),
        "confidence": newest.get("score"),
        "version": newest.get("model_version") or None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _choice(annotation: Mapping[str, Any], control: str | None) -> str | None:
    """Return the one choice; None where none was made, ValueError for several.

    Of several controls it is that of the one called *control*.
    """
    found: dict[str, list[Any]] = {}
    for one in annotation.get("result") or []:
        if isinstance(one, dict) and isinstance(one.get("value"), dict):
            given = one["value"].get("choices") or []
            found.setdefault(str(one.get("from_name")), []).extend(given)
    found = {name: choices for name, choices in found.items() if choices}
    if control is None and len(found) > 1:
        raise ValueError(
            f"the choices are those of {' and '.join(map(show, sorted(found)))}; name "
            f"the one to be read by its from_name, as in map label={min(found)}"
        )
    choices = found.get(control or min(found, default=""), [])
    if len(choices) > 1:
        raise ValueError(f"{show(choices)} is not right: there must be one choice")
    return str(choices[0]) if choices else None
