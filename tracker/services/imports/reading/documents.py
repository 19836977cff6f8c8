"""JSON documents as programs write them: rows, columns, tables, annotated tasks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.column_names import guess_field, role_of
from tracker.services.imports.reading.known_shapes import SHAPES
from tracker.services.imports.reading.label_studio import is_task, read_tasks
from tracker.services.imports.reading.rows import (
    RawPiece,
    TablePiece,
    iter_items,
    iter_objects,
    iter_pieces,
    iter_tables,
)
from tracker.services.imports.reading.shapes import read_document, read_records
from tracker.services.wording import show_name

NO_COLUMNS: Mapping[str, str] = MappingProxyType({})
_SHAPES = (
    'is required: {"items": [{…}, …]}; a list of objects, columns of values, and what '
    "pandas, MLflow, Weights & Biases, Label Studio and FiftyOne write are read too"
)


def document_pieces(
    body: Any, columns: Mapping[str, str] = NO_COLUMNS, notes: list[str] | None = None
) -> Iterator[RawPiece]:
    """Read a parsed document; InvalidInputError where it is of no known shape.

    *columns* are by field those that were named; how it is read goes to *notes*.

    * ``{"items": [{…}]}``, the API's own
    * ``[{…}]``, also Label Studio's tasks
    * ``{"columns": […], "data": [[…]]}``: MLflow, Weights & Biases, pandas split
    * ``{"schema": {…}, "data": [{…}]}``: pandas table
    * ``{"classes": […], "labels": {…}}``: FiftyOne
    * ``{"column": […]}`` and ``{"column": {"0": …}}``, or by row: pandas
    * ``{"key": "label"}``
    """
    notes = [] if notes is None else notes
    shaped = read_document(body, SHAPES, notes)
    if shaped is not None:
        yield from shaped
    elif isinstance(body, list) and all(map(is_task, body)) and body:
        yield from iter_pieces(read_tasks(body, columns))
    elif (isinstance(body, list) and body) or any(
        not shape.records and shape.fits(body) for shape in SHAPES
    ):
        # What is no list is JSON Lines of one line.
        items = body if isinstance(body, list) else [body]
        # A classifier's answers by class, as a pipeline returns them for each input.
        records = iter_objects(
            {"prediction": one} if isinstance(one, list) else one for one in items
        )
        yield from read_records(iter_pieces(records), SHAPES, columns, notes)
    elif not isinstance(body, dict):
        raise InvalidInputError.of("items", _SHAPES)
    elif isinstance(body.get("items"), list):
        yield from iter_pieces(iter_items(body), is_strict=True)
    elif isinstance(body.get("data"), list) and "schema" in body:
        yield from iter_pieces(iter_objects(_without_index(body)))
    elif isinstance(body.get("data"), list) and isinstance(body.get("columns"), list):
        yield from _read_split(body["columns"], body["data"])
    elif isinstance(body.get("labels"), dict) and "classes" in body:
        yield from iter_pieces(iter_objects(_read_fiftyone(body)))
    elif (inner := _only_records(body)) is not None:
        yield from document_pieces(inner, columns, notes)
    else:
        yield from _read_columns(body, notes)


def _only_records(body: Mapping[str, Any]) -> list[Any] | None:
    """Return the one list of objects that a document has beside what it says of it.

    What has a prediction or a label is itself one row, as JSON Lines of one line.
    """
    if any(
        role_of(name) in {"predicted", "label"} and not isinstance(one, dict | list)
        for name, one in body.items()
    ):
        return [body]
    found = [
        one
        for one in body.values()
        if isinstance(one, list) and one and all(isinstance(o, dict) for o in one)
    ]
    return found[0] if len(found) == 1 else None


def _without_index(body: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the rows of a pandas table without the index that has no name."""
    for item in body["data"]:
        if isinstance(item, dict):
            yield {name: value for name, value in item.items() if name != "index"}
        else:
            yield item


def _read_split(names: Sequence[Any], lines: Sequence[Any]) -> Iterator[TablePiece]:
    for number, line in enumerate(lines, start=1):
        if not isinstance(line, list) or len(line) != len(names):
            raise InvalidInputError.of(
                "data", f"row {number} must be a list of {len(names)} values"
            )
    return iter_tables([str(name) for name in names], lines)


def _read_columns(body: Mapping[str, Any], notes: list[str]) -> Iterator[TablePiece]:
    values = list(body.values())
    if (
        values
        and "items" not in body
        and not any(isinstance(one, dict | list) for one in values)
    ):
        notes.append(
            "the file was read as labels by key; for predictions add map "
            "predicted=label, for labels of inputs map input=key"
        )
        return iter_tables(["key", "label"], list(body.items()))
    if values and all(isinstance(one, list) for one in values):
        if len(set(map(len, values))) > 1:
            sizes = ", ".join(f"{show_name(n)} {len(v):,}" for n, v in body.items())
            raise InvalidInputError.of(
                "body", f"its columns must be equally long: {sizes}"
            )
        return iter_tables(list(body), zip(*values, strict=True))
    if not values or not all(isinstance(one, dict) for one in values):
        raise InvalidInputError.of("items", _SHAPES)
    # The same by row has the names of the columns inside.
    if not any(map(guess_field, body)) and any(map(guess_field, values[0])):
        names = list(dict.fromkeys(name for one in values for name in one))
        return iter_tables(names, ([one.get(n) for n in names] for one in values))
    index = dict.fromkeys(key for one in values for key in one)
    return iter_tables(list(body), ([one.get(k) for one in values] for k in index))


def _read_fiftyone(body: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the classifications of one field; with confidences it is predictions."""
    classes, labels = body["classes"], body["labels"]
    given_ones = {key: _only(key, target) for key, target in labels.items()}
    # A sample without a classification says nothing.
    targets = {key: one for key, one in given_ones.items() if one is not None}
    has_confidence = any(
        isinstance(target, dict) and "confidence" in target
        for target in targets.values()
    )
    name = "predicted" if has_confidence else "label"
    for key, target in targets.items():
        given = target if isinstance(target, dict) else {"label": target}
        yield {
            "key": key,
            name: _class_at(key, given.get("label"), classes),
            "confidence": given.get("confidence"),
            "metadata": given.get("attributes") or None,
        }


def _only(key: str, target: Any) -> Any:
    if not isinstance(target, list):
        return target
    if len(target) > 1:
        raise InvalidInputError.of(
            "labels",
            f"{show_name(key)} has {len(target)} classifications; it must have one",
        )
    return target[0] if target else None


def _class_at(key: str, label: Any, classes: Any) -> Any:
    if type(label) is not int or not isinstance(classes, list):
        return label
    if not 0 <= label < len(classes):
        raise InvalidInputError.of(
            "labels",
            f"{show_name(key)} has the class {label}; it must be at least 0 and less "
            f"than {len(classes)}",
        )
    return classes[label]
