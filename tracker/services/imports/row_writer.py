"""Writing one piece of the rows of an import, in one transaction."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.evidence.random_queue import draw_rank_of_new
from tracker.services.evidence.standing import (
    Decision,
    choose_word_sampling,
    decide,
    dump_decision,
)
from tracker.services.evidence.truths import Truths
from tracker.services.evidence.units import Elected
from tracker.services.fields import dump_metadata
from tracker.services.imports.checking import Columns, is_reference
from tracker.services.imports.columns import Opinions, add_new, query_columns, rows_of
from tracker.services.imports.contradictions import brings_input, unknown_key
from tracker.services.imports.reading.rows import JUDGE, Row
from tracker.services.imports.reports import Outcome
from tracker.services.imports.row_keys import keys_of
from tracker.services.queries.queries import DEFAULT_VERSION, label_row
from tracker.storage.detectors import Detector, add_versions, list_versions
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.labelling.current import set_current_labels
from tracker.storage.labelling.judgements import add_verdicts
from tracker.storage.labels import add_labels
from tracker.storage.queries.groups import note_groups
from tracker.storage.queries.lookup import find_queries_by_input, find_queries_by_key
from tracker.storage.queries.queries import Query, add_queries
from tracker.words import UNSTATED


class RowWriter:
    """Adds what is new in one piece of rows that the first pass found right.

    A row that met a conflict since then is noted in ``report``, and not written.
    """

    def __init__(
        self,
        session: Session,
        detector: Detector,
        prefix: str,
        by: By,
        elected: Elected,
    ) -> None:
        self.report = Outcome()
        self._session = session
        self._detector = detector
        self._prefix = prefix
        self._by = by
        self._truths = Truths(session, detector, by, elected)
        self._opinions = Opinions(session, detector)
        self._elected = elected
        self._versions = {v.name: v.id for v in list_versions(session, detector.id)}
        self._name_versions()
        # What a new query has where its row says nothing.
        self._blank = dict.fromkeys(Query.__table__.columns.keys()) | {
            "detector_id": detector.id,
            "asked_at": by.at,
            "created_at": by.at,
            "is_replayed": False,
            "is_gold": False,
            "is_repeat": False,
            "is_pooled": True,
        }
        self._batch: int | None = None
        self._decided: dict[int, Decision] = {}

    @property
    def batches(self) -> list[int]:
        own = [] if self._batch is None else [self._batch]
        return own + self._truths.batches

    def write(self, good: Columns, *, are_new: bool = False) -> None:
        """Add what is new in rows; where all are taken for new, none is looked up.

        The constraint on the keys then raises IntegrityError for one that is not.
        """
        keys = keys_of(good, self._prefix)
        inputs, groups = good.get("input"), good.values.get("group", [])
        if are_new:
            self._truths.hold(inputs, groups)
        known = {} if are_new else self._find(keys, inputs, groups)
        if known or not self._write_new(keys, good):
            self._write_some(keys, good.rows(), known)
        if any(groups) and self._detector.groups is None:
            note_groups(self._session, self._detector.id)
        self._truths.units.write()
        self.report.conflicts = self.report.bad_rows

    def _find(
        self, keys: list[str], inputs: list[str | None], groups: list[str | None]
    ) -> dict[str, Any]:
        """Return the queries known by *keys*, locked like all inputs and groups."""
        find = partial(find_queries_by_key, self._session, self._detector.id, keys)
        known = find()
        self._truths.hold(
            [*inputs, *(row.input for row in known.values())],
            [*groups, *(row.group for row in known.values())],
        )
        if not known:
            return known
        locked = find(lock=True)
        # Some may have got another group meanwhile.
        self._truths.lock((), [row.group for row in locked.values()])
        return locked

    def _write_new(self, keys: list[str], rows: Columns) -> bool:
        """Add *rows* with keys that are not stored, column by column.

        False if that cannot be: a key stands twice, a version is new, a row gives a
        label alone, or others are to be asked too.
        """
        versions = rows.get("version", DEFAULT_VERSION)
        if (
            len(set(keys)) < len(keys)
            or not self._versions.keys() >= set(versions)
            or None in rows.get("predicted")
            or ("label" in rows.values and self._detector.labels_wanted > 1)
        ):
            return False
        queries = query_columns(
            self._detector,
            list(map(self._id, rows.numbers)),
            keys,
            [self._versions[name] for name in versions],
            rows,
            self._by.at,
            self._truths,
        )
        self.report.queries_added += len(keys)
        self.report.labels_added += len(keys) - queries["label"].count(None)
        labels = add_new(self._session, queries, rows, self._by)
        verdicts = {
            (query_id, judge): verdict
            for judge, said in _by_judge(rows.values)
            for query_id, verdict in zip(queries["id"], said, strict=True)
            if verdict is not None
        }
        self._judge(verdicts)
        if "input" in rows.values:
            self._truths.arrive(rows_of(queries), rows_of(labels))
        return True

    def _write_some(
        self, keys: list[str], rows: list[Row], found: dict[str, Any]
    ) -> None:
        known = {key: dict(row._mapping) for key, row in found.items()}
        self._find_referred(keys, rows, known)
        stored = set(known)
        referred: list[dict[str, Any]] = []
        self._add_versions(rows)
        new, labels = list[dict[str, Any]](), list[dict[str, Any]]()
        changed: dict[int, dict[str, Any]] = {}
        joining: dict[str, tuple[dict[str, Any], str]] = {}
        verdicts, same = dict[tuple[int, str], str](), list[int]()
        self._opinions.meet(rows, known.values())
        for key, (number, item, *_) in zip(keys, rows, strict=True):
            query = known.get(key)
            is_new = query is None
            if is_new and is_reference(item):
                referred.append(item)
                continue
            brings = False
            try:
                if query is None:
                    query = known[key] = self._new_query(number, key, item)
                    new.append(query)
                else:
                    brings = brings_input(key, query, item, self._versions)
                label = self._label(number, query, item)
            except InvalidInputError as error:
                self.report.add_error(number, error.errors)
                continue
            if label is not None:
                labels.append(label)
                if key in stored:
                    changed[query["id"]] = self._change(query)
            elif not (is_new or brings):
                same.append(query["id"])
            verdicts |= {(query["id"], one): said for one, said in _by_judge(item)}
            if brings:
                joining[key] = query, item["input"]
        self.report.queries_added += len(new)
        self.report.labels_added += len(labels)
        add_queries(self._session, new)
        add_labels(self._session, labels)
        if changed:
            set_current_labels(self._session, self._detector.id, [*changed.values()])
        self._judge(verdicts, same)
        self._refer(referred)
        self._truths.arrive(list(known.values()), labels)
        self._join(joining.values())

    def _change(self, query: Mapping[str, Any]) -> dict[str, Any]:
        decided = dump_decision(self._decided[query["id"]], self._detector)
        return {"query_id": query["id"], "label_id": query["label_id"]} | decided

    def _judge(
        self, verdicts: dict[tuple[int, str], str], same: Sequence[int] = ()
    ) -> None:
        """Store verdicts by query and judge; the rows of the *same* bring no more."""
        new: list[tuple[int, str]] = []
        if verdicts:
            batch = self._id(0) // first_id(1)
            new = add_verdicts(
                *(self._session, self._detector.id, verdicts),
                at=self._by.at,
                batch=batch,
            )
        self.report.verdicts_added += len(new)
        judged = {query_id for query_id, _ in new}
        self.report.unchanged += sum(one not in judged for one in same)

    def _find_referred(
        self, keys: list[str], rows: list[Row], known: dict[str, dict[str, Any]]
    ) -> None:
        """Add the queries whose inputs are labelled to *known*, by the row's key."""
        inputs = {
            key: row.values["input"]
            for key, row in zip(keys, rows, strict=True)
            if is_reference(row.values)
        }
        if not inputs:
            return
        found = find_queries_by_input(
            self._session, self._detector.id, list(set(inputs.values()))
        )
        # A query that another row names by its key is labelled by both.
        queries = {query["id"]: query for query in known.values()}
        for row in found.values():
            queries.setdefault(row.id, dict(row._mapping))
        for key, name in inputs.items():
            if name in found:
                known[key] = queries[found[name].id]

    def _refer(self, items: list[dict[str, Any]]) -> None:
        """Keep the labels of inputs that no query has."""
        rows: dict[str, dict[str, Any]] = {}
        for item in items:
            name, label = item["input"], item["label"]
            known = self._truths.get(name)
            said = rows[name]["label"] if name in rows else known and known.label
            if said == label:
                self.report.unchanged += 1
                continue
            by = self._by.credit(item.get("labeler"))
            rows[name] = {
                "detector_id": self._detector.id,
                "input": name,
                "label": label,
                "sampling": item.get("sampling") or UNSTATED,
                "labeler": by.name,
                "labelled_at": item.get("labelled_at", by.at),
                "created_at": by.at,
                "batch": self._id(0) // first_id(1),
            }
        self._truths.refer(rows)
        self.report.references_added += len(rows)

    def _join(self, joining: Collection[tuple[dict[str, Any], str]]) -> None:
        """Give stored queries the inputs that rows brought."""
        for query, name in joining:
            query["input"] = name
        self._truths.join([query for query, _ in joining])
        self.report.inputs_added += len(joining)

    def _add_versions(self, rows: list[Row]) -> None:
        names = dict.fromkeys(
            row.values.get("version", DEFAULT_VERSION)
            for row in rows
            if "predicted" in row.values
        )
        new = [name for name in names if name not in self._versions]
        if new:
            self._versions |= add_versions(
                self._session, self._detector.id, new, created_at=self._by.at
            )
            self._name_versions()

    def _name_versions(self) -> None:
        self._elected.versions = {one: name for name, one in self._versions.items()}

    def _id(self, number: int) -> int:
        if self._batch is None:
            self._batch = add_batch(
                self._session, self._detector.id, created_at=self._by.at
            )
        return first_id(self._batch) + number

    def _new_query(self, number: int, key: str, item: dict[str, Any]) -> dict[str, Any]:
        if "predicted" not in item:
            raise unknown_key(key)
        if "metadata" in item:
            item = {**item, "metadata": dump_metadata(item["metadata"])}
        version_id = self._versions[item.get("version", DEFAULT_VERSION)]
        query = {
            **self._blank,
            **item,
            "id": self._id(number),
            "version_id": version_id,
            "key": key,
            "label": None,
            "sampling": item.get("sampling") or UNSTATED,
        }
        query |= self._truths.place(version_id, item.get("input"))
        is_spent = query["group"] is not None and self._truths.units.is_spent(query)
        query["queue_rank"] = (
            None
            if is_spent
            else draw_rank_of_new(self._detector, query, label=item.get("label"))
        )
        query["rank"] = self._truths.keep_rank(query)
        return query

    def _label(
        self, number: int, query: dict[str, Any], item: dict[str, Any]
    ) -> dict[str, Any] | None:
        given, labeler = item.get("label"), item.get("labeler")
        if given is None or not self._is_new(query, given, labeler):
            return None
        said, by = item.get("sampling"), self._by.credit(labeler)
        is_named = labeler is not None
        compares = self._opinions.are_compared(query, is_named=is_named)
        sampling = choose_word_sampling(query, said, are_compared=compares)
        label = label_row(
            self._id(number),
            query["id"],
            self._detector.id,
            given,
            sampling,
            by,
            replaces_id=query["label_id"],
            note=item.get("note"),
            labelled_at=item.get("labelled_at"),
            is_repeat=query["is_repeat"],
            weight=item.get("weight"),
        )
        self._opinions.note(label)
        decision = decide(
            query,
            self._detector,
            given,
            said=said,
            units=self._truths.units,
            **self._opinions.of(query, is_named=is_named),
        )
        self._decided[query["id"]] = decision
        label["standing"] = decision.standing
        if decision.label != given:
            label["truth"] = decision.label
        query |= decision._asdict()
        query["label_id"] = label["id"]
        for name in ("is_open", "is_scored", "is_spent"):
            del query[name]
        if "queue_rank" in query:
            query["queue_rank"] = self._rank(query, decision)
        return label

    def _rank(self, query: dict[str, Any], decision: Decision) -> float | None:
        """Return the rank of a new query, which waits if more people are wanted."""
        rank: float | None = query["queue_rank"]
        if not dump_decision(decision, self._detector)["keeps_rank"]:
            return None
        if rank is not None or not decision.is_open or query["is_repeat"]:
            return rank
        return draw_rank_of_new(self._detector, query, label=None)

    def _is_new(self, query: dict[str, Any], given: str, labeler: str | None) -> bool:
        if labeler is not None:
            return self._opinions.is_new(query["id"], labeler, given)
        return bool(given != query["label"])


def _by_judge(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, said in values.items():
        if name.startswith(JUDGE):
            yield name.removeprefix(JUDGE), said
