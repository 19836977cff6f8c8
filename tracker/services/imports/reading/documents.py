"""JSON documents as programs write them: rows, columns, tables, annotated tasks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from tracker.errors import FieldError, InvalidInputError
from tracker.services.imports.reading import column_names, rows
from tracker.services.imports.reading.column_names import known_field, normal, role_of
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.shapes import find, read_records, read_shape
from tracker.services.wording import show, show_name


def is_task(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and isinstance(item.get("data"), dict)
        and not item.keys().isdisjoint({"annotations", "completions", "predictions"})
    )


def read_tasks(
    tasks: Iterable[Mapping[str, Any]], columns: Mapping[str, str]
) -> Iterator[rows.Row]:
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
        yield rows.Row(next(numbers), values | first, tuple(errors))
        key = {name: one for name, one in values.items() if normal(name) == "key"}
        for label in others:
            yield rows.Row(next(numbers), key | label)


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
        label, who = _choice(one, control), one.get("completed_by")
        if label is None:
            continue
        # The address of who made it, else their number.
        if isinstance(who, dict):
            who = who.get("email") or who.get("id")
        labeler = None if who is None else str(who)
        # The newest annotation of an annotator comes after those of others.
        before = labels.pop(labeler, None)
        if labeler is None and before is not None and before[name] != label:
            shown = f"{show(before[name])} and {show(label)}"
            raise ValueError(f"the annotations say {shown}, but not who gave which")
        said = {"labeler": labeler, "labelled_at": one.get("created_at")}
        labels[labeler] = {name: label} | {k: v for k, v in said.items() if v}
    return list(labels.values())


def _made_at(annotation: Mapping[str, Any]) -> str:
    return str(annotation.get("created_at") or "")


def _read_prediction(predictions: list[Any], control: str | None) -> dict[str, Any]:
    # Short exports have a number instead of the prediction.
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

    If there are several controls, only the one called *control* is read.
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


NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
_SHAPES = (
    'is required: {"items": [{…}, …]}; a list of objects, columns of values, and what '
    "pandas, MLflow, Weights & Biases, Label Studio and FiftyOne write are read too"
)


def document_pieces(
    body: Any, columns: Mapping[str, str] = NO_COLUMNS, notes: list[str] | None = None
) -> Iterator[rows.Piece]:
    """Read a parsed document; InvalidInputError where it is of no known shape.

    *columns* are by field those that were named; how it is read goes to *notes*.
    """
    notes = [] if notes is None else notes
    for shape in SHAPES:
        if shape.records and shape.fits(body):
            where = shape.records
            records = find(body, where) if isinstance(where, str) else where(body)
            yield from read_shape(shape, body, records, columns, notes)
            return
    for tells, read in DOCUMENTS.values():
        if tells(body):
            yield from read(body, columns, notes)
            return
    raise InvalidInputError.of("items", _SHAPES)


def _read_rows(
    body: Any, columns: Mapping[str, str], notes: list[str]
) -> Iterator[rows.Piece]:
    # What is no list is JSON Lines of one line.
    items = body if isinstance(body, list) else [body]
    is_whole = isinstance(items[0], dict) and column_names.find_whole(items[0])
    if is_whole and all(isinstance(one, dict) for one in items):
        names = list(dict.fromkeys(name for one in items for name in one))
        if column_names.find_whole(names) is not None:
            return rows.iter_tables(
                names, ([one.get(name) for name in names] for one in items)
            )
    # A classifier's answers by class, as a pipeline returns them for each input.
    records = rows.iter_objects(
        {"prediction": one} if isinstance(one, list) else one for one in items
    )
    return read_records(rows.iter_pieces(records), SHAPES, columns, notes)


def _has(body: Any, **kinds: type) -> bool:
    return isinstance(body, dict) and all(
        name in body and isinstance(body[name], kind) for name, kind in kinds.items()
    )


def _inner(body: Mapping[str, Any]) -> Any:
    """Return what a document holds beside what it says of it; None for itself.

    What has a prediction or a label is itself one row, as JSON Lines of one line.
    """
    if any(
        role_of(name) in {"predicted", "label"} and not isinstance(one, dict | list)
        for name, one in body.items()
    ):
        return [body]
    return _find_rows(body)


def _find_rows(body: Mapping[str, Any]) -> Any:
    """Return the one list of objects, or the columns, in a document, however deep.

    Columns are lists of one length, one of which is known.
    """
    found: list[Any] = [
        one
        for one in body.values()
        if isinstance(one, list) and one and all(isinstance(o, dict) for o in one)
    ]
    if not found:
        for one in body.values():
            if not isinstance(one, dict):
                continue
            are_lists = all(isinstance(column, list) for column in one.values())
            is_even = are_lists and len(set(map(len, one.values()))) == 1
            found.append(one if is_even and any(map(role_of, one)) else _find_rows(one))
        found = [one for one in found if one is not None]
    return found[0] if len(found) == 1 else None


def _read_split(body: Any, *_: Any) -> Iterator[rows.Piece]:
    names = [str(name) for name in body["columns"]]
    for number, line in enumerate(body["data"], start=1):
        if not isinstance(line, list) or len(line) != len(names):
            raise InvalidInputError.of(
                "data", f"row {number} must be a list of {len(names)} values"
            )
    return rows.iter_tables(names, body["data"])


def _read_columns(
    body: Mapping[str, Any], _: Mapping[str, str], notes: list[str]
) -> Iterator[rows.Piece]:
    values = list(body.values())
    if (
        values
        and "items" not in body
        and not any(isinstance(one, dict | list) for one in values)
    ):
        notes.append(
            "the file was read as labels by key; for predictions add --map "
            "predicted=label, for labels of inputs --map input=key"
        )
        return rows.iter_tables(["key", "label"], list(body.items()))
    if values and all(isinstance(one, list) for one in values):
        if len(set(map(len, values))) > 1:
            sizes = ", ".join(f"{show_name(n)} {len(v):,}" for n, v in body.items())
            raise InvalidInputError.of(
                "body", f"its columns must be equally long: {sizes}"
            )
        return rows.iter_tables(list(body), zip(*values, strict=True))
    if not values or not all(isinstance(one, dict) for one in values):
        raise InvalidInputError.of("items", _SHAPES)
    # The same by row has the names of the columns inside.
    if not any(map(known_field, body)) and any(map(known_field, values[0])):
        names = list(dict.fromkeys(name for one in values for name in one))
        return rows.iter_tables(names, ([one.get(n) for n in names] for one in values))
    index = dict.fromkeys(key for one in values for key in one)
    return rows.iter_tables(list(body), ([one.get(k) for one in values] for k in index))


def _read_fiftyone(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the classifications of one field; with confidences it is predictions."""
    classes, targets = body["classes"], dict[str, Any]()
    for key, target in body["labels"].items():
        ones = target if isinstance(target, list) else [target]
        if len(ones) > 1:
            raise InvalidInputError.of(
                "labels",
                f"{show_name(key)} has {len(ones)} classifications; it must have one",
            )
        # A sample without a classification says nothing.
        if ones and ones[0] is not None:
            is_whole = isinstance(ones[0], dict)
            targets[key] = ones[0] if is_whole else {"label": ones[0]}
    has_confidence = any("confidence" in target for target in targets.values())
    for key, target in targets.items():
        label = target.get("label")
        if type(label) is int and isinstance(classes, list):
            if not 0 <= label < len(classes):
                raise InvalidInputError.of(
                    "labels",
                    f"{show_name(key)} has the class {label}; it must be at least 0 "
                    f"and less than {len(classes)}",
                )
            label = classes[label]
        yield {
            "key": key,
            "predicted" if has_confidence else "label": label,
            "confidence": target.get("confidence"),
            "metadata": target.get("attributes") or None,
        }


