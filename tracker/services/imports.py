"""Importing many queries and labels at once, all or nothing unless told otherwise."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.audit import TARGETED, rank_new_query
from tracker.services.detectors import check_class
from tracker.services.fields import (
    ImageUrl,
    Input,
    Instant,
    Key,
    LabelText,
    Metadata,
    Note,
    Probability,
    Sampling,
    VersionName,
    describe_errors,
    dump_metadata,
    show,
)
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.queries import DEFAULT_VERSION, label_row
from tracker.services.rows import Row
from tracker.storage.detectors import Detector, add_versions, list_versions
from tracker.storage.labels import add_labels
from tracker.storage.pending import BATCH_LIMIT, add_batch, first_id
from tracker.storage.queries import add_queries, find_queries_by_key, set_current_labels

_CHUNK = 2_000


class ImportRow(Input):
    """A query with or without its label, or a label for a known key."""

    key: Key | None = None
    input: Key | None = None
    predicted: LabelText | None = None
    confidence: Probability | None = None
    version: VersionName | None = None
    asked_at: Instant | None = None
    metadata: Metadata | None = None
    image_url: ImageUrl | None = None
    label: LabelText | None = None
    sampling: Sampling | None = None
    note: Note | None = None
    labelled_at: Instant | None = None


class ImportBody(Input):
    """An import as JSON."""

    items: list[ImportRow] = Field(description="The rows, in order.")


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
    run = _Import(session, detector, digest, labeler, created_at)
    with _without_collector():
        for chunk in _chunks(rows):
            good = [parsed for row in chunk if (parsed := run.parse(row)) is not None]
            if skip_bad_rows or not run.report.bad_rows:
                run.write(good)
            if on_progress is not None:
                on_progress(run.report.rows)
    if run.report.bad_rows and not skip_bad_rows:
        raise RejectedImportError(run.report)
    return run.report


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    iterator = iter(rows)
    while chunk := list(islice(iterator, _CHUNK)):
        yield chunk


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
        self._classes = frozenset(detector.classes)
        self._labels = self._classes | {"UNCLEAR"}
        self._key_prefix = f"import-{digest[:16]}-"
        self._labeler = labeler
        self._created_at = created_at
        self._versions = {v.name: v.id for v in list_versions(session, detector.id)}
        self._first_id: int | None = None

    def parse(self, row: Row) -> tuple[int, ImportRow] | None:
        """Return the row if it is right in itself, and note its errors if not."""
        self.report.rows += 1
        if row.error is not None:
            self.report.add_error(row.number, [row.error])
            return None
        try:
            item = ImportRow.model_validate(row.values)
            self._check(row.number, item)
        except ValidationError as error:
            self.report.add_error(row.number, describe_errors(error))
            return None
        except InvalidInputError as error:
            self.report.add_error(row.number, error.errors)
            return None
        return row.number, item

    def _check(self, number: int, item: ImportRow) -> None:
        if number >= BATCH_LIMIT:
            raise InvalidInputError.of(
                "row", f"at most {BATCH_LIMIT - 1:,} in one import"
            )
        if item.predicted is None:
            if item.key is None or item.label is None:
                raise InvalidInputError.of(
                    "predicted",
                    "is required, or both key and label for a query known already",
                )
        elif item.predicted not in self._classes:
            check_class(
                self._detector, item.predicted, field="predicted", may_be_unclear=False
            )
        if item.label is not None and item.label not in self._labels:
            check_class(self._detector, item.label, field="label", may_be_unclear=True)

    def write(self, items: list[tuple[int, ImportRow]]) -> None:
        """Add what is new in *items*."""
        keys = [item.key or f"{self._key_prefix}{number}" for number, item in items]
        known = {
            key: dict(row._mapping)
            for key, row in find_queries_by_key(
                self._session, self._detector.id, keys, lock=True
            ).items()
        }
        stored = set(known)
        self._add_versions(items)
        new: list[dict[str, Any]] = []
        labels: list[dict[str, Any]] = []
        changed: list[dict[str, Any]] = []
        for key, (number, item) in zip(keys, items, strict=True):
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
            set_current_labels(self._session, changed)

    def _add_versions(self, items: list[tuple[int, ImportRow]]) -> None:
        names = {item.version or DEFAULT_VERSION for _, item in items if item.predicted}
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

    def _new_query(self, number: int, key: str, item: ImportRow) -> dict[str, Any]:
        if item.predicted is None:
            raise InvalidInputError.of(
                "key",
                f"{show(key)} is not known, and there is no predicted to add it with",
            )
        query_id = self._id(number)
        sampling = item.sampling or "unstated"
        return {
            "id": query_id,
            "detector_id": self._detector.id,
            "version_id": self._versions[item.version or DEFAULT_VERSION],
            "key": key,
            "input": item.input,
            "predicted": item.predicted,
            "confidence": item.confidence,
            "asked_at": item.asked_at or self._created_at,
            "created_at": self._created_at,
            "metadata": None if item.metadata is None else dump_metadata(item.metadata),
            "image": None,
            "image_url": item.image_url,
            "label_id": None,
            "label": None,
            "sampling": sampling,
            "audit_rank": rank_new_query(
                self._detector, query_id, label=item.label, sampling=sampling
            ),
        }

    def _compare(self, key: str, query: dict[str, Any], item: ImportRow) -> None:
        given = {
            "input": item.input,
            "predicted": item.predicted,
            "confidence": item.confidence,
            "version_id": self._versions.get(item.version, -1)
            if item.version
            else None,
            "asked_at": item.asked_at,
            "metadata": None if item.metadata is None else dump_metadata(item.metadata),
            "image_url": item.image_url,
        }
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
                f"not {show(getattr(item, name))}",
            )

    def _label(
        self, number: int, key: str, query: dict[str, Any], item: ImportRow
    ) -> dict[str, Any] | None:
        if item.label is None or item.label == query["label"]:
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
                f"and then with {show(item.label)}",
            )
        query["label_id"] = self._id(number)
        query["label"] = item.label
        query["sampling"] = item.sampling or query["sampling"]
        if query["sampling"] != TARGETED:
            query["audit_rank"] = None
        return label_row(
            query["label_id"],
            query["id"],
            item.label,
            query["sampling"],
            self._labeler,
            self._created_at,
            replaces_id=replaced,
            note=item.note,
            labelled_at=item.labelled_at,
        )


def _current_label(query: dict[str, Any]) -> dict[str, Any]:
    return {
        "query_id": query["id"],
        "label_id": query["label_id"],
        "label": query["label"],
        "sampling": query["sampling"],
    }
