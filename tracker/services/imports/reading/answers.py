"""Nested answers, a column for each class, and tables of counts."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from operator import itemgetter
from typing import Any

from tracker.services.imports.reading.column_names import (
    OF_A_CLASS,
    WEKA,
    is_unnamed,
    normal,
    role_of,
    words_of,
)
from tracker.services.imports.reading.rows import (
    UNKNOWN,
    Piece,
    Row,
    cut_rows,
    iter_pieces,
    wrong_file,
)
from tracker.services.wording import show

# What an answer calls its class and its confidence, the first there is.
_CLASSES = (
    *("label", "class", "value", "answer", "choice", "category", "prediction"),
    *("output", "result", "name", "content", "text"),
)
_SCORES = ("score", "confidence", "probability", "prob", "p")
_COUNTS = {
    *("count", "counts", "frequency", "freq", "support", "n"),
    *("npredictions", "n_predictions"),
}
# What stands beside the classes of a confusion matrix.
_SUMS = frozenset(
    {"all", "total", "totals", "sum", "error", "rate", "recall", "precision"}
)
# Between what the rows are and what the columns are; before the name of a class.
_BETWEEN = re.compile(r"[\\/|]|\bvs\b|\bby\b")
_SIDE = re.compile(r"([^\W_]+)[\W_]+(.+)")
_MOST_COUNTS = 2**20
_NUMBERED = re.compile(r"^\d+:")


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
    if WEKA in piece.names:
        piece = piece._replace(
            values=[
                [
                    _NUMBERED.sub("", one) if isinstance(one, str) else one
                    for one in column
                ]
                if name in {"actual", "predicted"}
                else column
                for name, column in zip(piece.names, piece.values, strict=True)
            ]
        )
    roles = {name: role_of(name) for name in piece.names}
    roles |= {name: field for field, name in columns.items() if name in roles}
    nested = {
        name
        for name, role in roles.items()
        if role in {"predicted", "label", "confidence"}
        and not {dict, list}.isdisjoint(piece.types(name))
    }
    if piece.is_strict or not nested:
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
    lists = {roles[n]: values[n] for n in nested if isinstance(values[n], list)}
    scores = lists.get("confidence", ())
    are_numbers = all(type(one) in {int, float} for one in scores)
    if len(scores) > 1 and are_numbers and {len(scores)} == {*map(len, lists.values())}:
        # The likeliest answers of a classifier, and how likely each is.
        best = max(range(len(scores)), key=scores.__getitem__)
        for name in nested:
            if isinstance(values[name], list):
                values[name] = values[name][best]
    for name in nested:
        found, score = read_answer(values[name])
        if roles[name] != "confidence":
            values[name] = found
        elif isinstance(values[name], dict) and (
            values[name].keys() == set(classes)
            or (classes == UNKNOWN and words_of(name) & OF_A_CLASS)
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
    counted = None
    if held and not held[-1].is_strict and _counts_of(held[-1:]) is not None:
        # Many classes make a table of several pieces.
        for piece in iterator:
            held.append(piece)
            if sum(one.size for one in held) > _MOST_COUNTS:
                break
        counted = _counts_of(held)
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


def _counts_of(pieces: Sequence[Piece]) -> list[tuple[Any, Any, int]] | None:
    names = list(pieces[-1].names)
    rows = chain.from_iterable(piece.rows() for piece in pieces)
    cells = [[row.values.get(name) for name in names] for row in rows]
    try:
        return _pairs_of(names, cells) or _matrix_of(names, cells)
    except (TypeError, ValueError):
        return None


def _pairs_of(
    names: list[str], cells: list[list[Any]]
) -> list[tuple[Any, Any, int]] | None:
    """Return the count of each label and prediction; other columns say nothing."""
    places = [i for i, name in enumerate(names) if normal(name) in _COUNTS]
    roles = [None if i in places else role_of(name) for i, name in enumerate(names)]
    if len(places) != 1 or not {"label", "predicted"} <= set(roles):
        return None
    label, predicted = roles.index("label"), roles.index("predicted")
    [place] = places
    others = set(range(len(names))) - {label, predicted, place}
    if any(
        not is_unnamed(names[i]) and len({str(c[i]) for c in cells}) > 1 for i in others
    ):
        return None
    found = [(c[label], c[predicted], _count(c[place])) for c in cells]
    if normal(names[place]) != "n":
        return found
    # It may be the number of a row.
    numbers = [times for *_, times in found]
    is_sure = numbers != list(range(numbers[0], numbers[0] + len(numbers)))
    return found if is_sure and len({one[:2] for one in found}) == len(found) else None


def _matrix_of(
    names: list[str], cells: list[list[Any]]
) -> list[tuple[Any, Any, int]] | None:
    """Return the counts of a confusion matrix, without its sums.

    A class that was never predicted has no column, and one that no label has no row.
    """
    if len(names) < 2:
        return None
    corner, *columns = map(str.strip, names)
    rows = [str(c[0]).strip() for c in cells]
    of_rows, of_columns = role_of(_BETWEEN.split(corner)[0]), None
    if set(rows).isdisjoint(columns):
        (of_rows, rows), (of_columns, columns) = _sides(rows), _sides(columns)
    both = set(rows) & set(columns)
    labels = [one for one in rows if one in both or not words_of(one) & _SUMS]
    predictions = [one for one in columns if one in both or not words_of(one) & _SUMS]
    if (
        not (both >= set(labels) or both >= set(predictions))
        or not 2 <= len(labels) < _MOST_COUNTS // len(columns)
        or len(set(rows)) < len(rows)
        or len(set(columns)) < len(columns)
        or (of_rows and of_rows == of_columns)
    ):
        return None
    grid = {
        (row, column): cell
        for row, line in zip(rows, cells, strict=True)
        for column, cell in zip(columns, line[1:], strict=True)
    }
    labels, predictions = _without_sums(labels, predictions, grid)
    cut = [(one, other, grid[one, other]) for one in labels for other in predictions]
    if of_rows != "label" and any(0 < float(cell or 0) < 1 for *_, cell in cut):
        raise wrong_file(
            "it is a confusion matrix of shares; send one of counts, or the rows"
        )
    if of_rows == "predicted" or of_columns == "label":
        return [(label, one, _count(times)) for one, label, times in cut]
    return [(label, one, _count(times)) for label, one, times in cut]


def _sides(names: list[str]) -> tuple[str | None, list[str]]:
    """Return what a word before each of the *names* says, and the names without it."""
    found = list(map(_SIDE.fullmatch, names))
    roles = Counter(role_of(one[1]) for one in found if one)
    role, times = max(roles.items(), key=itemgetter(1), default=(None, 0))
    if times < 2 or role not in {"label", "predicted"}:
        return None, names
    return role, [
        one[2] if one and role_of(one[1]) == role else name
        for one, name in zip(found, names, strict=True)
    ]


def _without_sums(
    labels: list[str], predictions: list[str], grid: Mapping[tuple[str, str], Any]
) -> tuple[list[str], list[str]]:
    """Leave out the last class if all in it are the sums of the others."""
    *others, last = labels
    if last != predictions[-1] or len(predictions) < 3:
        return labels, predictions

    def is_sum(total: Any, parts: Iterable[Any]) -> bool:
        return float(total or 0) == sum(float(part or 0) for part in parts)

    are_sums = all(
        is_sum(grid[one, last], (grid[one, other] for other in predictions[:-1]))
        for one in labels
    ) and all(
        is_sum(grid[last, one], (grid[other, one] for other in others))
        for one in predictions
    )
    return (others, predictions[:-1]) if are_sums else (labels, predictions)


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
    # Whole numbers are counts, and no scores.
    if not columns or (max(numbers) > 1 and all(one.is_integer() for one in numbers)):
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
