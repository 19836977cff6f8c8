"""Files of the rounds of a resampling study."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError, RowError
from tracker.services.imports.reading.files import SUFFIXES, open_named
from tracker.services.imports.reading.rows import (
    Piece,
    Row,
    refuse_columns,
    unknown_columns,
    wrong_file,
)
from tracker.services.imports.reading.values import ConfidenceReader
from tracker.services.labelling.studies import MOST_ERRORS, MOST_ROUNDS, ROUND_FIELDS


def read_rounds(stream: BinaryIO, suffix: str) -> list[dict[str, Any]]:
    """Return the rounds in a file whose name ends in *suffix*, unchecked.

    Raises InvalidInputError for an unknown suffix, and for rows that are no rows.
    """
    if suffix.lower() not in SUFFIXES:
        raise wrong_file(f"its name must end in {', '.join(SUFFIXES)}")
    file = open_named(stream, f"rounds{suffix}")
    with closing(file.pieces([], table={"header_row": 1})) as pieces:
        found = (row for piece in pieces for row in _rounds(piece))
        # One more than there may be: that is enough to see that they are too many.
        rows = list(islice(found, MOST_ROUNDS + 1))
    wrong = (
        RowError(error.field, error.message, row.number)
        for row in rows
        for error in row.errors
    )
    if errors := list(islice(wrong, MOST_ERRORS)):
        raise InvalidInputError(errors)
    return [row.values for row in rows]


def _rounds(piece: Piece) -> Iterator[Row]:
    names = [name.casefold() for name in piece.names]
    if wrong := unknown_columns(names, ROUND_FIELDS):
        refuse_columns(wrong)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidInputError.of(twice, "occurs twice among the columns")
    reader = ConfidenceReader(piece.has_comma, piece.is_strict, is_percent=False)
    for row in piece.rows():
        values = {name.casefold(): value for name, value in row.values.items()}
        read = row._replace(values=values)
        for name, value in values.items():
            if isinstance(value, str):
                try:
                    read.values[name] = reader.read_text(value, Counter())
                except ValueError as error:
                    read = read.without(name, str(error))
        yield read
