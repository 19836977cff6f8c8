"""One assertion of the one shape that every error has."""

import json
from http import HTTPStatus

import pytest
from werkzeug.test import TestResponse


def assert_problem(
    response: TestResponse,
    status: int,
    *,
    field: str | None = None,
    row: int | None = None,
) -> dict[str, object]:
    """Assert that *response* is a whole problem document, which names *field*."""
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    problem = json.loads(response.data, parse_constant=pytest.fail)
    assert set(problem) <= {"type", "title", "status", "detail", "errors"}
    assert problem["type"] == "about:blank"
    assert problem["status"] == status == HTTPStatus(status)
    for text in (problem["title"], problem["detail"]):
        assert isinstance(text, str)
        assert text
    for error in problem.get("errors", []):
        assert set(error) in ({"field", "message"}, {"row", "field", "message"})
        assert error["field"]
        assert error["message"]
    if field is not None:
        assert field in {error["field"] for error in problem["errors"]}, problem
    if row is not None:
        assert row in {error["row"] for error in problem["errors"]}, problem
    assert ("WWW-Authenticate" in response.headers) == (status == 401)
    assert ("Allow" in response.headers) == (status == 405)
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "Traceback" not in response.text
    return dict(problem)
