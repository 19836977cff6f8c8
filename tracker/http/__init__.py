"""One request; other rooms import from here alone."""

from tracker.http.authentication import (
    PUBLIC,
    SecondFactorError,
    UnauthorizedError,
    authenticate_if_signed_in,
    authenticate_requests,
    check_second_factor,
    required_role,
    requires,
)
from tracker.http.comparisons import find_comparison
from tracker.http.exports import name_file, send_rows
from tracker.http.idempotency import IDEMPOTENCY_PARAMETER, answer_idempotently
from tracker.http.limits import limit_exact_sums, limit_open_requests
from tracker.http.requests import (
    DEVICE_API,
    BadParametersError,
    BadRequestError,
    Context,
    ServerRequest,
    StrictJSONProvider,
    UnsupportedMediaTypeError,
    account,
    by,
    context,
    database,
    find_account,
    is_api_request,
    now,
    read_json_body,
)
from tracker.http.responses import (
    add_response_headers,
    compress,
    dump_errors,
    no_content,
    problem,
)
from tracker.http.session_cookie import SIGN_IN, add_session_cookie, keep_sign_in

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
    "add_session_cookie",
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
    "find_comparison",
    "is_api_request",
    "keep_sign_in",
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
