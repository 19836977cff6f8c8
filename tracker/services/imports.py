"""Importing many queries and labels at once, all or nothing unless told otherwise."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.csv_rows import CsvRows
from tracker.services.fields import dump_metadata, show
from tracker.services.import_columns import label_columns, query_columns
from tracker.services.import_keys import key_prefix
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.import_rows import Columns, RowReader
from tracker.services.queries import DEFAULT_VERSION, UNSTATED, label_row
from tracker.services.ranks import TARGETED, rank_new_query
from tracker.services.rows import Row, iter_pieces
from tracker.storage.base import insert_columns
from tracker.storage.detectors import Detector, add_versions, list_versions
from tracker.storage.labels import Label, add_labels
from tracker.storage.pending import add_batch, first_id
from tracker.storage.queries import (
    Query,
    add_queries,
    find_queries_by_key,
    forget_plans,
    set_current_labels,
)

# What a row says of a known key must be what is known; its version and metadata are
# stored in another form.
_COMPARED = (
    "input",
    "predicted",
    "confidence",
    "version_id",
    "asked_at",
    "metadata",
    "image_url",
)


def import_rows(  # noqa: PLR0913 - what is imported, whose, when and how.
    session: Session,
    detector: Detector,
    rows: Iterable[Row],
    *,
    digest: str,
    labeler: str,
    created_at: datetime,
    skip_bad_rows: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> ImportReport:
    """Add the queries and labels in *rows*.

    The same rows again add nothing.  A known key with another label is a
    correction, with another prediction an error.  Rows without a key are told
    apart by *digest*, a hash of the file, and their number.

    Raises RejectedImportError, with every bad row, unless *skip_bad_rows*; the
    caller's transaction must then be rolled back.
    """
    forget_plans(session)
    run = _Import(session, detector, digest, labeler, created_at)
    pieces = rows.pieces() if isinstance(rows, CsvRows) else iter_pieces(rows)
    with _without_collector():
        for piece in pieces:
            good = run.reader.read(piece)
            if skip_bad_rows or not run.report.bad_rows:
                run.write(good)
            if on_progress is not None:
                on_progress(run.report.rows)
    if run.report.bad_rows and not skip_bad_rows:
        raise RejectedImportError(run.report)
    return run.report


def check_rows(session: Session, detector: Detector, rows: Iterable[Row]) -> None:
    """Raise RejectedImportError if a row is wrong in itself; none is compared."""
    report = ImportReport()
    versions = [version.name for version in list_versions(session, detector.id)]
    reader = RowReader(detector, versions, report)
    for piece in iter_pieces(rows):
        reader.read(piece)
    if report.bad_rows:
        raise RejectedImportError(report)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the collector of cycles from running.

    Rows come and go in such numbers that it would look through all that the
    process has loaded, ten times in 100,000 rows, for cycles that no row makes.
    """
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


