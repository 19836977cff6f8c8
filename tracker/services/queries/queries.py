"""Logging queries one at a time, finding them, and erasing what they held."""

import json
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, GoneError, NotFoundError, TrackerError
from tracker.services import fields
from tracker.services.by import By
from tracker.services.detectors import check_class, check_is_open, check_prediction
from tracker.services.evidence.random_queue import rank_new_query
from tracker.services.evidence.standing import decide_standing
from tracker.services.evidence.truths import Truths
from tracker.services.evidence.units import erased_name, name_group
from tracker.services.wording import missing, show
from tracker.shapes import Shape
from tracker.storage.base import change_rows, delete_rows, dump_id, parse_id
from tracker.storage.detectors import Detector, add_versions, name_version
from tracker.storage.estimates.pending import add_batch_of
from tracker.storage.estimates.slices import count_slices_again
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling import audits, golds, inputs, labelers, rechecks
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label, list_labels
from tracker.storage.queries import queries as storage
from tracker.storage.queries import waiting
from tracker.storage.queries.groups import note_groups
from tracker.storage.queries.waiting import WaitingQuery, find_waiting
from tracker.words import (
    GROUPED,
    NO_ANSWER,
    REPEAT,
    TARGETED,
    UNSTATED,
    AgreementWord,
    SamplingWord,
)

DEFAULT_VERSION = "default"


def _without_default(schema: dict[str, Any]) -> None:
    # A generated client that sent null by default would say "no answer".
    del schema["default"]


class NewQuery(fields.Input):
    """A new query, with or without its label."""

    key: fields.Key | None = Field(
        default=None, description="The caller's own id, unique within the detector."
    )
    input: fields.Key | None = Field(
        default=None,
        description="What was put in; queries with the same input share their label, "
        "and those of two versions are compared as a pair.",
    )
    group: fields.Key | None = Field(
        default=None,
        description="What the query belongs to, such as an event, a session or a "
        "document. Of the queries of a group one counts in each version.",
    )
    predicted: fields.LabelText | None = Field(
        default=None,
        description="The class that the detector said; null if it gave no answer. "
        "Without this field the query waits for its prediction.",
        json_schema_extra=_without_default,
    )
    confidence: fields.Probability | None = Field(
        default=None,
        description="The detector's confidence in this prediction, 0 to 1.",
    )
    version: fields.VersionName = Field(
        default=DEFAULT_VERSION,
        description="The version of the detector that answered.",
    )
    asked_at: fields.Instant | None = Field(
        default=None, description="The instant; by default now."
    )
    metadata: fields.Metadata | None = Field(
        default=None, description="Metadata is shown and never interpreted."
    )
    image_url: fields.ImageUrl | None = Field(
        default=None,
        description="An image that browsers show; the server never fetches it.",
    )
    label: fields.LabelText | None = Field(
        default=None, description="The ground truth, a class or UNCLEAR."
    )
    sampling: fields.Sampling | None = Field(
        default=None, description="Why this query was chosen for labelling."
    )


class Query(Shape):
    """One input put to a detector, and what the detector said of it."""

    id: str = Field(description="iq_ and a number.")
    detector: str = Field(description="The id of the detector.")
    key: str | None = Field(description="The caller's own id.")
    input: str | None = Field(description="The input.")
    group: str | None = Field(description="The group that it belongs to.")
    predicted: str | None = Field(
        description="The class that the detector said; null if it gave no answer, and "
        "while the query waits for one."
    )
    waiting: bool = Field(
        default=False, description="Whether it still waits for its prediction."
    )
    confidence: float | None
    version: str
    asked_at: fields.StoredInstant
    created_at: fields.StoredInstant
    metadata: dict[str, Any] | None
    image_url: str | None
    image: fields.Address | None = Field(description="The address of the stored image.")
    label: str | None = Field(description="The current label, a class or UNCLEAR.")
    sampling: SamplingWord = Field(description="Why it was chosen for labelling.")
    agreement: AgreementWord | None = Field(
        description="Where several people labelled it: agreed, disputed or settled."
    )
    is_repeat: bool = Field(
        description="Whether its version was put to the same input before; its label "
        "is shown and counted nowhere."
    )
    is_grouped: bool = Field(
        description="Whether another query of its group counts in its place."
    )
    tags: list[str] = Field(description="What people marked it with, in order.")


