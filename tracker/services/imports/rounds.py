"""Files of the rounds of a resampling study."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError, RowError
from tracker.services.imports.reading.csv_rows import CsvRows, with_number
from tracker.services.imports.reading.files import iter_parquet
from tracker.services.imports.reading.rows import Row, iter_json, iter_jsonl
from tracker.services.labelling.studies import MOST_ERRORS, MOST_ROUNDS, ROUND_FIELDS


def _iter_csv(stream: BinaryIO) -> Iterator[Row]:
    for row in CsvRows(stream, fields=ROUND_FIELDS):
        read = row
        for name in row.values:
            read = with_number(read, name)
        yield read


# How a file of rounds is read, by the end of its name.
READERS: dict[str, Callable[[BinaryIO], Iterable[Row]]] = {
    ".csv": _iter_csv,
    ".tsv": _iter_csv,
    ".txt": _iter_csv,
    ".jsonl": iter_jsonl,
    ".ndjson": iter_jsonl,
    ".json": iter_json,
    ".parquet": partial(iter_parquet, fields=ROUND_FIELDS),
}


def read_rounds(stream: BinaryIO, suffix: str) -> list[dict[str, Any]]:
    """Return the rounds in a file whose name ends in *suffix*, unchecked.

    Raises InvalidInputError for an unknown suffix, and for rows that are no rows.
    """
    reader = READERS.get(suffix.lower())
    if reader is None:
        raise InvalidInputError.of("file", f"its name must end in {', '.join(READERS)}")
    # One more than there may be: that is enough to see that they are too many.
    rows = list(islice(reader(stream), MOST_ROUNDS + 1))
    wrong = (
        RowError(error.field, error.message, row.number)
        for row in rows
        for error in row.errors
    )
    if errors := list(islice(wrong, MOST_ERRORS)):
        raise InvalidInputError(errors)
    return [row.values for row in rows]
