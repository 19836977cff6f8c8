"""Responses that many views give: problem documents, and no content."""

from collections.abc import Iterable
from typing import Any

from flask import Response, current_app

from tracker.errors import FieldError


def no_content() -> Response:
    """Return a 204, which has no body and so no Content-Type."""
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
    return [
        {
            **(
                {"row": row} if (row := getattr(error, "row", None)) is not None else {}
            ),
            "field": error.field,
            "message": error.message,
            # The first of the rows with this error stands in row.
            **({"rows": rows} if (rows := getattr(error, "rows", 1)) > 1 else {}),
            **({"also": also} if (also := getattr(error, "also", ())) else {}),
        }
        for error in errors
    ]
