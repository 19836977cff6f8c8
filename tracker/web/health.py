"""Whether the server lives, and whether it is ready to be used."""

from flask.typing import ResponseReturnValue
from sqlalchemy.exc import SQLAlchemyError

from tracker.errors import UnavailableError
from tracker.http import PUBLIC, context, database, now, requires
from tracker.storage import schema
from tracker.storage.job_runs import find_last_heartbeat, patience
from tracker.web.blueprint import pages


@pages.get("/healthz")
@requires(PUBLIC)
def alive() -> ResponseReturnValue:
    """Say that this process answers."""
    return {"status": "alive"}


@pages.get("/readyz")
@requires(PUBLIC)
def ready() -> ResponseReturnValue:
    """Say whether database, schema and worker are ready, and if not why."""
    checks = {"database": _check_database()}
    if checks["database"] == "ok":
        checks["schema"] = _check_schema()
    if checks.get("schema") == "ok":
        checks["worker"] = _check_worker()
    is_ready = all(found == "ok" for found in checks.values())
    status = "ready" if is_ready else "not ready"
    return {"status": status, "checks": checks}, 200 if is_ready else 503


def _check_database() -> str:
    try:
        with database().read() as session:
            session.connection()
    except UnavailableError:
        # Where it is and what it said stays in the log: this address is public.
        return "it does not answer"
    return "ok"


def _check_schema() -> str:
    try:
        return schema.find_mismatch(database()) or "ok"
    except (SQLAlchemyError, UnavailableError):
        return "it cannot be read"


def _check_worker() -> str:
    with database().read() as session:
        seen_at = find_last_heartbeat(session)
    if seen_at is None:
        return "no worker has ever run: start tracker worker"
    silence = now() - seen_at
    if silence > patience(context().settings.recompute_seconds):
        return f"no worker was seen for {silence.total_seconds():.0f} seconds"
    return "ok"
