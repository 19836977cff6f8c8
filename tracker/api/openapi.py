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

from tracker.api.imports.imports import PREFER
from tracker.api.routes import answers_file, build_routes, on_invalid_body
from tracker.api.shapes import HistoryPage, LabelFile, Problem, RoundFile
from tracker.errors import NotFoundError
from tracker.http import (
    IDEMPOTENCY_PARAMETER,
    PUBLIC,
    authenticate_if_signed_in,
    compress,
    requires,
)
from tracker.services.estimates.slices import Slices
from tracker.services.imports.checking import ImportBody
from tracker.services.labelling.studies import NewStudy
from tracker.services.queries.queries import NewQuery

OPTIONS: dict[str, Any] = {
    "info": Info(
        title="Tracker",
        version="1",
        description="How accurate is this detector in production, and how sure are "
        "we?\n\nSend an API key as `Authorization: Bearer KEY`. Bodies and answers are "
        "strict JSON; instants are RFC 3339 in UTC. Lists come in pages: follow `next` "
        "until it is null. Errors are problem documents (RFC 9457). Wherever a "
        "detector's id stands in a path, its name works too.",
    ),
    "servers": [Server(url="/", description="The server of this document.")],
    "security_schemes": {"key": {"type": "http", "scheme": "bearer"}},
    "doc_ui": False,
    # Every call documents a 400, so that nothing is added to what it says itself.
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
    # The same body again changes nothing there, and no exporter sends such a key.
    "/api/v1/otlp/v1/logs",
    # They only ask.
    "/api/v1/detectors/{id}/gate",
    "/api/v1/inspect",
}
_SWAGGER = Path(str(files("flask_openapi3_swagger"))) / "templates" / "swagger"
_ASSETS = {"swagger-ui.css": _SWAGGER / "css", "swagger-ui-bundle.js": _SWAGGER / "js"}
# What the API answered to the walk in tests/api/story.py.
EXAMPLES_FILE = Path(__file__).with_name("examples.json")
EXAMPLES: dict[str, Any] = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
_TEXTS = {
    "text/csv": "key,predicted,confidence,label\r\nframe-0001,YES,0.97,NO\r\n",
    "application/x-ndjson": '{"key":"frame-0001","predicted":"YES","label":"NO"}\n',
}
# Where an application keeps the document once it is written.
_WRITTEN = "tracker-openapi"


@routes.get("/openapi.json", responses=answers_file("application/json", problems=()))
@requires(PUBLIC)
def get_document() -> Response:
    """Get this document."""
    # Anybody may ask, and to build it takes a tenth of a second.
    known = current_app.extensions
    if _WRITTEN not in known:
        known[_WRITTEN] = dump_document(current_app).encode()
    response = Response(known[_WRITTEN], content_type="application/json")
    response.cache_control.no_cache = True
    response.add_etag()
    compress(response).make_conditional(request)
    return response


@routes.get("/docs", responses=answers_file("text/html", problems=()))
@requires(PUBLIC)
def get_docs() -> Response:
    """Show this document as a page that can try calls."""
    # It has the frame of all pages, which shows who is signed in.
    authenticate_if_signed_in()
    return Response(render_template("documentation.html"))


@routes.route("/docs/<file>")
@requires(PUBLIC)
def get_docs_file(file: str) -> Response:
    """Get a file of the page."""
    if file not in _ASSETS:
        raise NotFoundError("the page has no such file")
    return send_from_directory(_ASSETS[file], file, max_age=3600)


def dump_document(app: Any) -> str:
    return json.dumps(build_document(app), indent=2, ensure_ascii=False) + "\n"


def build_document(app: OpenAPI) -> dict[str, Any]:
    """Return the OpenAPI document of *app*."""
    document = deepcopy(app.api_doc)
    schemas = document["components"]["schemas"]
    # What comes in more than one way is read, or answered, by its view alone.
    for model in _READ_BY_VIEWS:
        schema = get_model_schema(model)
        # Those that are there already are as they are answered.
        schemas |= schema.pop("$defs", {}) | schemas
        schemas[model.__name__] = schema
    for name, schema in schemas.items():
        # What a body refers to stands beside it and not inside of it.
        schema.pop("$defs", None)
        if name in EXAMPLES:
            schema["examples"] = [EXAMPLES[name]]
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            if method == "post" and path not in _WITHOUT_KEY:
                call.setdefault("parameters", []).append(
                    deepcopy(IDEMPOTENCY_PARAMETER)
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
    """Return the schema of a parameter, which is left out and never null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        kept = {name: value for name, value in schema.items() if value is not None}
        return {**kept, "anyOf": kinds} if kinds else schema
    return {
        **kinds[0],
        **({"description": text} if (text := schema.get("description")) else {}),
    }
