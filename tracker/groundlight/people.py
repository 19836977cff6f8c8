"""The caller: the key of the request, and its usage."""

from typing import Any

from flask import request

from tracker.groundlight.routes import routes
from tracker.http import account, by, database, requires
from tracker.services.device import count_month
from tracker.services.wording import dump_instant, missing
from tracker.storage.people.api_keys import ApiKey

_SNIPPET = 20


@routes.get("/me")
@requires("viewer")
def get_me() -> dict[str, Any]:
    """Say whose key it is; it is asked for as the SDK starts."""
    name = account().name
    return {
        # A key belongs to a program, which has no address.
        "email": name,
        "username": name,
        "group": {"id": 1, "name": "Tracker"},
        "is_superuser": False,
    }


@routes.get("/api-tokens/by-snippet/<snippet>")
@requires("viewer")
def get_token(snippet: str) -> dict[str, Any]:
    """Say that the key stays good, so that the SDK does not renew it."""
    shown = request.headers.get("x-api-token", "").strip()
    if snippet != shown[:_SNIPPET]:
        raise missing("key", snippet)
    with database().read() as session:
        key = session.get_one(ApiKey, account().row)
        return {
            "name": key.name,
            "raw_key_snippet": snippet,
            "created_at": dump_instant(key.created_at),
            "last_used_at": None,
            "expires_at": None,
            "token_ttl": None,
        }


@routes.get("/month-to-date-account-info")
@requires("viewer")
def get_usage() -> dict[str, Any]:
    """Count the queries of this month; nothing is limited."""
    with database().read() as session:
        counts = count_month(session, by())
    return {
        "iqs": sum(counts.values()),
        "escalations": 0,
        "active_detectors": len(counts),
        "iqs_limit": None,
        "escalations_limit": None,
        "active_detectors_limit": None,
    }
