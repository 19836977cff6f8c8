"""Assemble the web application: ``create_app`` connects all parts."""

import errno
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect
from sqlalchemy.exc import DBAPIError
from werkzeug.exceptions import (
    HTTPException,
    NotFound,
    RequestEntityTooLarge,
    SecurityError,
)
from werkzeug.middleware.proxy_fix import ProxyFix

from tracker import api, groundlight, web
from tracker.clock import Clock, utc_now
from tracker.errors import (
    ConflictError,
    DamagedError,
    DatabaseAwayError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    TooManyError,
    TrackerError,
    UnavailableError,
)
from tracker.files import shipped_folder
from tracker.http import (
    PUBLIC,
    BadParametersError,
    BadRequestError,
    Context,
    SecondFactorError,
    ServerRequest,
    StrictJSONProvider,
    UnauthorizedError,
    UnsupportedMediaTypeError,
    add_response_headers,
    add_session_cookie,
    admit,
    authenticate_if_signed_in,
    context,
    database,
    dump_errors,
    is_api_request,
    limit_open_requests,
    problem,
    requires,
)
from tracker.jobs.recompute import Recompute
from tracker.services.wording import show
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import open_image_store
from tracker.storage.operations import schema

# The largest body of everything but an import, which has a setting.
_MAX_BODY_BYTES = 12 * 2**20
_TITLES = {
    BadRequestError: (400, "Bad request"),
    UnauthorizedError: (401, "API key required"),
    ForbiddenError: (403, "Forbidden"),
    NotFoundError: (404, "Not found"),
    GoneError: (410, "Gone"),
    ConflictError: (409, "Conflict"),
    UnsupportedMediaTypeError: (415, "Unsupported media type"),
    TooManyError: (429, "Too many requests"),
    UnavailableError: (503, "Service unavailable"),
}
_STRANGE_HOST = (
    "This host is not trusted. The operator of the server can add it to "
    "TRACKER_PUBLIC_URL or TRACKER_TRUSTED_HOSTS."
)
_DAMAGED = "the database is damaged; the log of the server says what to do"
_SIGN_IN = "pages.show_sign_in"
# The last two are of a file where a folder should be.
_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR}
_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "10"},
    503: {"Retry-After": "2"},
}


def create_app(
    settings: Settings,
    database: Database,
    *,
    clock: Clock = utc_now,
    worker: str = "web",
    replica: Database | None = None,
) -> Flask:
    """Return the application over *database*, and a *replica* that may lag behind."""
    app = OpenAPI(
        "tracker",
        **api.OPTIONS,
        template_folder=str(shipped_folder("templates")),
        static_folder=str(shipped_folder("static")),
    )
    app.json = StrictJSONProvider(app)
    app.request_class = ServerRequest
    app.config.update(
        SECRET_KEY=settings.load_secret_key(),
        MAX_CONTENT_LENGTH=_MAX_BODY_BYTES,
        TRUSTED_HOSTS=settings.allowed_hosts,
        SEND_FILE_MAX_AGE_DEFAULT=timedelta(days=365),
        WTF_CSRF_TIME_LIMIT=None,
    )
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.extensions["tracker"] = Context(
        settings,
        database,
        replica and database.reading_from(replica),
        open_image_store(settings),
        Recompute(database=database, worker=worker, clock=clock).recompute,
        clock,
    )
    requires(PUBLIC)(app.view_functions["static"])
    # Inside of what reads the addresses that proxies tell.
    limit_open_requests(app, total=settings.web_connections)
    if settings.proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=settings.proxies, x_proto=settings.proxies, x_host=0
        )
    app.before_request(admit)
    add_session_cookie(app, settings)
    add_response_headers(app, settings)
    csrf = CSRFProtect(app)
    api.register(app, csrf)
    groundlight.register(app, csrf)
    web.register(app, csrf, settings)
    for kind, handler in _HANDLERS.items():
        app.register_error_handler(kind, handler)
    return app


def _on_tracker_error(error: TrackerError) -> ResponseReturnValue:
    if isinstance(error, UnauthorizedError) and not is_api_request():
        return _send_to_sign_in()
    if isinstance(error, SecondFactorError):
        address = url_for("pages.show_second_factor")
        if "HX-Request" in request.headers:
            return Response(status=401, headers={"HX-Redirect": address})
        return redirect(address, 303)
    if isinstance(error, InvalidInputError):
        # A mistake in the address is a 400, a mistake in the body a 422.
        is_read = request.method in {"GET", "HEAD"}
        status = 400 if is_read or isinstance(error, BadParametersError) else 422
        title = "Invalid input"
        if isinstance(error, TooLargeError):
            status, title = 413, "Content too large"
        return _answer(status, title, str(error), dump_errors(error.errors))
    if isinstance(error, DatabaseAwayError):
        # Callers are not told where it is.
        api.log.warning("the database does not answer", error=error.said)
    for kind, (status, title) in _TITLES.items():
        if isinstance(error, kind):
            return _answer(status, title, str(error))
    return _on_bug(error)


