"""Resampling studies: uploaded, listed, evaluated and taken away."""

import io
from typing import Any, Literal

from flask import Response, request
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import http
from tracker.api import parameters, shapes
from tracker.api.routes import (
    BYTES,
    answers_file,
    build_routes,
)
from tracker.services import detectors, exports, fields
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling import studies
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.labelling import studies as storage

routes = build_routes("studies", "Resampling studies: what labels alone cannot tell.")
_STUDY_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/NewStudy"}},
        "text/csv": {
            "schema": BYTES,
            "example": "validation,training,no_information\r\n"
            "0.8958,0.9606,0.3333\r\n0.8696,0.9528,0.3333\r\n",
        },
    },
}


class StudyDescription(parameters.Parameters):
    """What is said of a study whose rounds come as CSV; JSON says it in the body."""

    name: fields.StudyName | None = parameters.optional(
        "For text/csv: the name of the study."
    )
    kind: studies.Kind | None = parameters.optional(
        "For text/csv: the kind of the rounds."
    )
    version: fields.VersionName | None = parameters.optional(
        "For text/csv: the version that was studied."
    )
    note: fields.Note | None = parameters.optional(
        "For text/csv: a note on how the study was done."
    )


class StudyList(parameters.Page):
    """Which studies to list."""

    prefix = "stu"


class StudyChoice(parameters.Parameters):
    """How a study is evaluated."""

    confidence_level: parameters.OwnLevel = None


class RoundsChoice(parameters.Parameters):
    """In which format the rounds are wanted."""

    format: Literal["json", "csv", "jsonl", "parquet", "xlsx"] = Field(
        default="json", description="The format of the file, which has all rounds."
    )


@routes.call(
    "POST /detectors/<id>/studies",
    "editor",
    {"201": studies.StudyReport, "200": studies.StudyReport},
    *(409, 413, 415, 422),
    openapi_extensions={"requestBody": _STUDY_BODY},
)
def add_study(path: parameters.IdPath, query: StudyDescription) -> Response:
    """Add a resampling study.

    Sending the same name and content again answers 200 and the stored study; with other
    content it is a 409.  A study is never changed.
    """
    new = _read_new_study(query)

    def add(session: Session) -> tuple[Shape, int]:
        detector = detectors.get_open_detector(session, path.id)
        study, is_new = studies.add_study(session, detector, new, http.by())
        return studies.build_study_report(session, study), 201 if is_new else 200

    return http.answer_idempotently(add, new)


def _read_new_study(query: StudyDescription) -> studies.NewStudy:
    """Return the study in the body, which is taken in before a transaction begins."""
    said = query.model_dump(exclude_none=True)
    if request.mimetype == "application/json":
        if said:
            name, value = next(iter(said.items()))
            raise parameters.wrong_parameter(
                name, value, "in JSON it stands in the body"
            )
        return studies.parse_study(http.read_json_body(is_object=True))
    if request.mimetype != "text/csv":
        raise http.UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send text/csv or "
            "application/json"
        )
    for name, right in (("name", "any text"), ("kind", " or ".join(studies.KINDS))):
        if name not in said:
            raise http.BadParametersError.of(
                name, f"is required with text/csv: {right}"
            )
    rounds = read_rounds(io.BytesIO(request.get_data()), ".csv")
    return studies.parse_study({**said, "rounds": rounds})


@routes.call("GET /detectors/<id>/studies", "viewer", shapes.StudyPage)
def list_studies(path: parameters.IdPath, query: StudyList) -> dict[str, Any]:
    """List the resampling studies of a detector, the newest first."""
    return parameters.dump_newest(
        path.id,
        storage.list_studies,
        lambda _session, study: studies.describe_study(study),
        "stu",
        **dict(query),
    )


@routes.call("GET /studies/<id>", "viewer", studies.StudyReport)
def get_study(path: parameters.IdPath, query: StudyChoice) -> dict[str, Any]:
    """Get a study and its intervals, all of which are approximations."""
    with http.database().read() as session:
        study = studies.get_study(session, path.id)
        return studies.build_study_report(session, study, **dict(query)).dump()


@routes.call(
    "GET /studies/<id>/rounds",
    "viewer",
    answers_file(*exports.FILE_TYPES, page=shapes.RoundFile),
)
def get_rounds(path: parameters.IdPath, query: RoundsChoice) -> Response:
    """Get the rounds of a study as they were uploaded, in order."""
    with http.database().read() as session:
        study = studies.get_study(session, path.id)
        rows = studies.list_study_rows(session, study)
    file_name = f"{dump_id('stu', study.id)}-rounds.{query.format}"
    return http.send_rows(query.format, list(rows[0]), lambda _: rows, file_name)
