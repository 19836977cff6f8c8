"""The formats of an imported file, and how its name or its media type says which."""

from collections.abc import Callable, Iterator
from typing import BinaryIO

from tracker.services.rows import Row, iter_csv, iter_json, iter_jsonl, iter_parquet

READERS: dict[str, Callable[[BinaryIO], Iterator[Row]]] = {
    "csv": iter_csv,
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
