"""Blueprint of the device API: bodies, pages, errors, and the key's account."""

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from flask import Blueprint, Response, current_app, request
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy.orm import Session

from tracker import http
from tracker.errors import FieldError, InvalidInputError, NotFoundError
from tracker.services import fields
from tracker.services.device import count_month
from tracker.services.fields import Input, load_json, parse_input
from tracker.services.idempotency import HEADER
from tracker.services.wording import dump_instant, missing
from tracker.shapes import Shape
from tracker.storage.base import parse_whole
from tracker.storage.people import ApiKey

REQUEST_ID = "X-Request-Id"
_USUAL_SIZE = 10
_LARGEST_SIZE = 1_000
_MOST_PAGES = 10**9
_PROBLEM = "application/problem+json"
# Texts of Django REST framework, which the SDK and its programs expect.
_DETAILS = {
    401: "Authentication credentials were not provided or are wrong: ",
    403: "You do not have permission to perform this action: ",
    404: "Not found: ",
}


class Body(Input):
    """Base of the SDK's bodies; each version of the SDK sends some more fields."""

    model_config = ConfigDict(extra="ignore")


AnyBody = TypeVar("AnyBody", bound=Body)


def _decode(value: object) -> object:
    """Parse the JSON object in *value*, URL-safe Base64."""
    if not isinstance(value, str):
        return value
    try:
        text = base64.urlsafe_b64decode(value.encode() + b"=" * (-len(value) % 4))
        return load_json(text)
    except ValueError as error:
        raise ValueError("it must be URL-safe Base64 of a JSON object") from error


Metadata = Annotated[fields.Metadata | None, BeforeValidator(_decode)]
Patience = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]

routes = Blueprint("device", __name__, url_prefix=f"{http.DEVICE_API}/v1")


call = partial(http.route, routes)


@routes.after_request
def _reword_problem(response: Response) -> Response:
    """Reword a problem document as Django REST framework does."""
    if response.mimetype != _PROBLEM:
        return response
    told = json.loads(response.get_data())
    if response.status_code in {409, 422}:
        # The SDK retries after a 5xx only.
        is_for_later = "Retry-After" in response.headers
        response.status_code = 503 if is_for_later else 400
    body: dict[str, Any] = {
        "detail": _DETAILS.get(response.status_code, "") + told["detail"]
    }
    if "errors" in told:
        body = {}
        for error in told["errors"]:
            is_missing = error["message"] == "is required"
            message = "This field is required." if is_missing else error["message"]
            body.setdefault(error["field"], []).append(message)
    response.set_data(current_app.json.dumps(body))
    response.content_type = "application/json"
    return response


def read_body(model: type[AnyBody]) -> AnyBody:
    value = http.read_json_body()
    if not isinstance(value, dict):
        raise InvalidInputError.of("non_field_errors", "Invalid data: send an object.")
    return parse_input(model, value)


def once(
    work: Callable[[Session], dict[str, Any]], content: BaseModel | str
) -> Response:
    """Add what the SDK sends once, however often it sends the same request."""
    with naming(**{HEADER: REQUEST_ID}):
        return http.answer_idempotently(
            lambda session: (Answer(**work(session)), 201), content, header=REQUEST_ID
        )


class Answer(Shape):
    """A response of any shape of the SDK."""

    model_config = ConfigDict(extra="allow")


@contextmanager
def naming(**fields: str) -> Iterator[None]:
    """Rename the fields of input errors to their names in this API."""
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(
            FieldError(fields.get(one.field.partition(".")[0], one.field), one.message)
            for one in error.errors
        ) from error


def read_place() -> tuple[int, int]:
    """Return the offset and the size of the requested page."""

    def read(name: str, usual: int) -> int:
        number = parse_whole(request.args.get(name, str(usual))) or 0
        # The offset of the last page still fits a database integer.
        return number if 0 < number < _MOST_PAGES else 0

    page, size = read("page", 1), read("page_size", _USUAL_SIZE) or _USUAL_SIZE
    if not page:
        raise NotFoundError("invalid page")
    size = min(size, _LARGEST_SIZE)
    return (page - 1) * size, size


def dump_page(count: int, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a page of *count* items, with the addresses of its neighbours."""
    offset, size = read_place()
    if offset and offset >= count:
        raise NotFoundError("invalid page")
    page = offset // size + 1
    return {
        "count": count,
        "next": _address(page + 1) if offset + size < count else None,
        "previous": _address(page - 1) if page > 1 else None,
        "results": list(results),
    }


def _address(page: int) -> str:
    return f"{request.base_url}?{urlencode({**request.args.to_dict(), 'page': page})}"


_SNIPPET = 20


@call("GET /me", "viewer")
def get_me() -> dict[str, Any]:
    """Return the key's account; the SDK asks as it starts."""
    name = http.account().name
    return {
        # A key has no e-mail address.
        "email": name,
        "username": name,
        "group": {"id": 1, "name": "Tracker"},
        "is_superuser": False,
    }


@call("GET /api-tokens/by-snippet/<snippet>", "viewer")
def get_token(snippet: str) -> dict[str, Any]:
    """Return the key without an expiry, so that the SDK does not renew it."""
    shown = request.headers.get("x-api-token", "").strip()
    if snippet != shown[:_SNIPPET]:
        raise missing("key", snippet)
    with http.database().read() as session:
        key = session.get_one(ApiKey, http.account().row)
        return {
            "name": key.name,
            "raw_key_snippet": snippet,
            "created_at": dump_instant(key.created_at),
            "last_used_at": None,
            "expires_at": None,
            "token_ttl": None,
        }


@call("GET /month-to-date-account-info", "viewer")
def get_usage() -> dict[str, Any]:
    """Count the queries of this month; nothing is limited."""
    with http.database().read() as session:
        counts = count_month(session, http.by())
    return {
        "iqs": sum(counts.values()),
        "escalations": 0,
        "active_detectors": len(counts),
        "iqs_limit": None,
        "escalations_limit": None,
        "active_detectors_limit": None,
    }