class _Import:
    """One import under way."""

    def __init__(
        self,
        session: Session,
        detector: Detector,
        digest: str,
        labeler: str,
        created_at: datetime,
    ) -> None:
        self.report = ImportReport()
        self._session = session
        self._detector = detector
        self._key_prefix = key_prefix(digest)
        self._labeler = labeler
        self._created_at = created_at
        self._versions = {v.name: v.id for v in list_versions(session, detector.id)}
        self.reader = RowReader(detector, self._versions, self.report)
        # What a new query has where its row says nothing.
        self._blank = {
            "detector_id": detector.id,
            "input": None,
            "confidence": None,
            "asked_at": created_at,
            "created_at": created_at,
            "metadata": None,
            "image": None,
            "image_url": None,
            "label_id": None,
            "sampling": UNSTATED,
            "agreement": None,
        }
        self._first_id: int | None = None

    def write(self, good: Columns | list[Row]) -> None:
        """Add what is new in rows that are right in themselves."""
        if not isinstance(good, Columns):
            keys = [row.values.get("key") or self._key_of(row.number) for row in good]
            self._write_rows(keys, good, self._find(keys))
            return
        keys = [
            key or self._key_of(number)
            for number, key in enumerate(good.get("key"), start=good.first)
        ]
        known = self._find(keys)
        if known or not self._write_new(keys, good):
            self._write_rows(keys, good.rows(), known)

    def _key_of(self, number: int) -> str:
        return f"{self._key_prefix}{number}"

    def _find(self, keys: list[str]) -> dict[str, Any]:
        return find_queries_by_key(self._session, self._detector.id, keys, lock=True)

    def _write_new(self, keys: list[str], rows: Columns) -> bool:
        """Add *rows* with keys that are not stored, column by column.

        False if that cannot be: a key stands twice, a version is new, or a row gives
        a label alone.
        """
        versions = rows.get("version", DEFAULT_VERSION)
        if (
            len(set(keys)) < len(keys)
            or not self._versions.keys() >= set(versions)
            or None in rows.get("predicted")
        ):
            return False
        first = self._id(rows.first)
        queries = query_columns(
            self._detector,
            range(first, first + len(keys)),
            keys,
            [self._versions[name] for name in versions],
            rows,
            self._created_at,
        )
        labels = label_columns(queries, rows, self._labeler)
        self.report.queries_added += len(keys)
        self.report.labels_added += len(labels["id"])
        insert_columns(self._session, Query, queries)
        insert_columns(self._session, Label, labels)
        return True

    def _write_rows(
        self, keys: list[str], rows: list[Row], found: dict[str, Any]
    ) -> None:
        known = {key: dict(row._mapping) for key, row in found.items()}
        stored = set(known)
        self._add_versions(rows)
        new: list[dict[str, Any]] = []
        labels: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        for key, (number, item, _) in zip(keys, rows, strict=True):
            query = known.get(key)
            is_new = query is None
            try:
                if query is None:
                    query = known[key] = self._new_query(number, key, item)
                    new.append(query)
                else:
                    self._compare(key, query, item)
                label = self._label(number, key, query, item)
            except InvalidInputError as error:
                self.report.add_error(number, error.errors)
                continue
            if label is not None:
                labels.append(label)
                if key in stored:
                    changed.append(_current_label(query))
            elif not is_new:
                self.report.unchanged += 1
        self.report.queries_added += len(new)
        self.report.labels_added += len(labels)
        add_queries(self._session, new)
        add_labels(self._session, labels)
        if changed:
            set_current_labels(self._session, self._detector.id, changed)

    def _add_versions(self, rows: list[Row]) -> None:
        names = {
            row.values.get("version", DEFAULT_VERSION)
            for row in rows
            if "predicted" in row.values
        }
        new = names - self._versions.keys()
        if new:
            self._versions |= add_versions(
                self._session, self._detector.id, new, created_at=self._created_at
            )

    def _id(self, number: int) -> int:
        if self._first_id is None:
            batch = add_batch(
                self._session, self._detector.id, created_at=self._created_at
            )
            self._first_id = first_id(batch)
        return self._first_id + number

    def _new_query(self, number: int, key: str, item: dict[str, Any]) -> dict[str, Any]:
        if "predicted" not in item:
            raise InvalidInputError.of(
                "key",
                f"{show(key)} is not known, and there is no predicted to add it with",
            )
        if "metadata" in item:
            item = {**item, "metadata": dump_metadata(item["metadata"])}
        query_id = self._id(number)
        sampling = item.get("sampling", UNSTATED)
        return {
            **self._blank,
            **item,
            "id": query_id,
            "version_id": self._versions[item.get("version", DEFAULT_VERSION)],
            "key": key,
            "label": None,
            "audit_rank": rank_new_query(
                self._detector, query_id, label=item.get("label"), sampling=sampling
            ),
        }

    def _compare(self, key: str, query: dict[str, Any], item: dict[str, Any]) -> None:
        given = {column: item.get(column) for column in _COMPARED}
        if "metadata" in item:
            given["metadata"] = dump_metadata(item["metadata"])
        if "version" in item:
            given["version_id"] = self._versions.get(item["version"], -1)
        for column, value in given.items():
            if value is None or value == query[column]:
                continue
            name, stored = column, query[column]
            if column == "version_id":
                names = {number: name for name, number in self._versions.items()}
                name, stored = "version", names[stored]
            raise InvalidInputError.of(
                name,
                f"the key {show(key)} is known with {show(stored)}, "
                f"not {show(item[name])}",
            )

    def _label(
        self, number: int, key: str, query: dict[str, Any], item: dict[str, Any]
    ) -> dict[str, Any] | None:
        given = item.get("label")
        if given is None or given == query["label"]:
            return None
        replaced = query["label_id"]
        if (
            replaced is not None
            and self._first_id is not None
            and replaced >= self._first_id
        ):
            raise InvalidInputError.of(
                "label",
                f"the key {show(key)} stands twice, with {show(query['label'])} "
                f"and then with {show(given)}",
            )
        query["label_id"] = self._id(number)
        query["label"] = given
        query["sampling"] = item.get("sampling", query["sampling"])
        if query["sampling"] != TARGETED:
            query["audit_rank"] = None
        return label_row(
            query["label_id"],
            query["id"],
            self._detector.id,
            given,
            query["sampling"],
            self._labeler,
            self._created_at,
            replaces_id=replaced,
            note=item.get("note"),
            labelled_at=item.get("labelled_at"),
        )


def _current_label(query: dict[str, Any]) -> dict[str, Any]:
    return {
        "query_id": query["id"],
        "label_id": query["label_id"],
        "label": query["label"],
        "sampling": query["sampling"],
    }
