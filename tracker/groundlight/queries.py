"""Image queries and their labels."""

from typing import Annotated, Any

from flask import Response, request
from pydantic import BeforeValidator
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.groundlight import detectors
from tracker.groundlight.routes import (
    Body,
    Metadata,
    Patience,
    call,
    dump_page,
    naming,
    once,
    read_body,
    read_place,
)
from tracker.http import (
    account,
    by,
    check_sees,
    context,
    database,
    send_image,
)
from tracker.services import device, fields, images, wording
from tracker.services.labelling.predictions import (
    add_waiting,
    find_any,
    label_any,
)
from tracker.services.queries import queries
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.queries.queries import Query
from tracker.storage.queries.waiting import WaitingQuery, list_page
from tracker.words import UNCLEAR

AnyQuery = Query | WaitingQuery


def _read_number(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


class QueryParameters(Body):
    """The query parameters of a new image query."""

    detector_id: str
    metadata: Metadata = None
    confidence_threshold: Annotated[
        fields.Probability | None, BeforeValidator(_read_number)
    ] = None
    patience_time: Annotated[Patience | None, BeforeValidator(_read_number)] = None
    image_query_id: str | None = None


class LabelBody(Body):
    """The ground truth of an image query."""

    label: str | int | None
    image_query_id: str
    rois: list[Any] | None = None


def _dump_query(session: Session, query: AnyQuery) -> dict[str, Any]:
    detector = session.get_one(Detector, query.detector_id)
    settings = device.get_settings(session, detector)
    result = None
    if isinstance(query, Query):
        asked_at, label = query.asked_at, query.label
    else:
        asked_at = query.created_at
        label = str(query.labels[-1]["label"]) if query.labels else None
    if label is not None:
        # Without a confidence the SDK would wait for one until its time is up.
        result = detectors.dump_result(settings, label, 1.0, "USER")
    elif isinstance(query, Query):
        result = detectors.dump_result(
            settings, query.predicted, query.confidence, "ALGORITHM"
        )
    return {
        "id": dump_id("iq", query.id),
        "type": "image_query",
        "created_at": wording.dump_instant(asked_at),
        "query": detector.question,
        "detector_id": dump_id("det", detector.id),
        "result_type": detectors.RESULT_TYPES[settings.mode],
        "result": result,
        "done_processing": label is not None,
        "confidence_threshold": settings.confidence_threshold,
        "patience_time": settings.patience_time,
        "metadata": queries.load_metadata(query),
        "rois": None,
        "text": None,
    }


@call("POST /image-queries", "editor")
def submit_query() -> Response:
    """Log an image query, with the prediction in its metadata if there is one."""
    asked = fields.parse_input(QueryParameters, request.args.to_dict())
    if asked.image_query_id is not None:
        raise InvalidInputError.of(
            "image_query_id", "Tracker assigns the ids; leave it out."
        )
    with database().read() as session:
        # Before the image is stored.  A detector that the key may not see is a 404.
        check_sees(session, account(), "detectors", asked.detector_id)
        detectors.find_detector(session, asked.detector_id)
    names = {"confidence_threshold", "patience_time"}
    said = asked.model_dump(include=names, exclude_none=True)
    image = images.clean_image(request.get_data())
    name = context().images.put(image.content, image.suffix)

    def submit(session: Session) -> dict[str, Any]:
        detector = detectors.find_detector(session, asked.detector_id)
        query = _add(session, detector, asked.metadata or {}, name)
        return _dump_query(session, query) | said

    return once(submit, name)


def _add(
    session: Session, detector: Detector, metadata: dict[str, Any], image: str
) -> AnyQuery:
    kept = metadata or None
    prediction = metadata.get("prediction", metadata.get("label"))
    named = {
        "confidence": metadata.get("confidence"),
        "version": metadata.get("model_version", metadata.get("version")),
        "input": metadata.get("input"),
    }
    if prediction is None:
        # Other programs may mean other things by these words.
        words = {key: value for key, value in named.items() if isinstance(value, str)}
        words.pop("confidence", None)
        with naming(input="metadata", version="metadata"):
            waiting = fields.parse_input(queries.NewQuery, {**words, "metadata": kept})
        return add_waiting(session, detector, waiting, by(), image=image)
    settings = device.get_settings(session, detector)
    predicted = detectors.read_class(detector, settings, prediction, field="metadata")
    if predicted == UNCLEAR:
        raise InvalidInputError.of("metadata", '"UNCLEAR" is not a valid prediction.')
    for name in ("version", "input"):
        if type(named[name]) is int:
            named[name] = str(named[name])
    values = {**named, "predicted": predicted, "metadata": kept}
    given = {name: value for name, value in values.items() if value is not None}
    with naming(confidence="metadata", version="metadata", input="metadata"):
        new = fields.parse_input(queries.NewQuery, given)
    return queries.log_query(session, detector, new, by(), image=image)[0]


@call("GET /image-queries", "viewer")
def list_queries() -> dict[str, Any]:
    """List the image queries of one detector or of all, newest first."""
    offset, size = read_place()
    detector_id = request.args.get("detector_id")
    with database().read() as session:
        if detector_id is None:
            seen = list_detectors(session, among=account().detectors)
        else:
            check_sees(session, account(), "detectors", detector_id)
            seen = [detectors.find_detector(session, detector_id)]
        ids = [one.id for one in seen]
        count, found = list_page(session, ids, offset=offset, limit=size)
        return dump_page(count, [_dump_query(session, query) for query in found])


@call("GET /image-queries/<id>", "viewer")
def get_query(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Get an image query; the SDK polls until its result is good enough."""
    with database().read() as session:
        return _dump_query(session, find_any(session, id, seen_by=by().name))


@call("GET /image-queries/<id>/image", "viewer")
def get_image(id: str) -> Response:  # noqa: A002 - as in the path.
    with database().read() as session:
        name = find_any(session, id).image
    if name is None:
        raise wording.missing("image of the query", id)
    return send_image(name)


@call("POST /labels", "labeler")
def add_label() -> Response:
    """Label a query; an earlier label stays in the label history."""
    body = read_body(LabelBody)
    if body.rois:
        raise InvalidInputError.of(
            "rois", "Tracker measures classifiers, which have no boxes; leave it out."
        )

    def add(session: Session) -> dict[str, Any]:
        check_sees(session, account(), "image-queries", body.image_query_id)
        query = find_any(session, body.image_query_id)
        detector = session.get_one(Detector, query.detector_id)
        settings = device.get_settings(session, detector)
        label = detectors.read_class(detector, settings, body.label, field="label")
        label_any(session, body.image_query_id, label, who := by())
        return {
            "annotations_requested": [],
            "class_name": label,
            "confidence": None,
            "created_at": wording.dump_instant(who.at),
            # The SDK expects a number here; Tracker's ids are texts.
            "detector_id": None,
            "rois": None,
            "source": "CUST",
            "text": None,
        }

    return once(add, body)
