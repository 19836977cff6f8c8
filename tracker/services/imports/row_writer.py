"""Writing one piece of the rows of an import, in one transaction.

New queries are written by column.  Rows of known queries, rows that repeat a key and
rows that give a label alone are looked at one by one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.evidence import random_queue, standing
from tracker.services.evidence.populations import population_of
from tracker.services.evidence.random_queue import rank_new_query
from tracker.services.evidence.truths import Truths
from tracker.services.evidence.units import Elected
from tracker.services.fields import dump_metadata
from tracker.services.imports.checking import Columns, is_reference
from tracker.services.imports.contradictions import brings_input, unknown_key
from tracker.services.imports.reading.rows import JUDGE, Row
from tracker.services.imports.reports import Outcome
from tracker.services.imports.row_keys import keys_of
from tracker.services.queries.queries import DEFAULT_VERSION, label_row
from tracker.storage.detectors import Detector, add_versions, list_versions
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.inserting import insert_columns, insert_rows
from tracker.storage.labelling.current import set_current_labels
from tracker.storage.labelling.labelers import add_verdicts
from tracker.storage.labelling.rechecks import Recheck, find_rechecks
from tracker.storage.labels import Label, add_labels_of, iter_words
from tracker.storage.queries import lookup
from tracker.storage.queries.groups import note_groups
from tracker.storage.queries.queries import Query, add_queries
from tracker.storage.queries.waiting import find_waiting_by_keys
from tracker.words import GROUPED, NO_ANSWER, TARGETED, UNSTATED

_NOT_OF_QUERIES = ("labeler", "labelled_at", "note", "weight")


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
        self._elected.versions = {one: name for name, one in self._versions.items()}
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
        # The keys of queries that waited for the prediction that their row brought.
        self._completed: set[str] = set()
        self._decided: dict[int, standing.Decision] = {}

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
        if "key" in good.values:
            self._complete(keys, good, inputs, groups)
        if are_new:
            self._truths.hold(inputs, groups)
        known = {} if are_new else self._find(keys, inputs, groups)
        said = zip(
            good.get("version", DEFAULT_VERSION), good.get("predicted"), strict=True
        )
        named = dict.fromkeys(one for one, predicted in said if predicted is not None)
        if new := [one for one in named if one not in self._versions]:
            self._versions |= add_versions(
                self._session, self._detector.id, new, created_at=self._by.at
            )
            self._elected.versions = {one: name for name, one in self._versions.items()}
        if known or not self._write_new(keys, good):
            self._write_some(keys, good.rows(), known)
        if any(groups) and self._detector.groups is None:
            note_groups(self._session, self._detector.id)
        self._truths.units.write()
        self.report.conflicts = self.report.bad_rows

    def _complete(
        self,
        keys: list[str],
        good: Columns,
        inputs: list[str | None],
        groups: list[str | None],
    ) -> None:
        """Give queries that wait for their prediction the one that a row brings."""
        waiting = find_waiting_by_keys(
            self._session, self._detector.id, keys, lock=True
        )
        if not waiting:
            return
        # It loads SciPy and Pillow, for which `tracker import` would wait each time.
        from tracker.services.labelling import predictions  # noqa: PLC0415

        # In the order in which others hold them.
        self._truths.lock(
            [*inputs, *(one.input for one in waiting.values())],
            [*groups, *(one.group for one in waiting.values())],
        )
        for key, row in zip(keys, good.rows(), strict=True):
            if key in waiting and "predicted" in row.values:
                names = "predicted", "confidence", "version", "input"
                given = {name: row.values.get(name) for name in names}
                if given["predicted"] == NO_ANSWER:
                    given["predicted"] = None
                said = predictions.QueryCompletion(**given)
                which = (self._session, self._detector, waiting.pop(key), said)
                predictions.complete_waiting(*which, self._by)
                self._completed.add(key)
        self.report.queries_added += len(self._completed)
        # Their labels may have chosen units.
        self._truths = Truths(self._session, self._detector, self._by, self._elected)
        self._versions = {
            one.name: one.id for one in list_versions(self._session, self._detector.id)
        }

    def _find(
        self, keys: list[str], inputs: list[str | None], groups: list[str | None]
    ) -> dict[str, Any]:
        ask = self._session, self._detector.id, keys
        known = lookup.find_queries_by_key(*ask)
        self._truths.hold(
            [*inputs, *(row.input for row in known.values())],
            [*groups, *(row.group for row in known.values())],
        )
        if not known:
            return known
        locked = lookup.find_queries_by_key(*ask, lock=True)
        # Some may have got another group meanwhile.
        self._truths.lock((), [row.group for row in locked.values()])
        return locked

    def _write_new(self, keys: list[str], rows: Columns) -> bool:
        """Add *rows* with keys that are not stored, column by column.

        False if that cannot be: a key stands twice, a row gives a label alone, or
        others are to be asked too.
        """
        if (
            len(set(keys)) < len(keys)
            or None in rows.get("predicted")
            or ("label" in rows.values and self._detector.labels_wanted > 1)
        ):
            return False
        are_alone = self._truths.are_alone(rows.get("input"))
        queries = self._query_columns(keys, rows, are_alone=are_alone)
        self.report.queries_added += len(keys)
        self.report.labels_added += len(keys) - queries["label"].count(None)
        labels = self._add_new(queries, rows, are_alone=are_alone)
        verdicts = {
            (query_id, judge): verdict
            for judge, said in _by_judge(rows.values)
            for query_id, verdict in zip(queries["id"], said, strict=True)
            if verdict is not None
        }
        self._judge(verdicts)
        if not are_alone:
            self._truths.arrive(rows_of(queries), rows_of(labels))
        return True

    def _query_columns(
        self, keys: Sequence[str], rows: Columns, *, are_alone: bool
    ) -> dict[str, Sequence[Any]]:
        ids = list(map(self._id, rows.numbers))
        no, at = [False] * len(ids), self._by.at
        versions = rows.get("version", DEFAULT_VERSION)
        named = {
            "id": ids,
            "version_id": [self._versions[name] for name in versions],
            "key": keys,
            "input": rows.get("input"),
            "group": rows.get("group"),
            "label": rows.get("label"),
            "sampling": rows.get("sampling", UNSTATED),
            "is_repeat": no,
            "is_pooled": [True] * len(ids),
        }
        if not are_alone:
            # One by one: where inputs share no label, the next query is new no more.
            place = self._truths.place
            placed = [*map(place, named["version_id"], named["input"])]
            named |= {name: [one[name] for one in placed] for name in placed[0]}
        columns = named | {
            "detector_id": [self._detector.id] * len(ids),
            "is_group_given": rows.get("is_group_given"),
            "predicted": rows.get("predicted"),
            "confidence": rows.get("confidence"),
            "asked_at": rows.get("asked_at", at),
            "created_at": [at] * len(ids),
            "metadata": [
                None if value is None else dump_metadata(value)
                for value in rows.get("metadata")
            ],
            "image": rows.get("image"),
            "image_url": rows.get("image_url"),
            "label_id": [
                None if label is None else number
                for number, label in zip(ids, named["label"], strict=True)
            ],
            "is_replayed": no,
            "is_gold": no,
        }
        columns |= self._place(named, has_groups="group" in rows.values)
        unsaid = "agreement", "tags", "erased_at", "image_erased_at"
        return columns | dict.fromkeys(unsaid, [None] * len(ids))

    def _place(
        self, named: Mapping[str, Sequence[Any]], *, has_groups: bool
    ) -> dict[str, list[Any]]:
        labels = named["label"]
        kinds = [*zip(labels, named["sampling"], named["is_repeat"], strict=True)]
        standings = [
            None if label is None else standing.stand(sampling, is_repeat=is_repeat)
            for label, sampling, is_repeat in kinds
        ]
        ranks: list[Any] = [None] * len(labels)
        if has_groups:
            self._group(named, standings, ranks)
        elif None in labels:
            # Without a mapping for each row, which would take as long as the hash.
            columns = zip(named["id"], named["input"], kinds, strict=True)
            ranks = [
                random_queue.hash_to_unit(self._detector.queue_seed, name or number)
                if random_queue.does_wait(label, sampling, is_repeat=is_repeat)
                else None
                for number, name, (label, sampling, is_repeat) in columns
            ]
        kept = ranks
        if ranks.count(None) < len(ranks):
            kept = [
                rank if self._truths.get(name) is None else None
                for rank, name in zip(ranks, named["input"], strict=True)
            ]
        return {"standing": standings, "queue_rank": ranks, "rank": kept}

    def _group(
        self,
        named: Mapping[str, Sequence[Any]],
        standings: list[str | None],
        ranks: list[Any],
    ) -> None:
        known, units = [*set(filter(None, standings))], self._truths.units
        word = self._detector.label_sampling
        populations = {one: population_of(one, word) for one in known}
        columns = (named[name] for name in ("version_id", "group", "id", "key"))
        for row, (version_id, group, number, key, said) in enumerate(
            zip(*columns, [*standings], strict=True)
        ):
            if said is None:
                query = {name: values[row] for name, values in named.items()}
                if group is None or not units.is_spent(query):
                    ranks[row] = rank_new_query(self._detector, query, label=None)
                continue
            population = populations[said]
            if group is None or population is None:
                continue
            if not units.place_new((version_id, group, population), number, key):
                standings[row] = GROUPED

    def _add_new(
        self, queries: Mapping[str, Sequence[Any]], rows: Columns, *, are_alone: bool
    ) -> Mapping[str, Sequence[Any]]:
        """Insert *queries* that were made of *rows*, and their labels.

        The ids follow on each other.  Return the labels as columns, or nothing where
        the database can make them from the queries: the rows say no more of them, and
        they *are alone*, without others with their input that get the label too.
        """
        insert_columns(self._session, Query, queries)
        if are_alone and rows.values.keys().isdisjoint(_NOT_OF_QUERIES):
            ends = queries["id"][0], queries["id"][-1]
            by, detector_id = self._by, self._detector.id
            add_labels_of(self._session, detector_id, ends, by.name, by.at)
            return {}
        is_given = [label is not None for label in queries["label"]]
        same = ("detector_id", "label", "standing", "sampling", "created_at")
        columns: dict[str, Sequence[Any]] = {
            "id": queries["label_id"],
            "query_id": queries["id"],
            **{name: queries[name] for name in (*same, "is_repeat")},
            "note": rows.get("note"),
            "labeler": rows.get("labeler", self._by.name),
            "labelled_at": rows.get("labelled_at", self._by.at),
            "weight": rows.get("weight"),
        }
        labels: dict[str, Sequence[Any]] = {
            name: list(compress(values, is_given)) for name, values in columns.items()
        }
        none = [None] * sum(is_given)
        labels |= dict.fromkeys(("replaces_id", "truth", "source_label_id"), none)
        insert_columns(self._session, Label, labels)
        return labels

    def _write_some(
        self, keys: list[str], rows: list[Row], found: dict[str, Any]
    ) -> None:
        known = {key: dict(row._mapping) for key, row in found.items()}
        self._find_referred(keys, rows, known)
        stored = set(known)
        new, labels = list[dict[str, Any]](), list[dict[str, Any]]()
        referred = list[dict[str, Any]]()
        changed: dict[int, dict[str, Any]] = {}
        joining: dict[str, str] = {}
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
            elif not (is_new or brings or key in self._completed):
                same.append(query["id"])
            verdicts |= {(query["id"], one): said for one, said in _by_judge(item)}
            if brings:
                joining[key] = item["input"]
        self.report.queries_added += len(new)
        self.report.labels_added += len(labels)
        add_queries(self._session, new)
        insert_rows(self._session, Label, labels)
        if changed:
            set_current_labels(self._session, self._detector.id, [*changed.values()])
        self._judge(verdicts, same)
        self._refer(referred)
        self._truths.arrive(list(known.values()), labels)
        self._truths.join([known[k] | {"input": name} for k, name in joining.items()])
        self.report.inputs_added += len(joining)

    def _change(self, query: Mapping[str, Any]) -> dict[str, Any]:
        decided = standing.dump_decision(self._decided[query["id"]], self._detector)
        return {"query_id": query["id"], "label_id": query["label_id"]} | decided

    def _judge(
        self, verdicts: dict[tuple[int, str], str], same: Sequence[int] = ()
    ) -> None:
        """Store verdicts by query and judge; the rows of the *same* bring no more."""
        judged = set[int]()
        if verdicts:
            batch, at = self._id(0) // first_id(1), self._by.at
            ask = self._session, self._detector.id, verdicts
            new = add_verdicts(*ask, at=at, batch=batch)
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
        found = lookup.find_queries_by_input(
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
            else rank_new_query(self._detector, query, label=item.get("label"))
        )
        query["rank"] = self._truths.keep_rank(query)
        return query

    def _label(
        self, number: int, query: dict[str, Any], item: dict[str, Any]
    ) -> dict[str, Any] | None:
        given, labeler = item.get("label"), item.get("labeler")
        is_named = labeler is not None
        before = query["label"]
        if labeler is not None:
            before = self._opinions.words.get(query["id"], {}).get(labeler, {})
            before = before.get("label")
        if given in {None, before}:
            return None
        said, by = item.get("sampling"), self._by.credit(labeler)
        compares = self._opinions.are_compared(query, is_named=is_named)
        sampling = standing.choose_label_sampling(query, said, are_compared=compares)
        extra = "note", "labelled_at", "weight"
        own: dict[str, Any] = {name: item.get(name) for name in extra}
        own |= {"replaces_id": query["label_id"], "is_repeat": query["is_repeat"]}
        label = label_row(
            self._id(number), query["id"], self._detector.id, given, sampling, by, **own
        )
        self._opinions.note(label)
        decision = standing.decide_standing(
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
        # A known query has none here.
        if "queue_rank" in query:
            decided = standing.dump_decision(decision, self._detector)
            rank = query["queue_rank"]
            if rank is None and decision.is_open and not query["is_repeat"]:
                rank = rank_new_query(self._detector, query, label=None)
            query["queue_rank"] = rank if decided["keeps_rank"] else None
        return label


def _by_judge(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, said in values.items():
        if name.startswith(JUDGE):
            yield name.removeprefix(JUDGE), said


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    lines = zip(*columns.values(), strict=True)
    return [dict(zip(columns, line, strict=True)) for line in lines]


class Opinions:
    """The last word of each labeler of the queries of some rows."""

    def __init__(self, session: Session, detector: Detector) -> None:
        self._session = session
        self._detector = detector
        self.words: dict[int, dict[str, Mapping[str, Any]]] = {}
        self._seconds: dict[int, Recheck] = {}

    def meet(self, rows: Iterable[Row], known: Iterable[Mapping[str, Any]]) -> None:
        """Read what was said of the *known* queries of *rows*, and forget others."""
        self.words, self._seconds = {}, {}
        known = list(known)
        if (
            self._detector.labels_wanted == 1
            and not any("labeler" in row.values for row in rows)
            and not any(query["agreement"] for query in known)
        ):
            return
        query_ids = [query["id"] for query in known]
        for word in iter_words(self._session, self._detector.id, query_ids):
            self.note(word)
        self._seconds = find_rechecks(self._session, self._detector.id, query_ids)

    def note(self, label: Mapping[str, Any]) -> None:
        self.words.setdefault(label["query_id"], {})[label["labeler"]] = label

    def are_compared(self, query: Mapping[str, Any], *, is_named: bool) -> bool:
        return is_named or standing.are_compared(self._detector, query["agreement"])

    def of(self, query: Mapping[str, Any], *, is_named: bool) -> dict[str, Any]:
        if not self.are_compared(query, is_named=is_named):
            return {"words": {}}
        said = self.words.get(query["id"], {})
        words = {n: w["label"] for n, w in said.items() if w["sampling"] != TARGETED}
        second = self._seconds.get(query["id"])
        return {"words": words, "second": None if second is None else second.answer}
