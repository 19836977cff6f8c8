"""A column for each class: probabilities, or a 1 where a row is of the class."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tracker.services.imports.reading.rows import RawPiece, Row, RowPiece
from tracker.services.wording import show


@dataclass(frozen=True, slots=True)
class ClassColumns:
    """Which column is that of which class, and what they say together."""

    columns: dict[str, str]
    # Whether a 1 marks the class, or the highest number does.
    is_mark: bool
    # predicted or label.
    field: str

    def read(self, piece: RawPiece) -> RawPiece:
        """Return *piece* with the class instead of the columns."""
        return RowPiece(
            [self._read_row(row) for row in piece.rows()],
            has_header=piece.has_header,
            has_comma=piece.has_comma,
        )

    def _read_row(self, row: Row) -> Row:
        values = {n: one for n, one in row.values.items() if n not in self.columns}
        try:
            found = {
                name: _number(row.values.get(column))
                for column, name in self.columns.items()
            }
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
    piece: RawPiece, classes: Sequence[str], *, has_predicted: bool, has_label: bool
) -> ClassColumns | None:
    """Return the columns of all *classes*, None where a class has none."""
    if has_predicted:
        return None
    columns = next(_candidates(piece.names, classes), None)
    rows = piece.rows() if columns else []
    if columns is None or not rows:
        return None
    try:
        numbers = [_number(row.values.get(one)) for row in rows for one in columns]
    except ValueError:
        return None
    is_mark = set(numbers) <= {0.0, 1.0}
    field = "label" if is_mark and not has_label else "predicted"
    return ClassColumns(columns, is_mark, field)


def _candidates(
    names: Sequence[str], classes: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Yield the columns that are called as all classes, before or after a word."""
    bare = {name.strip(): name for name in names}
    first = classes[0]
    for name in bare:
        place = name.rfind(first)
        if place < 0:
            continue
        before, after = name[:place], name[place + len(first) :]
        if before[-1:].isalnum() or after[:1].isalnum():
            # Such as f0 and f1, which are features.
            continue
        expected = {f"{before}{one}{after}": one for one in classes}
        if expected.keys() <= bare.keys():
            yield {bare[column]: one for column, one in expected.items()}


def _number(value: Any) -> float:
    try:
        return float(value if value is not None else 0)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{show(value)} is not right: it must be a number, as in the columns of "
            "the other classes"
        ) from error
