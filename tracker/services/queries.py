"""Logging queries one at a time, and finding them."""

import json
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.detectors import check_class
from tracker.services.fields import (
    ImageUrl,
    Input,
    Instant,
    Key,
    LabelText,
    Metadata,
    Probability,
    Sampling,
    VersionName,
    dump_metadata,
    missing,
    show,
)
from tracker.services.ranks import rank_new_query
from tracker.storage import queries as storage
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector, Version, add_versions
from tracker.storage.labels import add_labels, list_labels
from tracker.storage.pending import add_batch, first_id
from tracker.storage.queries import Query

DEFAULT_VERSION = "default"
UNSTATED = "unstated"


class NewQuery(Input):
    """A query to be logged, maybe with its label."""

    key: Key | None = Field(
        default=None, description="The caller's own id, unique within the detector."
    )
    input: Key | None = Field(
        default=None,
        description="What was put in; queries of two versions with the same input are "
        "compared as a pair.",
    )
    predicted: LabelText = Field(description="The class that the detector said.")
    confidence: Probability | None = Field(
        default=None, description="What the detector says of this prediction, 0 to 1."
    )
    version: VersionName = Field(
        default=DEFAULT_VERSION, description="Which state of the detector answered."
    )
    asked_at: Instant | None = Field(default=None, description="Now unless given.")
    metadata: Metadata | None = Field(
        default=None, description="Shown, never interpreted."
    )
    image_url: ImageUrl | None = Field(
        default=None, description="Shown by the browser; the server never fetches it."
    )
    label: LabelText | None = Field(
        default=None, description="The ground truth, a class or UNCLEAR."
    )
    sampling: Sampling | None = Field(
        default=None, description="Why this query was chosen for labelling."
    )


def log_query(  # noqa: PLR0913 - what is logged, by whom and when.
    session: Session,
    detector: Detector,
    new: NewQuery,
    *,
    labeler: str,
    created_at: datetime,
    image: str | None = None,
) -> tuple[Query, bool]:
    """Add a query, and return it and whether it is new.

    The same *key* again with the same content gives back the stored query;
    raises ConflictError if the content differs.
    """
    check_class(detector, new.predicted, field="predicted", may_be_unclear=False)
    if new.label is not None:
        check_class(detector, new.label, field="label", may_be_unclear=True)
    if new.key is not None:
        query = storage.find_query_by_key(session, detector.id, new.key)
        if query is not None:
            _check_same(session, query, new, image)
            return query, False
    return _add(session, detector, new, labeler, created_at, image), True


def _add(  # noqa: PLR0913, PLR0917 - see log_query.
    session: Session,
    detector: Detector,
    new: NewQuery,
    labeler: str,
    created_at: datetime,
    image: str | None,
) -> Query:
    number = first_id(add_batch(session, detector.id, created_at=created_at))
    versions = add_versions(session, detector.id, [new.version], created_at=created_at)
    sampling = new.sampling or UNSTATED
    query = Query(
        id=number,
        detector_id=detector.id,
        version_id=versions[new.version],
        key=new.key,
        input=new.input,
        predicted=new.predicted,
        confidence=new.confidence,
        asked_at=new.asked_at or created_at,
        created_at=created_at,
        details=None if new.metadata is None else dump_metadata(new.metadata),
        image=image,
        image_url=new.image_url,
        label_id=None if new.label is None else number,
        label=new.label,
        sampling=sampling,
        audit_rank=rank_new_query(detector, number, label=new.label, sampling=sampling),
        agreement=None,
    )
    storage.add_query(session, query)
    if new.label is not None:
        row = label_row(
            number, number, detector.id, new.label, sampling, labeler, created_at
        )
        add_labels(session, [row])
    return query


def label_row(  # noqa: PLR0913, PLR0917 - the columns of one row.
    label_id: int,
    query_id: int,
    detector_id: int,
    label: str,
    sampling: str,
    labeler: str,
    created_at: datetime,
    *,
    replaces_id: int | None = None,
    note: str | None = None,
    labelled_at: datetime | None = None,
) -> dict[str, Any]:
    """Return a label as the mapping of columns that storage takes."""
    return {
        "id": label_id,
        "query_id": query_id,
        "detector_id": detector_id,
        "replaces_id": replaces_id,
        "label": label,
        "sampling": sampling,
        "note": note,
        "labeler": labeler,
        "labelled_at": labelled_at or created_at,
        "created_at": created_at,
    }


def _check_same(
    session: Session, query: Query, new: NewQuery, image: str | None
) -> None:
    version = session.get_one(Version, query.version_id).name
    stored = {
        "input": query.input,
        "predicted": query.predicted,
        "confidence": query.confidence,
        "version": version,
        "metadata": load_metadata(query),
        "image_url": query.image_url,
    }
    for field, value in stored.items():
        if getattr(new, field) != value:
            _refuse_other(new, field, value)
    # Once another label has come, what the query declared is no longer known.
    is_as_declared = query.label_id in {None, query.id}
    if is_as_declared and (new.sampling or UNSTATED) != query.sampling:
        _refuse_other(new, "sampling", query.sampling)
    if new.asked_at is not None and new.asked_at != query.asked_at:
        _refuse_other(new, "asked_at", query.asked_at)
    if image != query.image:
        raise ConflictError(f"the key {show(new.key)} is known with another image")
    if new.label is not None:
        given = [label.label for label in list_labels(session, query)]
        if new.label not in given:
            _refuse_other(new, "label", given[0] if given else None)


def _refuse_other(new: NewQuery, field: str, stored: object) -> None:
    raise ConflictError(
        f"the key {show(new.key)} is known with other content: "
        f"{field} is {show(stored)}, not {show(getattr(new, field))}"
    )


def load_metadata(query: Query) -> Any:
    """Return the metadata of a query as it was given."""
    return None if query.details is None else json.loads(query.details)


def get_query(session: Session, query_id: str) -> Query:
    """Return the query with that public id."""
    number = parse_id("iq", query_id)
    query = None if number is None else storage.find_query(session, number)
    if query is None:
        raise missing("query", query_id)
    return query


def get_query_by_number(session: Session, detector_id: int, number: int) -> Query:
    """Return the query of a detector in that row."""
    query = storage.find_query_of(session, detector_id, number)
    if query is None:
        raise missing("query", dump_id("iq", number))
    return query
