"""Counting groups again once a detector says otherwise what belongs together.

The groups of all queries are named first, and then each group is counted as if it had
always been one: by the lowest rank among those that it was first answered by.  Where a
query counts for something else than before, its label is given once more with that, so
that the counts follow from the labels as ever.
"""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from operator import itemgetter
from typing import Any

from sqlalchemy.orm import Session

from tracker import words
from tracker.services.evidence import standing
from tracker.services.evidence.random_queue import rank_query
from tracker.services.evidence.units import Units, erased_name, name_group
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.current import set_current_labels
from tracker.storage.labelling.inputs import lock_groups
from tracker.storage.labels import Label
from tracker.storage.queries import groups as names
from tracker.storage.queries.queries import set_columns

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_QUERIES = 2_000
_GROUPS = 200
_REPLAYED = {words.REPLAYED, words.REPLAYED_UNSTATED}
_KEPT = ("label", "sampling", "is_replayed", "agreement")
Run = Callable[[Callable[[Session], Any]], Any]
"""Opens a transaction for some work."""


def count_groups(run: Run, detector: Detector, *, at: datetime) -> bool:
    """Count the groups of *detector* again, in short transactions.

    False if what the detector says of them was changed meanwhile.
    """

    def release(session: Session) -> bool:
        # Of some queries that are in no group any more, each by itself.
        found = names.lock_left(session, detector.id, limit=_QUERIES)
        left = [dict(row._mapping) for row in found]
        _stand_again(session, detector, left, at)
        return bool(left)

    after: int | None = 0
    while after is not None:
        after = run(partial(_name_some, detector=detector, after=after))
    group: str | None = ""
    while group is not None:
        group = run(partial(_count_some, detector=detector, after=group, at=at))
    while run(release):
        pass
    return bool(run(lambda session: names.end_counting(session, detector)))


def _name_some(session: Session, detector: Detector, after: int) -> int | None:
    by_metadata = detector.group_by is not None
    found = names.list_named(
        session, detector.id, after=after, limit=_QUERIES, has_metadata=by_metadata
    )
    changed = []
    for row in found:
        query = dict(row._mapping)
        if not query["is_group_given"]:
            metadata = json.loads(query["metadata"]) if query["metadata"] else None
            query["group"] = name_group(detector.group_by, metadata)
        waits = query["queue_rank"] is not None
        if query["label_id"] is None:
            waits = query["sampling"] != words.TARGETED and not query["is_repeat"]
        rank = rank_query(detector.queue_seed, query)
        query["queue_rank"] = rank if waits else None
        query["rank"] = None if row.rank is None else rank
        ranks = query["queue_rank"], query["rank"]
        if (row.group, row.queue_rank, row.rank) != (query["group"], *ranks):
            changed.append(query)
    if changed:
        set_columns(session, detector.id, changed, ("group", "queue_rank", "rank"))
    return found[-1].id if found else None


def _count_some(
    session: Session, detector: Detector, after: str, at: datetime
) -> str | None:
    groups = names.list_groups(session, detector.id, after=after, limit=_GROUPS)
    if not groups:
        return None
    lock_groups(session, detector.id, groups)
    erased = {erased_name(detector.queue_seed, name): name for name in groups}
    found = names.lock_answered(session, detector.id, [*groups, *erased])
    # What was erased belongs to the group that its hash is of, and to no other.
    members = [
        {**row._mapping, "group": erased.get(row.group, row.group)}
        for row in found
        if row.erased_at is None or row.group in erased
    ]
    _stand_again(session, detector, members, at)
    return groups[-1]


def _stand_again(
    session: Session,
    detector: Detector,
    members: Sequence[dict[str, Any]],
    at: datetime,
) -> None:
    # Queries of whole groups, by the labels they have.
    by_query: dict[int, list[Any]] = {one["id"]: [] for one in members}
    for label in names.list_labels_of(session, detector.id, [*by_query]):
        by_query[label.query_id].append(label)
    units = Units(session, detector)
    placed = [(_entered_at(one, by_query[one["id"]]), one) for one in members]
    # The answers of one moment came together.
    for moment in sorted({entered for entered, _ in placed}):
        batch = [query for entered, query in placed if entered == moment]
        units.elect((one, one["sampling"], one["is_replayed"]) for one in batch)
        for query in batch:
            query["now"] = _stand(detector, query, by_query[query["id"]], units)
    changed = [query for _, query in placed if query["now"] != query["standing"]]
    changed.sort(key=itemgetter("id"))
    if changed:
        # Their labels are given once more, with what they count for now.
        number = add_batch(session, detector.id, created_at=at)
        labels, current = [], []
        ids = range(first_id(number), first_id(number + 1))
        for query, label_id in zip(changed, ids, strict=False):
            given = by_query[query["id"]]
            [before] = [one for one in given if one.id == query["label_id"]]
            row = {**before._mapping, "id": label_id, "replaces_id": before.id}
            row |= {"source_label_id": before.id, "note": None, "created_at": at}
            labels.append(row | {"standing": query["now"]})
            kept = {name: query[name] for name in _KEPT}
            is_open = query["now"] == words.OPEN
            decision = standing.Decision(**kept, standing=query["now"], is_open=is_open)
            known = {"query_id": query["id"], "label_id": label_id}
            current.append(known | standing.dump_decision(decision, detector))
        insert_rows(session, Label, labels)
        set_current_labels(session, detector.id, current)
    units.write()


def _entered_at(query: dict[str, Any], labels: Sequence[Any]) -> datetime:
    # When it was first labelled in the population that it is in.
    if query["erased_at"] is not None:
        # It is not known any more how it ranked: what it was it stays.
        return _LAST if query["standing"] == words.GROUPED else _FIRST
    own = {label.id for label in labels}
    # What was given once more with another standing says nothing new.
    given = [label for label in labels if label.source_label_id not in own]
    entered: datetime = given[0].created_at
    was_replayed = given[0].source_label_id is not None
    place = (given[0].sampling, was_replayed or query["is_replayed"])
    for label in given[1:]:
        if label.sampling == words.TARGETED:
            # It moves no query, and may be no word of a majority.
            continue
        is_drawn = label.sampling == words.RANDOM and label.source_label_id is None
        is_own = is_drawn and label.standing not in _REPLAYED
        is_replayed = query["is_replayed"] or (place[1] and not is_own)
        if (label.sampling, is_replayed) != place:
            place, entered = (label.sampling, is_replayed), label.created_at
    return entered


def _stand(
    detector: Detector, query: dict[str, Any], labels: Sequence[Any], units: Units
) -> str:
    base = standing.stand(
        query["sampling"],
        is_replayed=query["is_replayed"],
        is_repeat=query["is_repeat"],
    )
    if base in {words.REPEAT, words.TARGETED}:
        return base
    if query["group"] is not None and not units.place(query, base):
        return words.GROUPED
    if query["standing"] != words.GROUPED:
        # Others may still be asked, or disagree.
        return str(query["standing"])
    given = [one for one in labels if one.sampling != words.TARGETED]
    are_compared = standing.are_compared(detector, query["agreement"])
    said = {one.labeler: one.label for one in given} if are_compared else {}
    found = standing.find_consensus(detector, query["agreement"], query["label"], said)
    return standing.stand(query["sampling"], found, is_replayed=query["is_replayed"])
