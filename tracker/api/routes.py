"""The base of all routes of the API."""

from collections.abc import Callable
from typing import Any, TypeVar

from flask import Response, current_app, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from flask_openapi3.types import ResponseDict
from pydantic import BaseModel, ValidationError

from tracker import http
from tracker.api.parameters import NoParameters
from tracker.errors import FieldError, InvalidInputError
from tracker.services.versions import UnknownVersionError
from tracker.services.wording import describe_errors
from tracker.shapes import Shape

PREFIX = "/api/v1"
_PROBLEM = {
    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
}
_PROBLEMS = {
    400: "The request cannot be parsed, or a parameter is invalid; see errors.",
    401: "The API key is missing or invalid.",
    403: "The role of the key does not allow this.",
    404: "Not found.",
    409: "The request conflicts with stored data.",
    410: "The query or its image was erased.",
    413: "The body is too large.",
    415: "Unsupported media type.",
    422: "The input is invalid; see errors.",
    429: "Too many requests; retry after Retry-After seconds.",
    503: "The database is unavailable or busy, or the disk is full; try again.",
}
# The schema of a file, unless its type has another one.
BYTES = {"type": "string", "format": "binary"}
_TEXT = {"type": "string"}
_FILES = {
    "application/json": {"type": "object"},
    "application/x-ndjson": _TEXT,
    "image/svg+xml": _TEXT,
    "text/csv": _TEXT,
    "text/html": _TEXT,
}
_View = TypeVar("_View", bound=Callable[..., Any])
_ALWAYS = (400, 503)
_PROTECTED = (401, 403, 429)


class Routes(APIBlueprint):
    """The routes of a noun."""

    def call(
        self,
        address: str,
        role: str,
        answer: type[BaseModel] | ResponseDict | None = None,
        *problems: int,
        status: int = 200,
        **options: Any,
    ) -> Callable[[_View], _View]:
        """Return the decorator of a view, which needs *role*.

        *address* is the method and the path, *answer* the shape of its answer, or the
        documentation of all of them; None is a 204.  The problems of a path and of a
        body are documented without being named.
        """
        method, rule = address.split(" ")

        def declare(view: _View) -> _View:
            takes = view.__annotations__
            known = {*problems, *((404,) if "path" in takes else ())}
            known |= {413, 415, 422} if "body" in takes else set()
            success: ResponseDict = {str(status): answer}
            if not isinstance(answer, type):
                success = answer or {"204": None}
            add = getattr(self, method.lower())
            said = {**success, **_problems(*known)}
            add(rule, responses=said, **options)(http.requires(role)(view))
            return view

        return declare


def build_routes(noun: str, description: str, *, public: bool = False) -> Routes:
    """Return the empty routes of a *noun*, with common checks and documentation."""
    statuses = _ALWAYS if public else (*_ALWAYS, *_PROTECTED)
    routes = Routes(
        noun,
        __name__,
        url_prefix=PREFIX,
        abp_tags=[Tag(name=noun, description=description)],
        abp_security=[] if public else [{"key": []}],
        abp_responses=_problems(*statuses),
        operation_id_callback=lambda **call: call["name"],
    )
    routes.before_request(check_request)
    routes.register_error_handler(UnknownVersionError, _on_unknown_version)
    return routes


def _on_unknown_version(error: UnknownVersionError) -> Response:
    # A 404 on a page; here an invalid parameter.
    wrong = [FieldError("version", str(error))]
    return http.problem(
        400, "Invalid input", str(error), errors=http.dump_errors(wrong)
    )


def _problems(*statuses: int) -> ResponseDict:
    return {
        str(status): {"description": _PROBLEMS[status], "content": _PROBLEM}
        for status in statuses
    }


def answers_later(shape: type[Shape]) -> ResponseDict:
    """Return the documented answers of a call that works in the background."""
    headers = {
        "Location": "The address of the import's progress.",
        "Preference-Applied": "respond-async.",
        "Retry-After": "The seconds to wait before the next request.",
    }
    return {
        "202": {
            "description": "The import runs in the background, as requested by Prefer.",
            "headers": {
                name: {"description": said, "schema": {"type": "string"}}
                for name, said in headers.items()
            },
            "content": _content(shape),
        }
    }


def answers_file(*media_types: str, page: type[Shape] | None = None) -> ResponseDict:
    """Return the documented answers of a call that sends a file, as JSON a *page*."""
    content = {name: {"schema": _FILES.get(name, BYTES)} for name in media_types}
    if page is not None:
        # First, because generated clients take the first type that they know.
        content = {**_content(page), **content, **_content(page)}
    return {"200": {"description": "The content.", "content": content}}


def _content(shape: type[Shape]) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{shape.__name__}"}
    return {"application/json": {"schema": schema}}


def check_request() -> None:
    """Refuse unknown parameters, and parse the body of a view that takes one."""
    takes = current_app.view_functions[str(request.endpoint)].__annotations__
    if "query" not in takes and request.args:
        NoParameters.model_validate(request.args.to_dict())
    repeated: frozenset[str] = getattr(takes.get("query"), "repeated", frozenset())
    for name, values in request.args.lists():
        if len(values) > 1 and name not in repeated:
            raise http.BadParametersError.of(name, "is given more than once")
    if "body" in takes and request.method in {"POST", "PATCH"}:
        http.read_json_body(is_object=True)


def on_invalid_body(error: ValidationError) -> None:
    raise InvalidInputError(describe_errors(error))
