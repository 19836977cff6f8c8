"""Resampling studies: uploaded, listed, evaluated and taken away."""

import io
from typing import Any, Literal

from flask import Response, request
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_study, dump_study_report
from tracker.api.files import FILE_TYPES, send_rows
from tracker.api.once import answer_once
from tracker.api.pages import dump_page
from tracker.api.parameters import (
    DetectorPath,
    LevelText,
    Page,
    Parameters,
    StudyCursor,
    StudyPath,
    wrong_parameter,
)
from tracker.api.routes import answers, answers_file, build_routes, read_json_object
from tracker.http import (
    BadParametersError,
    UnsupportedMediaTypeError,
    account,
    audit,
    database,
    now,
    requires,
)
from tracker.services import studies as services
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import Note, StudyName, VersionName
from tracker.services.studies import KINDS, Kind, NewStudy
from tracker.services.study_intervals import build_study_report, list_study_rows
from tracker.storage import studies as storage
from tracker.storage.base import dump_id

routes = build_routes("studies", "What cannot be had from labels alone.")
_STUDY_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/NewStudy"}},
        "text/csv": {
            "schema": {"type": "string"},
            "example": "validation,training,no_information\r\n"
            "0.8958,0.9606,0.3333\r\n0.8696,0.9528,0.3333\r\n",
        },
    },
}


class StudyDescription(Parameters):
    """What is said of a study whose rounds come as CSV; JSON says it in the body."""

    name: StudyName | None = Field(default=None, description="Of text/csv: its name.")
    kind: Kind | None = Field(
        default=None, description="Of text/csv: what its rounds are."
    )
    version: VersionName | None = Field(
        default=None, description="Of text/csv: the version that was studied."
    )
    note: Note | None = Field(
        default=None, description="Of text/csv: how it was done, in words."
    )


class StudyList(Page):
    """Which studies to list."""

    after: StudyCursor | None = Field(default=None, description="As it stands in next.")


class StudyChoice(Parameters):
    """How a study is evaluated."""

    confidence_level: LevelText | None = Field(
        default=None, description="The detector's own unless given."
    )


class RoundsChoice(Parameters):
    """In which format the rounds are wanted."""

    format: Literal["json", "csv", "jsonl", "parquet"] = Field(
        default="json", description="Each is one file with all rounds."
    )


@routes.post(
    "/detectors/<detector:id>/studies",
    responses=answers(
        {201: shapes.StudyReport, 200: shapes.StudyReport}, 404, 409, 413, 415, 422
    ),
    openapi_extensions={"requestBody": _STUDY_BODY},
)
@requires("editor")
def add_study(path: DetectorPath, query: StudyDescription) -> Response:
    """Add a resampling study.

    The same name again with the same content answers 200 and the stored study; with
    other content it is a 409.  A study is never changed.
    """
    new = _read_new_study(query)

    def add(session: Session) -> tuple[dict[str, Any], int]:
        detector = get_open_detector(session, path.id)
        study, is_new = services.add_study(
            session, detector, new, added_by=account().name, created_at=now()
        )
        if is_new:
            name, rounds = study.name, study.rounds
            audit(session, "study added", detector.name, study=name, rounds=rounds)
        report = build_study_report(session, study)
        return dump_study_report(report), 201 if is_new else 200

    return answer_once(add, content=new.model_dump_json())


def _read_new_study(query: StudyDescription) -> NewStudy:
    """Return the study in the body, which is taken in before a transaction begins."""
    said = query.model_dump(exclude_none=True)
    if request.mimetype == "application/json":
        if said:
            name, value = next(iter(said.items()))
            raise wrong_parameter(name, value, "in JSON it stands in the body")
        return services.parse_study(read_json_object())
    if request.mimetype != "text/csv":
        raise UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send text/csv or "
            "application/json"
        )
    for name, right in (("name", "any text"), ("kind", " or ".join(KINDS))):
        if name not in said:
            raise BadParametersError.of(name, f"is required with text/csv: {right}")
    rounds = services.read_rounds(io.BytesIO(request.get_data()), ".csv")
    return services.parse_study({**said, "rounds": rounds})


@routes.get(
    "/detectors/<detector:id>/studies", responses=answers({200: shapes.StudyPage}, 404)
)
@requires("viewer")
def list_studies(path: DetectorPath, query: StudyList) -> dict[str, Any]:
    """List the resampling studies of a detector, the newest first."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return dump_page(
            storage.list_studies(
                session, detector.id, before=query.after, limit=query.limit + 1
            ),
            query.limit,
            dump_study,
            lambda study: dump_id("stu", study.id),
        )


@routes.get("/studies/<id>", responses=answers({200: shapes.StudyReport}, 404))
@requires("viewer")
def get_study(path: StudyPath, query: StudyChoice) -> dict[str, Any]:
    """Look at a study and its intervals, all of which are approximations."""
    with database().read() as session:
        study = services.get_study(session, path.id)
        report = build_study_report(
            session, study, confidence_level=query.confidence_level
        )
        return dump_study_report(report)


@routes.get(
    "/studies/<id>/rounds",
    responses=answers_file(*FILE_TYPES, problems=(404,)),
)
@requires("viewer")
def get_rounds(path: StudyPath, query: RoundsChoice) -> Response:
    """Get the rounds of a study as they were uploaded, in order."""
    with database().read() as session:
        study = services.get_study(session, path.id)
        rows = list_study_rows(session, study)
    file_name = f"{dump_id('stu', study.id)}-rounds.{query.format}"
    return send_rows(query.format, list(rows[0]), rows, file_name)
