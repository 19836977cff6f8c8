"""One request; other rooms import from here alone."""

from tracker.http.authentication import (
    PUBLIC,
    SIGN_IN,
    SecondFactorError,
    UnauthorizedError,
    add_session_cookie,
    admit,
    authenticate_if_signed_in,
    check_sees,
    keep_sign_in,
    required_role,
    requires,
    route,
)
from tracker.http.comparisons import find_comparison
from tracker.http.exports import name_file, send_image, send_rows
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