def describe_query(
    session: Session, query: storage.Query | WaitingQuery, *, image: str | None
) -> Query:
    """Return a query as it is answered, with the address of its *image*."""
    known: dict[str, Any] = {
        "id": dump_id("iq", query.id),
        "detector": dump_id("det", query.detector_id),
        "metadata": load_metadata(query),
        "image": image,
    }
    if isinstance(query, storage.Query):
        return Query.from_row(
            query,
            **known,
            version=name_version(session, query.detector_id, query.version_id),
            predicted=None if query.predicted == NO_ANSWER else query.predicted,
            waiting=False,
            is_grouped=query.standing == GROUPED,
            tags=[] if query.tags is None else storage.load_tags(query.tags),
        )
    label = query.labels[-1] if query.labels else {}
    return Query.from_row(
        query,
        **known,
        predicted=None,
        waiting=True,
        confidence=None,
        label=label.get("label"),
        sampling=label.get("sampling") or UNSTATED,
        agreement=None,
        is_repeat=False,
        is_grouped=False,
        tags=[],
    )


def log_query(
    session: Session,
    detector: Detector,
    new: NewQuery,
    by: By,
    *,
    image: str | None = None,
) -> tuple[storage.Query, bool]:
    """Add a query, and return it and whether it is new.

    The same *key* again gives back the stored query; raises ConflictError if the
    content differs.
    """
    if new.predicted is not None:
        check_prediction(detector, new.predicted, field="predicted")
    if new.label is not None:
        check_class(detector, new.label, field="label", may_be_unclear=True)
    if new.key is not None:
        query = storage.find_query_by_key(session, detector.id, new.key)
        if query is not None:
            check_is_there(query)
            _check_same(session, query, new, image)
            return query, False
    place = add_batch_of(session, detector.id, new.version, created_at=by.at)
    return add_query(session, detector, new, by, *place, image=image), True


def add_query(  # noqa: PLR0913, PLR0917 - what log_query takes, and the ids.
    session: Session,
    detector: Detector,
    new: NewQuery,
    by: By,
    number: int,
    version_id: int | None,
    *,
    image: str | None,
) -> storage.Query:
    """Add a query that has been checked, under the first id of a pending batch.

    Its version is added unless it has the *version_id*.
    """
    known, truths = _place_new(session, detector, new, by, number, version_id)
    known = _stand_new(detector, new, by, known, truths)
    row: dict[str, Any] = {
        **known,
        "detector_id": detector.id,
        "is_group_given": None if new.group is None else True,
        "predicted": NO_ANSWER if new.predicted is None else new.predicted,
        "confidence": new.confidence,
        "asked_at": new.asked_at or by.at,
        "created_at": by.at,
        "image": image,
        "image_url": new.image_url,
        "label_id": None if new.label is None else number,
        "label": new.label,
        "is_gold": False,
        "tags": None,
        "erased_at": None,
        "image_erased_at": None,
    }
    details = None if new.metadata is None else fields.dump_metadata(new.metadata)
    insert_rows(session, storage.Query, [row | {"metadata": details}])
    labels = []
    if new.label is not None:
        own = {"is_repeat": row["is_repeat"]}
        given = new.label, row["sampling"]
        label = label_row(number, number, detector.id, *given, by, **own)
        labels = [label | {"standing": row["standing"]}]
        insert_rows(session, Label, labels)
    if truths is not None:
        truths.units.write()
    if truths is None or new.input is None:
        return storage.Query(**row, details=details)
    truths.arrive([row], labels)
    # With the label that it took over.
    return get_query_by_number(session, detector.id, number)


def _place_new(  # noqa: PLR0913, PLR0917 - what add_query takes.
    session: Session,
    detector: Detector,
    new: NewQuery,
    by: By,
    number: int,
    version_id: int | None,
) -> tuple[dict[str, Any], Truths | None]:
    group, truths = new.group, None
    if group is None and detector.group_by is not None:
        group = name_group(detector.group_by, new.metadata)
    if new.input is not None or group is not None:
        truths = Truths(session, detector, by)
        # Before a row of another query with the same input is held.
        truths.hold([new.input], [group])
    if group is not None and detector.groups is None:
        note_groups(session, detector.id)
    if version_id is None:
        named = add_versions(session, detector.id, [new.version], created_at=by.at)
        version_id = named[new.version]
    query: dict[str, Any] = {
        "id": number,
        "version_id": version_id,
        "key": new.key,
        "input": new.input,
        "group": group,
        "sampling": new.sampling or UNSTATED,
        "standing": None,
        "is_replayed": False,
        "agreement": None,
        "queue_rank": None,
        "rank": None,
        "is_repeat": False,
        "is_pooled": True,
    }
    if truths is not None:
        query |= truths.place(version_id, new.input)
    return query, truths


