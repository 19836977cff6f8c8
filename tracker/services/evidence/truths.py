"""The truth belongs to the input: one label for all the queries that share it."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker import words
from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.evidence.random_queue import rank_version
from tracker.services.evidence.standing import (
    Decision,
    dump_decision,
    take_over,
    taken_sampling,
)
from tracker.services.evidence.units import Elected, Units, find_firsts
from tracker.services.wording import missing, show
from tracker.storage.base import dump_id
from tracker.storage.detectors import AnyDetector, Detector
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling import inputs as storage
from tracker.storage.labelling.current import set_current_labels
from tracker.storage.labelling.inputs import find_references, put_references
from tracker.storage.labels import Label, find_labels
from tracker.storage.queries.groups import find_groups_of
from tracker.storage.queries.queries import Query, lock_query, set_pooled

# The label and the query of a reference, of which a copy still tells that it is one.
_NO_LABEL = 0
_SCORED = {words.RANDOM, words.UNSTATED, words.REPLAYED, words.REPLAYED_UNSTATED}
_ASKED = {words.OPEN, words.DISPUTED}


class Truth(NamedTuple):
    """The row of a label, as the other queries with its input take it over."""

    row: Mapping[str, Any]
    decision: Decision

    @classmethod
    def read(cls, label: Mapping[str, Any], query: Mapping[str, Any]) -> "Truth":
        """Return what was decided when *query* was given its current *label*."""
        standing, agreement = label["standing"], query.get("agreement")
        is_disputed = standing == words.GROUPED and agreement == words.DISPUTED
        decision = Decision(
            label.get("truth") or label["label"],
            query["sampling"],
            standing,
            is_replayed=standing in {words.REPLAYED, words.REPLAYED_UNSTATED},
            agreement=agreement,
            is_open=standing == words.OPEN,
            is_scored=standing not in _ASKED and not is_disputed,
        )
        return cls(label, decision)

    @classmethod
    def of_reference(cls, reference: Mapping[str, Any]) -> "Truth":
        """Return the truth that a reference states, which is no query's label."""
        label, sampling = reference["label"], reference["sampling"]
        decision = Decision(
            label, sampling, sampling, is_replayed=False, agreement=None, is_open=False
        )
        none = {"id": _NO_LABEL, "query_id": _NO_LABEL, "source_label_id": None}
        return cls({**reference, **none}, decision)

    @property
    def label(self) -> str:
        return self.decision.label

    @property
    def age(self) -> tuple[datetime, int]:
        """What truths are told apart by: the newest label counts."""
        return self.row["created_at"], self.row["id"]

    def adds_to(self, label: str | None, standing: str | None) -> bool:
        """Return whether it says something else, or whether people are asked on."""
        own = self.decision.standing
        settles = own in _SCORED and standing in _ASKED
        opens = own in _ASKED and standing in _SCORED
        return settles or opens or label != self.label


