"""Reading the rows of a Parquet file."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.rows import (
    MOST_COLUMNS,
    TablePiece,
    piece_rows,
    refuse_many_columns,
)
from tracker.services.sandbox.limits import Unpacked
from tracker.services.wording import show_reason

_MOST_CELLS = 100_000_000


def parquet_pieces(stream: BinaryIO, unpacked: Unpacked) -> Iterator[TablePiece]:
    """Read a Parquet file piece by piece, an empty one as a piece without rows.

    What it says of itself is looked at first: a few bytes can say a billion rows.
    """
    # Heavy: it is loaded for those who import Parquet.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    try:
        file = pq.ParquetFile(stream)
        _check_parquet(file.metadata, unpacked)
        names = file.schema_arrow.names
        first = 1
        yield TablePiece(first, names, [[] for _ in names])
        most = piece_rows(len(names))
        for batch in file.iter_batches(batch_size=most, use_threads=False):
            columns = [_arrow_values(column) for column in batch.columns]
            yield TablePiece(first, names, columns)
            first += batch.num_rows
    except pa.ArrowException as error:
        raise InvalidInputError.of(
            "file", f"it is not Parquet: {show_reason(error)}"
        ) from error


def _check_parquet(metadata: Any, unpacked: Unpacked) -> None:
    if metadata.num_columns > MOST_COLUMNS:
        refuse_many_columns()
    cells = metadata.num_rows * metadata.num_columns
    if cells > _MOST_CELLS:
        raise InvalidInputError.of(
            "file",
            f"it has {metadata.num_rows:,} rows of {metadata.num_columns:,} columns; "
            f"an import may have {_MOST_CELLS:,} cells",
        )
    for number in range(metadata.num_row_groups):
        unpacked.add(metadata.row_group(number).total_byte_size)


def _arrow_values(column: Any) -> list[Any]:
    """Return the values of an Arrow array, as text where Python has none like them.

    So it is with the year 10000 and with a nanosecond, which the field then refuses.
    """
    # A caller that has a column has loaded it already.
    import pyarrow as pa  # noqa: PLC0415

    kind = column.type
    if pa.types.is_timestamp(kind):
        kind = pa.timestamp("us", kind.tz)
    try:
        values: list[Any] = column.cast(kind).to_pylist()
    except (ValueError, OverflowError):
        return [_arrow_value(value, kind) for value in column]
    return values


def _arrow_value(value: Any, kind: Any) -> Any:
    try:
        return value.cast(kind).as_py()
    except (ValueError, OverflowError):
        # Arrow's own text of a year with six digits names another one.
        return f"{value.value} {value.type}"
