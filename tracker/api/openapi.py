"""The OpenAPI document, and the page that shows it."""

import json
from copy import deepcopy
from importlib.resources import files
from pathlib import Path
from typing import Any

from flask import Response, current_app, render_template, request, send_from_directory
from flask_openapi3.models.info import Info
from flask_openapi3.models.server import Server
from flask_openapi3.openapi import OpenAPI
from flask_openapi3.utils import get_model_schema

from tracker import errors, http
from tracker.api.imports import PREFER
from tracker.api.routes import answers_file, build_routes, on_invalid_body
from tracker.api.shapes import HistoryPage, LabelFile, Problem, RoundFile
from tracker.services.estimates.slices import Slices
from tracker.services.imports.reading.rows import ImportBody
from tracker.services.labelling.studies import NewStudy
from tracker.services.queries.queries import NewQuery

OPTIONS: dict[str, Any] = {
    "info": Info(
        title="Tracker",
        version="1",
        description="How accurate is this detector in production, and how sure are "
        "we?\n\nSend an API key as `Authorization: Bearer KEY`. Bodies and answers are "
        "strict JSON; instants are RFC 3339 in UTC. Lists come in pages: follow `next` "
        "until it is null. Errors are problem documents (RFC 9457). In a path you can "
        "use a detector's name instead of its id.",
    ),
    "servers": [Server(url="/", description="The server of this document.")],
    "security_schemes": {"key": {"type": "http", "scheme": "bearer"}},
    "doc_ui": False,
    # Every call already documents a 400.
    "validation_error_status": 400,
    "validation_error_model": Problem,
    "validation_error_callback": on_invalid_body,
}
_READ_BY_VIEWS = (
    NewQuery,
    ImportBody,
    NewStudy,
    HistoryPage,
    LabelFile,
    RoundFile,
    Slices,
)
routes = build_routes("documentation", "This document.", public=True)

_WITHOUT_KEY = {
    # Repeating the body changes nothing, and no exporter sends such a key.
    "/api/v1/otlp/v1/logs",
    # These only read.
    "/api/v1/detectors/{id}/gate",
    "/api/v1/inspect",
}
_SWAGGER = Path(str(files("flask_openapi3_swagger"))) / "templates" / "swagger"
_ASSETS = {"swagger-ui.css": _SWAGGER / "css", "swagger-ui-bundle.js": _SWAGGER / "js"}
# The answers of the API to the walk in tests/api/story.py.
EXAMPLES_FILE = Path(__file__).with_name("examples.json")
EXAMPLES: dict[str, Any] = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
_TEXTS = {
    "text/csv": "key,predicted,confidence,label\r\nframe-0001,YES,0.97,NO\r\n",
    "application/x-ndjson": '{"key":"frame-0001","predicted":"YES","label":"NO"}\n',
}
# The extension with the written document.
_WRITTEN = "tracker-openapi"


@routes.call("GET /openapi.json", http.PUBLIC, answers_file("application/json"))
def get_document() -> Response:
    """Get this document."""
    # Cached: the document is public, and building it takes a tenth of a second.
    known = current_app.extensions
    if _WRITTEN not in known:
        known[_WRITTEN] = dump_document(current_app).encode()
    response = Response(known[_WRITTEN], content_type="application/json")
    response.cache_control.no_cache = True
    response.add_etag()
    http.compress(response).make_conditional(request)
    return response


@routes.call("GET /docs", http.PUBLIC, answers_file("text/html"))
def get_docs() -> Response:
    """Show this document as a page that can try calls."""
    # The frame of all pages shows who is signed in.
    http.authenticate_if_signed_in()
    return Response(render_template("documentation.html"))


@routes.route("/docs/<file>")
@http.requires(http.PUBLIC)
def get_docs_file(file: str) -> Response:
    """Get a file of the page."""
    if file not in _ASSETS:
        raise errors.NotFoundError("the page has no such file")
    return send_from_directory(_ASSETS[file], file, max_age=3600)


def dump_document(app: Any) -> str:
    return json.dumps(build_document(app), indent=2, ensure_ascii=False) + "\n"


def build_document(app: OpenAPI) -> dict[str, Any]:
    """Return the OpenAPI document of *app*."""
    document = deepcopy(app.api_doc)
    schemas = document["components"]["schemas"]
    # These views read or send several media types themselves.
    for model in _READ_BY_VIEWS:
        schema = get_model_schema(model)
        # Existing schemas, those of answers, take precedence.
        schemas |= schema.pop("$defs", {}) | schemas
        schemas[model.__name__] = schema
    for name, schema in schemas.items():
        # The definitions are components, not parts of the body.
        schema.pop("$defs", None)
        if name in EXAMPLES:
            schema["examples"] = [EXAMPLES[name]]
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            if method == "post" and path not in _WITHOUT_KEY:
                call.setdefault("parameters", []).append(
                    deepcopy(http.IDEMPOTENCY_PARAMETER)
                )
            if "202" in call["responses"]:
                call["parameters"].append(deepcopy(PREFER))
            _finish_call(call)
    return document


def _finish_call(call: dict[str, Any]) -> None:
    call.setdefault("security", [])
    for parameter in call.get("parameters", []):
        parameter["schema"] = _without_null(parameter["schema"])
    for media_type, content in call.get("requestBody", {}).get("content", {}).items():
        if media_type in _TEXTS:
            content.setdefault("example", _TEXTS[media_type])
    call["responses"] = dict(sorted(call["responses"].items()))


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null: it is left out instead."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        kept = {name: value for name, value in schema.items() if value is not None}
        return {**kept, "anyOf": kinds} if kinds else schema
    return {
        **kinds[0],
        **({"description": text} if (text := schema.get("description")) else {}),
    }