def _on_damage(error: DamagedError) -> ResponseReturnValue:
    api.log.error("the file of the database is damaged", error=str(error))
    return _answer(503, "Database damaged", _DAMAGED)


def _send_to_sign_in() -> ResponseReturnValue:
    if request.path == "/metrics":
        said = "Sign in, or send an API key.\n"
        return Response(said, 401, _HEADERS[401], mimetype="text/plain")
    is_read = request.method in {"GET", "HEAD"}
    is_part = "HX-Request" in request.headers
    # After signing in, people return to the page, not to a part or a form of it.
    is_page = is_read and not is_part
    path = request.full_path.rstrip("?") if is_page else _page_before()
    is_first_page = path == url_for("pages.show_detectors")
    is_answer = str(request.endpoint).startswith("pages.label_")
    address = url_for(
        _SIGN_IN,
        next=None if is_first_page else path,
        lost="answer" if is_answer and not is_read else None,
    )
    if is_part:
        # A part of a page cannot show the form; the whole page goes there.
        return Response(status=401, headers={"HX-Redirect": address})
    return redirect(address, 303)


def _page_before() -> str | None:
    """Return the path of the page of this server that sent the request, if any."""
    try:
        page = urlsplit(request.headers.get("HX-Current-URL") or request.referrer or "")
    except ValueError:
        return None
    if page.netloc != request.host:
        return None
    return f"{page.path}?{page.query}" if page.query else page.path


def _on_http_error(error: HTTPException) -> Response:
    if error.response is not None:
        response = error.response
        assert isinstance(response, Response)
        return response
    if isinstance(error, SecurityError) and not is_api_request():
        # An error page has links, and none can be built for a host that is not trusted.
        return Response(f"{_STRANGE_HOST}\n", 400, mimetype="text/plain")
    if request.endpoint is None and not is_api_request():
        # Where there is no page, the way to the others stays.
        authenticate_if_signed_in()
    title = _TITLES[NotFoundError][1] if isinstance(error, NotFound) else error.name
    answer = _answer(error.code or 500, title, _describe(error))
    for name, value in error.get_headers():
        if name not in {"Content-Type", "Content-Length"}:
            answer.headers[name] = value
    return answer


def _describe(error: HTTPException) -> str:
    if isinstance(error, NotFound):
        return f"there is no path {show(request.path)}"
    if isinstance(error, SecurityError):
        return _STRANGE_HOST
    most = request.max_content_length or 0
    # A form within that limit may still have too many fields, or fields too long.
    is_within = request.content_length is not None and request.content_length <= most
    if isinstance(error, RequestEntityTooLarge) and not is_within:
        is_set = most == context().settings.max_body_bytes
        where = ", which TRACKER_MAX_BODY_BYTES sets" if is_set else ""
        return f"the body may have {most:,} bytes here{where}"
    return error.description or error.name


def _on_database_error(error: DBAPIError) -> Response:
    if error.connection_invalidated:
        return _answer(503, "Database unavailable", "the connection was lost")
    with suppress(UnavailableError):
        # It may have been upgraded while this process was running.
        wrong = schema.find_mismatch(database())
        if wrong is not None:
            return _answer(503, "Database version mismatch", wrong)
    return _on_bug(error)


def _on_system_error(error: OSError) -> Response:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return _answer(503, "Disk full", "nothing was written; free some space first")
    if error.errno in _NOT_WRITABLE:
        api.log.error("a file cannot be written", exc_info=error)
        told = "nothing was written: the server cannot write its files; see its log"
        return _answer(503, "Read-only", told)
    return _on_bug(error)


def _on_bug(error: Exception) -> Response:
    api.log.exception(
        "unexpected error", path=request.path, method=request.method, exc_info=error
    )
    return _answer(500, "Internal error", "it has been logged; nothing was written")


def _answer(
    status: int, title: str, detail: str, errors: list[dict[str, Any]] | None = None
) -> Response:
    headers = _HEADERS.get(status)
    if is_api_request():
        return problem(status, title, detail, errors=errors, headers=headers)
    is_broken = status >= 500
    page = render_template(
        "error.html", status=status, title=title, detail=detail, is_broken=is_broken
    )
    return Response(page, status=status, headers=headers)


_HANDLERS: dict[type[Exception], Callable[[Any], ResponseReturnValue]] = {
    TrackerError: _on_tracker_error,
    DamagedError: _on_damage,
    HTTPException: _on_http_error,
    DBAPIError: _on_database_error,
    OSError: _on_system_error,
    Exception: _on_bug,
}
