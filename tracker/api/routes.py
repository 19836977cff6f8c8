"""What all routes of the API have in common."""

from typing import Any

from flask import Response, current_app, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from flask_openapi3.types import ResponseDict
from pydantic import ValidationError
from werkzeug.routing import BaseConverter

from tracker.api.parameters import NoParameters
from tracker.api.rates import limit_rate
from tracker.api.shapes import Shape
from tracker.errors import FieldError, InvalidInputError
from tracker.http import BadParametersError, dump_errors, problem, read_json_body
from tracker.services.detectors import UnknownVersionError
from tracker.services.fields import describe_errors, refuse

PREFIX = "/api/v1"
_PROBLEM = {
    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
}
_PROBLEMS = {
    400: "The request cannot be read, or its parameters are wrong; see errors.",
    401: "There is no valid API key.",
    403: "The role of the key does not suffice.",
    404: "There is no such thing.",
    409: "It contradicts what is stored.",
    413: "The body is too large.",
    415: "The media type is not read here.",
    422: "The input is wrong; see errors.",
    429: "The key has sent too many requests; go on after Retry-After seconds.",
    503: "What is needed is away or busy, or the disk is full; try again.",
}
_ALWAYS = (400, 503)
_PROTECTED = (401, 403, 429)


class DetectorConverter(BaseConverter):
    """A detector's id or name in a path; a name may hold slashes."""

    part_isolating = False
    regex = ".+?"


class LastDetectorConverter(DetectorConverter):
    """A detector's id or name at the end of a path.

    What names a part of a detector does not belong to the name, so that a wrong
    method there is a 405.
    """

    regex = (
        r"(?!.+/(?:queries|imports?|estimate|comparison|history|recompute|next|plan"
        r"|studies|chart\.(?:svg|png|json))\Z).+?"
    )


def build_routes(noun: str, description: str, *, public: bool = False) -> APIBlueprint:
    """Return the empty routes of a *noun*, checked and documented like all others."""
    statuses = _ALWAYS if public else (*_ALWAYS, *_PROTECTED)
    routes = APIBlueprint(
        noun,
        __name__,
        url_prefix=PREFIX,
        abp_tags=[Tag(name=noun, description=description)],
        abp_security=[] if public else [{"key": []}],
        abp_responses=_problems(*statuses),
        operation_id_callback=_operation_id,
    )
    if not public:
        routes.before_request(limit_rate)
    routes.before_request(check_request)
    routes.register_error_handler(UnknownVersionError, _on_unknown_version)
    return routes


def _on_unknown_version(error: UnknownVersionError) -> Response:
    # A page of it does not exist; here it is a parameter that is wrong.
    wrong = [FieldError("version", str(error))]
    return problem(400, "The input is wrong", str(error), errors=dump_errors(wrong))


def _operation_id(*, name: str, path: str, method: str) -> str:  # noqa: ARG001 - as called.
    return name


def _problems(*statuses: int) -> ResponseDict:
    return {
        str(status): {"description": _PROBLEMS[status], "content": _PROBLEM}
        for status in statuses
    }


def answers(success: dict[int, type[Shape]], *problems: int) -> ResponseDict:
    """Return what a call answers: a shape, or one of these problems."""
    return {
        **{str(status): shape for status, shape in success.items()},
        **_problems(*problems),
    }


def answers_later(shape: type[Shape]) -> ResponseDict:
    """Return what a call answers that is carried out by and by."""
    headers = {
        "Location": "Where to ask how far it is.",
        "Preference-Applied": "respond-async.",
        "Retry-After": "After how many seconds to ask.",
    }
    return {
        "202": {
            "description": "It is carried out by and by, as Prefer asked for.",
            "headers": {
                name: {"description": said, "schema": {"type": "string"}}
                for name, said in headers.items()
            },
            "content": _content(shape),
        }
    }


def answers_file(
    *media_types: str, problems: tuple[int, ...], page: type[Shape] | None = None
) -> ResponseDict:
    """Return what a call answers that gives a file away, or else a *page*."""
    return {
        "200": {
            "description": "The file." if page is None else "The file, or a page.",
            "content": {
                **{name: {} for name in media_types},
                **({} if page is None else _content(page)),
            },
        },
        **_problems(*problems),
    }


def _content(shape: type[Shape]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"application/json": {"schema": schema}}


def check_request() -> None:
    """Refuse what a call does not take, and read its body strictly.

    What a view takes stands in its signature: ``query`` for parameters, ``body``
    for a JSON object.
    """
    takes = current_app.view_functions[str(request.endpoint)].__annotations__
    if "query" not in takes:
        NoParameters.model_validate(request.args.to_dict())
    for name, values in request.args.lists():
        if len(values) > 1:
            raise BadParametersError.of(name, "is given more than once")
    if "body" in takes and request.method in {"POST", "PATCH"}:
        read_json_object()


def read_json_object() -> dict[str, Any]:
    """Return the body, a JSON object."""
    read_json_body()
    value = request.get_json()
    if not isinstance(value, dict):
        refuse("body", value, "it must be a JSON object")
    return value


def on_invalid_body(error: ValidationError) -> None:
    """Say what is wrong with a body."""
    raise InvalidInputError(describe_errors(error))
