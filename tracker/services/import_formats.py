"""The formats of an imported file, and how its name or its media type says which."""

from collections.abc import Callable, Iterable
from typing import BinaryIO

from tracker.services.csv_rows import CsvRows
from tracker.services.rows import Row, iter_json, iter_jsonl, iter_parquet

READERS: dict[str, Callable[[BinaryIO], Iterable[Row]]] = {
    "csv": CsvRows,
    "jsonl": iter_jsonl,
    "json": iter_json,
    "parquet": iter_parquet,
}
BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
# What the API takes besides a JSON document, which it parses itself.
BY_MEDIA_TYPE = {"text/csv": "csv", "application/x-ndjson": "jsonl"}
