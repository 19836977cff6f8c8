"""Undo an import: take back what it added, and count again.

History and labels stay; another label of each query cancels them.  A query with a later
label, or one that an audit needs, stays as it is and is counted in `kept`.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.detectors import get_open_detector
from tracker.services.evidence.random_queue import rank_new_query, rank_version
from tracker.services.imports.background import unpack_report
from tracker.services.imports.reports import Outcome, pack_report
from tracker.storage import imports as storage
from tracker.storage.base import delete_rows, dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates import pending
from tracker.storage.imports import DONE, FAILED, UNDONE, FileImport
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.inputs import Reference
from tracker.storage.labelling.labelers import Judgement
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label
from tracker.storage.queries.groups import list_labels_of
from tracker.storage.queries.lookup import find_queries_by_key
from tracker.storage.queries.queries import set_pooled
from tracker.words import REPLAYED, REPLAYED_UNSTATED, TARGETED, WITHDRAWN

_AT_ONCE = 2_000
# What a query that was added held.
_TAKEN_AWAY = (
    *("key", "input", "group", "metadata", "image", "image_url", "tags"),
    *("queue_rank", "rank"),
)


def undo_import(session: Session, file_import: FileImport, by: By) -> FileImport:
    """Take back what an import added, in the caller's transaction.

    Raises ConflictError for one that goes on, added nothing or was undone already, and
    for an archived detector.
    """
    detector = get_open_detector(session, dump_id("det", file_import.detector_id))
    if file_import.finished_at is None:
        raise ConflictError("the import is still running; undo it once it has ended")
    if file_import.state not in {DONE, FAILED}:
        raise ConflictError(
            "it was undone already"
            if file_import.state == UNDONE
            else "the import added nothing"
        )
    batches = storage.list_import_batches(session, file_import)
    undo = _Undo(session, detector, set(batches), by)
    for start in range(0, len(batches), _AT_ONCE):
        some = batches[start : start + _AT_ONCE]
        # Those that nobody has changed since.
        theirs = Judgement.batch.in_(some)
        verdicts = delete_rows(session, Judgement, theirs, detector_id=detector.id)
        undo.counts["verdicts_taken_back"] += verdicts
    for batch in reversed(batches):
        undo.take_back(batch)
    undo.finish()
    _forget_rows(session, detector.id, file_import.sha256[:16])
    if detector.groups is not None:
        pending.count_groups_again(session, detector.id, created_at=by.at)
    report = unpack_report(file_import) or Outcome()
    for name, number in undo.counts.items():
        setattr(report, name, number)
    file_import.state, file_import.report = UNDONE, pack_report(report)
    session.flush()
    by.record(session, "import undone", dump_id("imp", file_import.id), **undo.counts)
    return file_import


class _Undo:
    def __init__(
        self, session: Session, detector: Detector, own: set[int], by: By
    ) -> None:
        self._session = session
        self._detector = detector
        self._own = own
        self._at = by.at
        first = pending.first_id(
            pending.add_batch(session, detector.id, created_at=by.at)
        )
        self._ids = iter(range(first, first + pending.BATCH_LIMIT))
        self._unpooled: set[str] = set()
        taken = ("queries", "labels", "references", "verdicts")
        self.counts = {f"{one}_taken_back": 0 for one in taken} | {"kept": 0}

    def take_back(self, batch: int) -> None:
        """Take back the rows of a batch on which nothing else rests."""
        session, detector_id = self._session, self._detector.id
        queries, _ = storage.lock_written(session, detector_id, batch)
        others: dict[int, list[Any]] = {query.id: [] for query in queries}
        for label in list_labels_of(session, detector_id, [*others]):
            others[label.query_id].append(label)
        own = sorted(self._own)
        taken = storage.find_taken_over(session, detector_id, batch, own)
        held = storage.find_needed(session, detector_id, batch, own)
        changed: list[dict[str, Any]] = []
        gone: list[int] = []
        new: list[dict[str, Any]] = []
        for query in queries:
            is_new = self._is_own(query.id)
            mine = [one for one in others[query.id] if self._is_own(one.id)]
            foreign = [one for one in others[query.id] if not self._is_own(one.id)]
            rests = query.id in held or any(one.id in taken for one in mine)
            is_later = query.label_id is not None and not self._is_own(query.label_id)
            if rests or (foreign if is_new else is_later):
                self.counts["kept"] += 1
                continue
            before = _newest(foreign)
            found = self._before(query, before)
            if mine:
                label = self._label(query, mine, before)
                found["label_id"] = label["id"]
                new.append(label)
            if is_new:
                gone.append(query.id)
                found |= dict.fromkeys(_TAKEN_AWAY) | {"erased_at": self._at}
                if query.is_pooled and query.input is not None:
                    self._unpooled.add(query.input)
            changed.append(found)
        insert_rows(session, Label, new)
        storage.restore(session, detector_id, changed)
        for beside in (Reservation, Skip, Judgement):
            are_gone = beside.query_id.in_(gone)
            delete_rows(session, beside, are_gone, detector_id=detector_id)
        written = {"detector_id": detector_id, "batch": batch}
        references = delete_rows(session, Reference, **written)
        self.counts["queries_taken_back"] += len(gone)
        self.counts["labels_taken_back"] += len(new)
        self.counts["references_taken_back"] += references

    def _label(self, query: Any, mine: Sequence[Any], before: Any) -> dict[str, Any]:
        last = next((one for one in mine if one.id == query.label_id), mine[-1])
        row = dict((before or last)._mapping)
        row |= {"id": next(self._ids), "replaces_id": query.label_id, "note": None}
        row |= {"created_at": self._at, "source_label_id": row["source_label_id"]}
        if before is None:
            # Nobody gives it any more.
            row |= {"standing": WITHDRAWN, "sampling": TARGETED}
        return row

    def finish(self) -> None:
        """Let another query of each input count where versions are pooled."""
        seed = self._detector.queue_seed
        inputs = sorted(self._unpooled)
        for start in range(0, len(inputs), _AT_ONCE):
            names = inputs[start : start + _AT_ONCE]
            found: dict[str, list[Any]] = {}
            for row in storage.pool_again(self._session, self._detector.id, names):
                found.setdefault(row.input, []).append(row)
            chosen = [
                min(rows, key=lambda row: rank_version(seed, row.version_id, row.input))
                for rows in found.values()
                if not any(row.is_pooled for row in rows)
            ]
            ids = [row.id for row in chosen]
            set_pooled(self._session, self._detector.id, ids, is_pooled=True)

    def _is_own(self, id_: int) -> bool:
        return id_ // pending.first_id(1) in self._own

    def _before(self, query: Any, label: Any) -> dict[str, Any]:
        row = dict(query._mapping)
        if label is None:
            names = ("label", "standing", "agreement")
            row |= dict.fromkeys(names) | {"is_replayed": False}
            row["queue_rank"] = rank_new_query(self._detector, row, label=None)
            return row
        is_replayed = label.standing in {REPLAYED, REPLAYED_UNSTATED}
        return row | {
            "label": label.truth or label.label,
            "sampling": label.sampling,
            "standing": label.standing,
            "is_replayed": is_replayed,
        }


def _newest(labels: Sequence[Any]) -> Any:
    """Return the label that none of the others replaces; None for a withdrawn one."""
    replaced = {label.replaces_id for label in labels}
    last = [label for label in labels if label.id not in replaced]
    found = max(last, key=lambda label: int(label.id), default=None)
    return None if found is None or found.standing == WITHDRAWN else found


def _forget_rows(session: Session, detector_id: int, digest: str) -> None:
    """Forget the rows without a key that are there no more, for the files that follow.

    A later file that continues this one adds them again.
    """
    prefix = storage.find_prefix(session, detector_id, digest)
    if prefix is None:
        return
    hashes = storage.take_hashes(session, detector_id, digest, prefix)
    for start in range(0, len(hashes), _AT_ONCE):
        places = range(start, min(start + _AT_ONCE, len(hashes)))
        keys = {place: f"{prefix}{place + 1}" for place in places if hashes[place]}
        known = find_queries_by_key(session, detector_id, [*keys.values()])
        for place, key in keys.items():
            if key not in known:
                hashes[place] = 0
    while hashes and not hashes[-1]:
        hashes.pop()
    if hashes:
        storage.note_file(session, detector_id, prefix[7:23], prefix, hashes)
