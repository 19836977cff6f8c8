"""One request; other rooms import from here alone."""

from tracker.http.authentication import (
    PUBLIC,
    SIGN_IN,
    SecondFactorError,
    UnauthorizedError,
    authenticate_if_signed_in,
    authenticate_requests,
    check_second_factor,
    required_role,
    requires,
)
from tracker.http.concurrency_limits import limit_exact_sums, limit_open_requests
from tracker.http.exports import name_file, send_rows
from tracker.http.idempotency import IDEMPOTENCY_PARAMETER, answer_idempotently
from tracker.http.request_context import (
    Context,
    account,
    by,
    context,
    database,
    find_account,
    now,
)
from tracker.http.requests import (
    DEVICE_API,
    BadParametersError,
    BadRequestError,
    ServerRequest,
    StrictJSONProvider,
    UnsupportedMediaTypeError,
    is_api_request,
    read_json_body,
)
from tracker.http.response_headers import add_response_headers, compress
from tracker.http.responses import dump_errors, no_content, problem

__all__ = [
    "DEVICE_API",
    "IDEMPOTENCY_PARAMETER",
    "PUBLIC",
    "SIGN_IN",
    "BadParametersError",
    "BadRequestError",
    "Context",
    "SecondFactorError",
    "ServerRequest",
    "StrictJSONProvider",
    "UnauthorizedError",
    "UnsupportedMediaTypeError",
    "account",
    "add_response_headers",
    "answer_idempotently",
    "authenticate_if_signed_in",
    "authenticate_requests",
    "by",
    "check_second_factor",
    "compress",
    "context",
    "database",
    "dump_errors",
    "find_account",
    "is_api_request",
    "limit_exact_sums",
    "limit_open_requests",
    "name_file",
    "no_content",
    "now",
    "problem",
    "read_json_body",
    "required_role",
    "requires",
    "send_rows",
]
