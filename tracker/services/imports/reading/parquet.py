"""Reading the rows of a Parquet or an Arrow file, as Hugging Face writes them too."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO

from tracker.errors import InvalidInputError
from tracker.services.imports.reading.rows import (
    MOST_COLUMNS,
    TablePiece,
    piece_rows,
    refuse_many_columns,
)
from tracker.services.sandbox.channel import Unpacked
from tracker.services.wording import show_name, show_reason

ARROW_FILE = b"ARROW1"
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
        most = piece_rows(len(file.schema_arrow.names))
        batches = file.iter_batches(batch_size=most, use_threads=False)
        yield from _read_batches(file.schema_arrow, batches)
    except pa.ArrowException as error:
        raise InvalidInputError.of(
            "file", f"it is not Parquet: {show_reason(error)}"
        ) from error


def arrow_pieces(stream: BinaryIO, unpacked: Unpacked) -> Iterator[TablePiece]:
    """Read an Arrow file (Feather), or an Arrow stream, as ``datasets`` saves one."""
    import pyarrow as pa  # noqa: PLC0415 - heavy, as above.

    def batches() -> Iterator[Any]:
        cells = 0
        for whole in found:
            unpacked.add(whole.nbytes)
            cells += whole.num_rows * whole.num_columns
            if cells > _MOST_CELLS:
                raise InvalidInputError.of(
                    "file", f"it has more than {_MOST_CELLS:,} cells"
                )
            for start in range(0, whole.num_rows, most):
                yield whole.slice(start, most)

    try:
        is_file = stream.read(len(ARROW_FILE)) == ARROW_FILE
        stream.seek(0)
        if is_file:
            file = pa.ipc.open_file(stream)
            found = map(file.get_batch, range(file.num_record_batches))
            schema = file.schema
        else:
            found = opened = pa.ipc.open_stream(stream)
            schema = opened.schema
        if len(schema.names) > MOST_COLUMNS:
            refuse_many_columns()
        most = piece_rows(len(schema.names))
        yield from _read_batches(schema, batches())
    except pa.ArrowException as error:
        raise InvalidInputError.of(
            "file", f"it is not Arrow: {show_reason(error)}"
        ) from error


def _read_batches(schema: Any, batches: Iterable[Any]) -> Iterator[TablePiece]:
    names, classes = schema.names, _class_names(schema.metadata or {})
    first = 1
    yield TablePiece(first, names, [[] for _ in names])
    for batch in batches:
        columns = [
            _as_classes(name, _arrow_values(column), classes.get(name))
            for name, column in zip(names, batch.columns, strict=True)
        ]
        yield TablePiece(first, names, columns)
        first += batch.num_rows


def _class_names(metadata: Mapping[bytes, bytes]) -> dict[str, list[str]]:
    """Return by column what Hugging Face calls its classes, which stand as numbers."""
    try:
        features = json.loads(metadata[b"huggingface"])["info"]["features"]
        return {
            name: [str(one) for one in feature["names"]]
            for name, feature in features.items()
            if feature.get("_type") == "ClassLabel"
        }
    except (LookupError, TypeError, ValueError, AttributeError):
        return {}


def _as_classes(name: str, values: list[Any], names: list[str] | None) -> list[Any]:
    if names is None:
        return values
    wrong = {one for one in values if type(one) is int and one >= len(names)}
    if wrong:
        raise InvalidInputError.of(
            show_name(name), f"it has the class {min(wrong)}, of {len(names)} classes"
        )
    # A -1 says that there is none.
    return [
        (names[one] if one >= 0 else None) if type(one) is int else one
        for one in values
    ]


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

    So it is with the year 10000, which the field refuses, and with a nanosecond.
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
        if value.type.unit == "ns":
            # As text with all its digits, which the field rounds and says so.
            bare = value.cast(kind, safe=False).as_py()
            return f"{bare:%Y-%m-%dT%H:%M:%S.%f}{value.value % 1000:03d}{_zone(bare)}"
        # Arrow's own text of a year with six digits names another one.
        return f"{value.value} {value.type}"


def _zone(value: datetime) -> str:
    return "" if value.tzinfo is None else value.isoformat()[-6:]