class Truths:
    """The truths of inputs, as one transaction finds and changes them."""

    def __init__(
        self,
        session: Session,
        detector: AnyDetector,
        by: By,
        elected: Elected | None = None,
    ) -> None:
        """Work for *detector*; nothing is read yet.

        *elected* are the units of groups that a file answers.
        """
        self._session = session
        self._detector = detector
        self._detector_id = detector.id
        self._at = by.at
        # Whether queries with one input share their label.
        self._shares = detector.label_of == words.INPUT
        self.units = Units(session, detector, elected)
        # The batches of the labels that were passed on.
        self.batches: list[int] = []
        self._ids = self._draw_ids()
        self._firsts: set[tuple[int, str]] = set()
        # The inputs that any query had when they were held.
        self._stored: set[str] = set()
        # The inputs that are new no more, without a truth here: of a labelled query
        # that was erased, or of any query where inputs share no label.
        self._spent: set[str] = set()
        self._truths: dict[str, Truth] = {}
        # By input, as rows.
        self._references: Mapping[str, Any] = {}

    def _draw_ids(self) -> Iterator[int]:
        while True:
            batch = add_batch(self._session, self._detector_id, created_at=self._at)
            self.batches.append(batch)
            yield from range(first_id(batch), first_id(batch + 1))

    def lock(
        self, inputs: Iterable[str | None], groups: Iterable[str | None] = ()
    ) -> None:
        """Lock *inputs*, *groups* and the groups of these inputs until this commits.

        From then on the units of the groups are known.
        """
        given = {name for name in inputs if name is not None}
        storage.lock_inputs(self._session, self._detector_id, given)
        found: set[str] = set()
        if given and self._detector.groups is not None:
            found = find_groups_of(self._session, self._detector_id, given)
        self._lock_groups({*groups, *found})

    def _lock_groups(self, groups: Iterable[str | None]) -> None:
        names = self.units.missing(groups)
        storage.lock_groups(self._session, self._detector_id, names)
        self.units.read(names)

    def hold(
        self, inputs: Iterable[str | None], groups: Iterable[str | None] = ()
    ) -> None:
        """Lock *inputs* and *groups*, and read what is known of them alone."""
        given = {name for name in inputs if name is not None}
        self._firsts, self._spent, self._truths, self._stored = set(), set(), {}, set()
        self.lock(given, groups)
        if not given:
            return
        session, detector_id = self._session, self._detector_id
        self._firsts, self._spent = find_firsts(session, self._detector, given)
        self._stored = {name for _, name in self._firsts}
        if not self._shares:
            self._spent = set(self._stored)
            return
        found: dict[str, Any] = {}
        if self._stored:
            found = storage.find_truths(session, detector_id, self._stored)
        left = self._spent - found.keys()
        if left:
            found |= storage.find_truths(session, detector_id, left, of_repeats=True)
        self._truths = {
            name: Truth.read(row._mapping, row._mapping) for name, row in found.items()
        }
        left = given - self._truths.keys()
        self._references = find_references(session, detector_id, left)
        self._truths |= {
            name: Truth.of_reference(row._mapping)
            for name, row in self._references.items()
        }

    def refer(self, rows: Mapping[str, dict[str, Any]]) -> None:
        """Write references by their inputs, which are held and no query has."""
        changed = [row for name, row in rows.items() if name in self._references]
        new = [row for name, row in rows.items() if name not in self._references]
        put_references(self._session, new, changed)
        self._truths |= {name: Truth.of_reference(row) for name, row in rows.items()}

    def get(self, name: str | None) -> Truth | None:
        return None if name is None else self._truths.get(name)

    def are_alone(self, names: Collection[str | None]) -> bool:
        """Return whether inputs that are held have nothing but one new query each."""
        given = [name for name in names if name is not None]
        unique = set(given)
        is_known = unique & self._stored or unique & self._truths.keys()
        return len(unique) == len(given) and not is_known

    def keep_rank(self, query: Mapping[str, Any]) -> float | None:
        """Return the rank that a new query keeps for good, if it waits for a label.

        An input that has a label may have been put to its version with it in mind.
        """
        known = self.get(query["input"])
        rank: float | None = query["queue_rank"]
        return rank if known is None else None

    def is_new(self, name: str | None) -> bool:
        """Return whether an input that is held was never labelled, or there is none."""
        return name not in self._truths and name not in self._spent

    def repeats(self, version_id: int, name: str | None) -> bool:
        """Return whether a version was put to an input before; from now on it was."""
        if name is None:
            return False
        place = version_id, name
        is_repeat = place in self._firsts
        self._firsts.add(place)
        if not self._shares:
            self._spent.add(name)
        return is_repeat

    def place(self, version_id: int, name: str | None) -> dict[str, bool]:
        """Return what a new query is among those with its input, which is held."""
        is_new = self.is_new(name)
        is_repeat = self.repeats(version_id, name)
        return {"is_repeat": is_repeat, "is_pooled": is_repeat or is_new}

    def arrive(
        self, queries: Sequence[Mapping[str, Any]], labels: Sequence[Mapping[str, Any]]
    ) -> None:
        """Settle the truths after new *queries* and *labels* were written.

        A label that adds to the truth of its input is the new one, and others take it
        over.
        """
        if not self._shares:
            return
        by_id = {query["id"]: query for query in queries}
        given: dict[str, Truth] = {}
        known_before = set(self._truths)
        for label in labels:
            query = by_id[label["query_id"]]
            name = query["input"]
            if name is None or query["label_id"] != label["id"]:
                continue
            truth, known = Truth.read(label, query), self.get(name)
            if known is None or truth.adds_to(known.label, known.decision.standing):
                given[name] = self._truths[name] = truth
        times = Counter(query["input"] for query in queries)
        shared = {
            name: truth
            for name, truth in given.items()
            if name in self._stored or times[name] > 1
        }
        self.pass_on(shared, first_of=shared.keys() - known_before)
        self._write(
            (self._truths[query["input"]], query)
            for query in queries
            if query["label_id"] is None
            and query["input"] in self._truths
            and query["input"] not in given
        )

    def pass_on(
        self,
        given: Mapping[str, Truth],
        *,
        first_of: Collection[str] = (),
        says_more: bool = False,
    ) -> None:
        """Give each truth to the queries with its input that it adds to.

        And to the others too, where it *says_more* than a class: who else was asked.
        Of inputs that it is the *first_of*, one query counts where versions are pooled.
        """
        if not self._shares or not given:
            return
        names = list(given)
        found = [*storage.iter_queries_of(self._session, self._detector_id, names)]
        # Of each of these inputs one counts where versions are pooled, by its rank.  No
        # result can move it later, and what is put to a version because of another's
        # mistakes has its label already.
        answered: dict[str, list[Any]] = {}
        for row in found:
            if row.input in first_of and not row.is_repeat:
                answered.setdefault(row.input, []).append(row)
        seed, others = self._detector.queue_seed, list[int]()
        for name, some in answered.items():
            ranks = {row.id: rank_version(seed, row.version_id, name) for row in some}
            others += sorted(ranks, key=lambda number: (ranks[number], number))[1:]
        if others:
            set_pooled(self._session, self._detector_id, others, is_pooled=False)
        self._write(
            (given[row.input], row._asdict())
            for row in found
            if row.id != given[row.input].row["query_id"]
            and (says_more or given[row.input].adds_to(row.label, row.standing))
        )

    def join(self, queries: Sequence[dict[str, Any]]) -> None:
        """Give *queries* their ``input``, which is held and takes the newest label."""
        if not queries:
            return
        known_before = set(self._truths)
        for query in queries:
            query.update(self.place(query["version_id"], query["input"]))
        storage.set_inputs(self._session, self._detector_id, queries)
        label_ids = [query["label_id"] for query in queries if query["label_id"]]
        labels = find_labels(self._session, self._detector_id, label_ids)
        given: dict[str, Truth] = {}
        copies: list[tuple[Truth, Mapping[str, Any]]] = []
        for query in queries:
            name, truth = query["input"], self._truths.get(query["input"])
            row = labels.get(query["label_id"])
            own = None if row is None else Truth.read(row, query)
            if not self._shares:
                truth = own
            elif own is not None and (truth is None or own.age > truth.age):
                truth = given[name] = self._truths[name] = own
            if truth is None:
                continue
            # What was counted is counted out by a label that says so.
            if own is None or query["is_repeat"] or own.label != truth.label:
                copies.append((truth, query))
        self._write(copies)
        self.pass_on(given, first_of=given.keys() - known_before)

    def _write(self, copies: Iterable[tuple[Truth, Mapping[str, Any]]]) -> None:
        labels, current = [], []
        # In one order on both databases, or their histories would differ.
        copies = sorted(copies, key=lambda copy: copy[1]["id"])
        # Of one that got its group while this transaction had begun already.
        self._lock_groups(query["group"] for _, query in copies)
        self.units.elect(
            (query, *taken_sampling(query, truth.decision.sampling))
            for truth, query in copies
        )
        for truth, query in copies:
            decision = take_over(query, truth.decision, self.units)
            label_id = next(self._ids)
            labels.append(
                {
                    "id": label_id,
                    "query_id": query["id"],
                    "detector_id": self._detector_id,
                    "replaces_id": query["label_id"],
                    "label": decision.label,
                    "truth": None,
                    "standing": decision.standing,
                    "sampling": decision.sampling,
                    "note": None,
                    "labeler": truth.row["labeler"],
                    "labelled_at": truth.row["labelled_at"],
                    "created_at": self._at,
                    "source_label_id": truth.row["source_label_id"] or truth.row["id"],
                    "is_repeat": query["is_repeat"],
                    "weight": None,
                }
            )
            current.append(
                {"query_id": query["id"], "label_id": label_id}
                | dump_decision(decision, self._detector)
            )
        if labels:
            insert_rows(self._session, Label, labels)
            set_current_labels(self._session, self._detector_id, current)
        self.units.write()


_JOINED = (
    *("id", "key", "group", "version_id", "label_id"),
    *("sampling", "standing", "is_replayed", "agreement"),
)


def join_input(
    session: Session, detector: Detector, query: Query, name: str, by: By
) -> None:
    """Give *query* its input; raises ConflictError if it has another one."""
    truths = Truths(session, detector, by)
    # Before the row, as everybody does who holds both.
    truths.hold([name], [query.group])
    current = lock_query(session, detector.id, query.id)
    if current is None:
        raise missing("query", dump_id("iq", query.id))
    if current.input == name:
        return
    if current.input is not None:
        raise other_input(current.input, name)
    truths.join([{one: getattr(current, one) for one in _JOINED} | {"input": name}])
    by.record(session, "input added", dump_id("iq", query.id), input=name)


def other_input(stored: str | None, given: str) -> ConflictError:
    return ConflictError(
        f"the query has the input {show(stored)} already, not {show(given)}"
    )