_Read = Callable[[Any, Mapping[str, str], list[str]], Iterator[rows.Piece]]
# What tells a document, and what reads it by the columns that were named; the most
# particular first.
DOCUMENTS: dict[str, tuple[Callable[[Any], bool], _Read]] = {
    "tasks of Label Studio": (
        lambda body: isinstance(body, list) and bool(body) and all(map(is_task, body)),
        lambda body, columns, _: rows.iter_pieces(read_tasks(body, columns)),
    ),
    "a list of rows": (
        lambda body: (
            (isinstance(body, list) and bool(body))
            or any(not shape.records and shape.fits(body) for shape in SHAPES)
        ),
        _read_rows,
    ),
    "rows of the API": (
        lambda body: _has(body, items=list),
        lambda body, *_: rows.iter_pieces(rows.iter_items(body), is_strict=True),
    ),
    "a table of pandas": (
        lambda body: _has(body, data=list, schema=object),
        lambda body, *_: rows.iter_pieces(
            rows.iter_objects(
                # The index has no name.
                {name: value for name, value in item.items() if name != "index"}
                if isinstance(item, dict)
                else item
                for item in body["data"]
            )
        ),
    ),
    # pandas writes this, too, with orient="split".
    "a table of MLflow or Weights & Biases": (
        lambda body: _has(body, data=list, columns=list),
        _read_split,
    ),
    "labels of FiftyOne": (
        lambda body: _has(body, labels=dict, classes=object),
        lambda body, *_: rows.iter_pieces(rows.iter_objects(_read_fiftyone(body))),
    ),
    "rows inside a document": (
        lambda body: isinstance(body, dict) and _inner(body) is not None,
        lambda body, *how: document_pieces(_inner(body), *how),
    ),
    "columns or labels by key": (lambda body: isinstance(body, dict), _read_columns),
}
