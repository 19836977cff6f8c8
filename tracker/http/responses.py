"""Problem documents, and the headers of every response."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, request

from tracker.errors import FieldError
from tracker.files import shipped_folder, zipped
from tracker.settings import Settings


def no_content() -> Response:
    response = Response(status=204)
    del response.headers["Content-Type"]
    return response


def problem(
    status: int,
    title: str,
    detail: str,
    *,
    errors: list[dict[str, Any]] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return a problem document (RFC 9457)."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
    }
    if errors is not None:
        body["errors"] = errors
    return Response(
        current_app.json.dumps(body),
        status=status,
        content_type="application/problem+json",
        headers=headers,
    )


def dump_errors(errors: Iterable[FieldError]) -> list[dict[str, Any]]:
    """Return *errors* as a problem document lists them."""
    dumped = []
    for error in errors:
        row, rows = getattr(error, "row", None), getattr(error, "rows", 1)
        body = {} if row is None else {"row": row}
        body |= {"field": error.field, "message": error.message}
        if rows > 1:
            # The first of the rows with this error stands in row.
            body["rows"] = rows
        if also := getattr(error, "also", ()):
            body["also"] = also
        dumped.append(body)
    return dumped


# Files that are the same for everybody.  Pages hold tokens, and the length of a
# compressed page reveals its secrets to anyone who can insert text into it (BREACH).
_COMPRESSED = {"text/css", "text/javascript"}


def add_response_headers(app: Flask, settings: Settings) -> None:
    """Add to all responses what keeps a page and its forms private."""
    hosts = "".join(f" https://{host} http://{host}" for host in settings.image_hosts)
    headers = {
        # Files of this server, and images of the hosts in settings.
        "Content-Security-Policy": "default-src 'none'; script-src 'self'; "
        f"style-src 'self'; connect-src 'self'; img-src 'self' data:{hosts}; "
        "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if settings.is_https:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    app.after_request(partial(_add_headers, headers))
    app.url_defaults(partial(_add_static_hash, shipped_folder("static")))


def _add_headers(headers: dict[str, str], response: Response) -> Response:
    given = {name.lower() for name in response.headers.keys()}  # noqa: SIM118
    response.headers.extend(
        (name, value) for name, value in headers.items() if name.lower() not in given
    )
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return compress(response) if response.mimetype in _COMPRESSED else response


def compress(response: Response) -> Response:
    """Compress a response that is the same for everybody, if the client takes gzip."""
    response.vary.add("Accept-Encoding")
    # A range counts bytes of the uncompressed file.
    if response.status_code == 200 and request.accept_encodings["gzip"]:
        response.direct_passthrough = False
        response.set_data(zipped(response.get_data()))
        response.headers["Content-Encoding"] = "gzip"
        etag, _ = response.get_etag()
        if etag is not None:
            # The same file with other bytes.
            response.set_etag(etag, weak=True)
    return response


def _add_static_hash(folder: Path, endpoint: str, values: dict[str, Any]) -> None:
    # Browsers cache a static file for a year, so new content needs a new address.
    if endpoint == "static" and "filename" in values:
        values.setdefault("v", _file_hash(folder / values["filename"]))


@lru_cache(maxsize=256)
def _file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path.is_file() else "0"