def _stand_new(
    detector: Detector,
    new: NewQuery,
    by: By,
    query: dict[str, Any],
    truths: Truths | None,
) -> dict[str, Any]:
    """Return a new query with what its label counts for, or its rank without one."""
    units = None if truths is None else truths.units
    if new.label is not None:
        said = query["sampling"]
        words = {} if said == TARGETED else {by.name: new.label}
        given = {"said": said, "words": words, "units": units}
        found = decide_standing(query, detector, new.label, **given)
        query |= {"standing": found.standing, "agreement": found.agreement}
        if found.is_open and not found.is_spent:
            query["queue_rank"] = rank_new_query(detector, query, label=None)
    elif query["group"] is None or units is None or not units.is_spent(query):
        rank = query["queue_rank"] = rank_new_query(detector, query, label=None)
        query["rank"] = rank if truths is None else truths.keep_rank(query)
    return query


def label_row(  # noqa: PLR0913, PLR0917 - the columns of one row.
    label_id: int,
    query_id: int,
    detector_id: int,
    label: str,
    sampling: str,
    by: By,
    *,
    replaces_id: int | None = None,
    note: str | None = None,
    labelled_at: datetime | None = None,
    is_repeat: bool = False,
    weight: float | None = None,
) -> dict[str, Any]:
    """Return a label as the mapping of columns that storage takes."""
    return {
        "id": label_id,
        "query_id": query_id,
        "detector_id": detector_id,
        "replaces_id": replaces_id,
        "label": label,
        "truth": None,
        "standing": REPEAT if is_repeat else sampling,
        "sampling": sampling,
        "note": note,
        "labeler": by.name,
        "labelled_at": labelled_at or by.at,
        "created_at": by.at,
        "source_label_id": None,
        "is_repeat": is_repeat,
        "weight": weight,
    }


def _check_same(
    session: Session, query: storage.Query, new: NewQuery, image: str | None
) -> None:
    version = name_version(session, query.detector_id, query.version_id)
    stored = {
        "input": query.input,
        "group": query.group if query.is_group_given else None,
        "predicted": None if query.predicted == NO_ANSWER else query.predicted,
        "confidence": query.confidence,
        "version": version,
        "metadata": load_metadata(query),
    }
    # What an image was is not known any more once it is erased.
    has_image_erased = query.image_erased_at is not None
    if not has_image_erased:
        stored["image_url"] = query.image_url
    for field, value in stored.items():
        # A prediction may have come without what the query waited with.
        if field in new.model_fields_set and getattr(new, field) != value:
            _refuse_other(new, field, value)
    # Once another label has come, what the query declared is no longer known.
    is_as_declared = query.label_id in {None, query.id}
    # What it left out may have been taken over from the truth of its input.
    is_said = new.sampling is not None or query.input is None
    if is_as_declared and is_said and (new.sampling or UNSTATED) != query.sampling:
        _refuse_other(new, "sampling", query.sampling)
    if new.asked_at is not None and new.asked_at != query.asked_at:
        _refuse_other(new, "asked_at", query.asked_at)
    if image != query.image and not has_image_erased:
        raise ConflictError(
            f"a query with the key {show(new.key)} already exists with a different "
            "image"
        )
    if new.label is not None:
        given = [label.label for label in list_labels(session, query)]
        if new.label not in given:
            _refuse_other(new, "label", given[0] if given else None)


def _refuse_other(new: NewQuery, field: str, stored: object) -> None:
    raise ConflictError(
        f"a query with the key {show(new.key)} already exists with different content: "
        f"{field} is {show(stored)}, not {show(getattr(new, field))}"
    )


def load_metadata(query: storage.Query | WaitingQuery) -> Any:
    return None if query.details is None else json.loads(query.details)


def get_query(session: Session, query_id: str) -> storage.Query:
    number = parse_query_id(query_id)
    query = storage.find_query(session, number)
    if query is None:
        raise no_query(session, number)
    check_is_there(query)
    return query


