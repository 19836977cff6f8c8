"""Nested answers, a column for each class, and tables of counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from typing import Any

from tracker.services.imports.reading.column_names import (
    find_whole,
    is_of_classes,
    normal,
    role_of,
)
from tracker.services.imports.reading.rows import (
    UNKNOWN,
    Piece,
    Row,
    cut_rows,
    iter_pieces,
)
from tracker.services.wording import show

# What an answer calls its class and its confidence, the first there is.
_CLASSES = (
    *("label", "class", "value", "answer", "choice", "category", "prediction"),
    *("output", "result", "name", "content", "text"),
)
_SCORES = ("score", "confidence", "probability", "prob", "p")
_COUNTS = {"count", "counts", "frequency", "freq", "support"}
# How the last row and column of a matrix are called that are sums of the others.
_SUMS = {"all", "sum", "total", "totals", "gesamt", "summe", "grand_total"}
_SUMS |= {"gesamtergebnis", "marginal", "\u03c3", "\u2211"}


def read_answer(value: Any) -> tuple[Any, Any]:
    """Return the class that a nested answer names, and its confidence, if it does.

    Of several answers it is the one with the highest score, of numbers by class the
    highest; what is of no known form is itself.
    """
    if isinstance(value, list) and value:
        answers = [read_answer(one) for one in value]
        if len(answers) == 1:
            return answers[0]
        is_scored = all(score is not None for _, score in answers)
        return max(answers, key=lambda one: one[1]) if is_scored else (value, None)
    if not isinstance(value, Mapping) or not value:
        return value, None
    if len(value) > 1 and all(type(one) in {int, float} for one in value.values()):
        best = max(value, key=value.__getitem__)
        return best, value[best] if 0 <= value[best] <= 1 else None
    named = next((one for one in _CLASSES if one in value), None)
    if named is None and len(value) > 1:
        return value, None
    found, inner = read_answer(value[next(iter(value)) if named is None else named])
    scores = (value[name] for name in _SCORES if type(value.get(name)) in {int, float})
    return found, next(scores, inner)


def read_answers(
    piece: Piece, classes: list[str], columns: Mapping[str, str]
) -> Iterator[Piece]:
    """Yield *piece* with each nested answer as its class and its confidence.

    *columns* are by field those that were named.
    """
    roles = {name: role_of(name) for name in piece.names}
    roles |= {name: field for field, name in columns.items() if name in roles}
    nested = {
        name
        for name, role in roles.items()
        if role in {"predicted", "label", "confidence"}
        and not {dict, list}.isdisjoint(piece.types(name))
    }
    if (
        piece.is_strict
        or not nested
        or find_whole(piece.names, has_header=piece.has_header) is not None
    ):
        yield piece
        return
    rows = []
    for row in piece.rows():
        # An empty cell of a table is there, and says that there was no answer.
        is_empty = (name not in row.values and piece.has_header for name in piece.names)
        nulls = (*row.nulls, *compress(piece.names, is_empty))
        said = nested & row.values.keys()
        rows.append(_unfold(row._replace(nulls=nulls), said, roles, classes))
    yield from cut_rows(rows)


def _unfold(
    row: Row, nested: set[str], roles: Mapping[str, str | None], classes: list[str]
) -> Row:
    values = dict(row.values)
    for name in nested:
        found, score = read_answer(values[name])
        if roles[name] != "confidence":
            values[name] = found
        elif isinstance(values[name], dict) and (
            values[name].keys() == set(classes)
            or (classes == UNKNOWN and is_of_classes(name))
        ):
            # Numbers by class say what was predicted, and others nothing.
            del values[name]
            values.setdefault("predicted", found)
        else:
            continue
        if score is not None and roles[name] != "label":
            values.setdefault("confidence", score)
    return row._replace(values=values)


def read_counts(pieces: Iterable[Piece], notes: list[str]) -> Iterator[Piece]:
    """Return the rows that a table of counts stands for, and any other as it is.

    That is one with a count for each label and prediction, or a confusion matrix whose
    rows are the labels.
    """
    iterator = iter(pieces)
    held = []
    for piece in iterator:
        held.append(piece)
        if piece.size:
            break
    counted = _counts_of(held[-1]) if held else None
    if counted is None:
        yield from chain(held, iterator)
        return
    notes.append("the file was read as counts, of labels by predictions")
    numbers = count(1)
    yield from iter_pieces(
        Row(next(numbers), {"label": label, "predicted": predicted})
        for label, predicted, times in counted
        for _ in range(times)
    )


def _counts_of(piece: Piece) -> list[tuple[Any, Any, int]] | None:
    names, rows = list(piece.names), piece.rows()
    cells = [[row.values.get(name) for name in names] for row in rows]
    roles = list(map(role_of, names))
    try:
        if len(names) == 3 and {"label", "predicted"} < set(roles):
            place = next(i for i, n in enumerate(names) if normal(n) in _COUNTS)
            label, predicted = roles.index("label"), roles.index("predicted")
            return [(c[label], c[predicted], _count(c[place])) for c in cells]
        corner, *classes = names
        if len(classes) < 2 or [str(c[0]).strip() for c in cells] != classes:
            return None
        grid = [[_count(times) for times in c[1:]] for c in cells]
        if normal(classes[-1]) in _SUMS and _ends_in_sums(grid):
            classes, grid = classes[:-1], [line[:-1] for line in grid[:-1]]
        found = [
            (label, one, times)
            for label, line in zip(classes, grid, strict=True)
            for one, times in zip(classes, line, strict=True)
        ]
    except (StopIteration, ValueError):
        return None
    if role_of(corner.partition("\\")[0].partition("/")[0]) == "predicted":
        return [(one, label, times) for label, one, times in found]
    return found


def _ends_in_sums(grid: Sequence[Sequence[int]]) -> bool:
    """Whether the last row and column of a matrix are the sums of the others."""
    lines = *grid, *zip(*grid, strict=True)
    return all(2 * line[-1] == sum(line) for line in lines)


def _count(value: Any) -> int:
    number = float(value or 0)
    if not number.is_integer() or not 0 <= number < 2**24:
        raise ValueError(value)
    return int(number)


@dataclass(frozen=True, slots=True)
class ClassColumns:
    """Columns of numbers, one for each class."""

    columns: dict[str, str]
    # Whether a 1 marks the class, or the highest number does.
    is_mark: bool
    field: str

    def read(self, piece: Piece) -> Iterator[Piece]:
        given = [self._read_row(row) for row in piece.rows()]
        flags = {"has_header": piece.has_header, "has_comma": piece.has_comma}
        yield from cut_rows(given, **flags)

    def _read_row(self, row: Row) -> Row:
        values = {n: one for n, one in row.values.items() if n not in self.columns}
        try:
            columns = self.columns.items()
            found = {name: _number(row.values.get(place)) for place, name in columns}
        except ValueError as error:
            return row._replace(values=values).without(self.field, str(error))
        # Nothing is in a row that could not be read.
        if not row.values or (self.is_mark and not any(found.values())):
            return row._replace(values=values)
        best = max(found, key=found.__getitem__)
        if self.is_mark and sum(found.values()) != 1:
            message = "the row is marked as of several classes; it must be of one"
            return row._replace(values=values).without(self.field, message)
        values[self.field] = best
        if not self.is_mark and 0 <= found[best] <= 1:
            values.setdefault("confidence", found[best])
        return row._replace(values=values)


def find_class_columns(
    piece: Piece, classes: Sequence[str], *, has_label: bool
) -> ClassColumns | None:
    """Return the columns of all *classes*, None where a class has none.

    They are called as the classes, before or after a word.
    """
    bare = {name.strip(): name for name in piece.names}
    columns: dict[str, str] = {}
    for name in bare if piece.size and classes else ():
        before, first, after = name.rpartition(classes[0])
        # Not such as f0 and f1, which are features.
        if not first or before[-1:].isalnum() or after[:1].isalnum():
            continue
        expected = {f"{before}{one}{after}": one for one in classes}
        if expected.keys() <= bare.keys():
            columns = {bare[column]: one for column, one in expected.items()}
            break
    rows = piece.rows() if columns else []
    try:
        numbers = {_number(row.values.get(one)) for row in rows for one in columns}
    except ValueError:
        return None
    if not columns:
        return None
    is_mark = numbers <= {0.0, 1.0}
    field = "label" if is_mark and not has_label else "predicted"
    return ClassColumns(columns, is_mark, field)


def _number(value: Any) -> float:
    try:
        return float(value if value is not None else 0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{show(value)} is not right: it must be a number, as in the columns of "
            "the other classes"
        ) from error