def lock_query(session: Session, query_id: str) -> tuple[storage.Query, Detector]:
    """Return a query that nobody else can label meanwhile, and its detector."""
    query = get_query(session, query_id)
    detector = session.get_one(Detector, query.detector_id)
    query = storage.lock_query(session, detector.id, query.id) or query
    check_is_there(query)
    return query, detector


def no_query(session: Session, number: int) -> TrackerError:
    name = dump_id("iq", number)
    if find_waiting(session, number) is None:
        return missing("query", name)
    return ConflictError(
        f"the query {name} waits for its prediction; give it by PATCH /queries/{name}"
    )


def parse_query_id(query_id: str) -> int:
    number = parse_id("iq", query_id)
    if number is None:
        raise missing("query", query_id)
    return number


def check_is_there(query: storage.AnyQuery) -> None:
    if query.erased_at is not None:
        raise was_erased("query", query, query.erased_at)


def was_erased(what: str, query: storage.AnyQuery, at: datetime) -> GoneError:
    return GoneError(
        f"the {what} {dump_id('iq', query.id)} was erased on {at:%Y-%m-%d}"
    )


def get_query_by_number(
    session: Session, detector_id: int, number: int
) -> storage.Query:
    query = storage.find_query_of(session, detector_id, number)
    if query is None:
        raise missing("query", dump_id("iq", number))
    return query


MOST = 20
# A name of at most 100 letters, like that of a version.
Tag = fields.VersionWanted


class NewTags(fields.Input):
    """All tags of a query from now on."""

    tags: Annotated[list[Tag], Field(max_length=MOST)] = Field(
        description=f"At most {MOST}; an empty list removes all tags. A tag given "
        "twice counts once."
    )


def set_tags(session: Session, query_id: str, new: NewTags) -> storage.Query:
    """Mark a query with the tags given, and with no others."""
    query, detector = lock_query(session, query_id)
    check_is_open(detector)
    tags = json.dumps(sorted(set(new.tags)), ensure_ascii=False)
    query.tags = tags if new.tags else None
    session.flush()
    return query


def erase_query(session: Session, query_id: str, by: By) -> str | None:
    """Take away what a query holds; return an image that nothing shows any more.

    Its prediction and its label stay, without which the counts and the history would no
    longer follow from what is stored; its key and hashes of its group and input too, so
    that a file that is sent once more does not bring it back.

    Raises GoneError if it was erased before, and ConflictError while an audit waits
    for its label.
    """
    query, detector = lock_query(session, query_id)
    if query.label is None and audits.is_awaited(session, query):
        raise ConflictError(
            "an audit that is open may ask for the label of this query; label it or "
            "close the audit first"
        )
    name, seed = query.image, detector.queue_seed
    if query.input is not None:
        # Queries that have taken it over keep their labels.
        own = {"detector_id": detector.id, "input": query.input}
        delete_rows(session, inputs.Reference, **own)
    # An input without a label is not spent.
    spent = None if query.label is None else query.input
    storage.erase_content(
        session,
        query,
        group=None if query.group is None else erased_name(seed, query.group),
        name=None if spent is None else erased_name(seed, spent),
        erased_at=by.at,
    )
    for rows_of in (Label, rechecks.Recheck, golds.GoldAnswer):
        noted = storage.is_about(rows_of, query), rows_of.note.is_not(None)
        change_rows(session, rows_of, *noted, note=None)
    storage.delete_about(session, query, labelers.Judgement, Reservation, Skip)
    count_slices_again(session, detector, created_at=by.at)
    by.record(session, "query erased", query_id, detector=detector.name)
    return _find_unshown(session, name)


def erase_image(session: Session, query_id: str, by: By) -> str | None:
    """Take away the image of a query alone; return it if nothing shows it any more.

    Raises NotFoundError if the query never had an image, and GoneError if that or the
    query was erased before.
    """
    query, detector = lock_query(session, query_id)
    if query.image_erased_at is not None:
        raise was_erased("image of the query", query, query.image_erased_at)
    if query.image is None and query.image_url is None:
        raise NotFoundError("the query has no image")
    name = query.image
    storage.erase_image(session, query, erased_at=by.at)
    by.record(session, "image erased", query_id, detector=detector.name)
    return _find_unshown(session, name)


def is_image_erased(session: Session, detector: Detector, key: str) -> bool:
    query = storage.find_query_by_key(session, detector.id, key)
    return query is not None and bool(query.erased_at or query.image_erased_at)


def _find_unshown(session: Session, name: str | None) -> str | None:
    return None if name is None or waiting.has_image(session, name) else name
