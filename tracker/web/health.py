"""Whether the server is alive and ready, and where to report a weakness of it."""

import os
from datetime import timedelta
from pathlib import Path

from flask import Response, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.exc import SQLAlchemyError

from tracker.errors import DamagedError, NotFoundError, UnavailableError
from tracker.http import PUBLIC, context, database, now
from tracker.services.wording import dump_instant
from tracker.storage.dialect import takes_writes
from tracker.storage.estimates.job_runs import find_last_heartbeat, patience
from tracker.storage.operations import schema
from tracker.web.blueprint import page

# With less than that an image or the log of SQLite may find no room.
_FEWEST_FREE_BYTES = 16 * 2**20
_IS_DAMAGED = "it is damaged: see the log, and restore a backup"


@page("GET /healthz", PUBLIC)
def alive() -> ResponseReturnValue:
    return {"status": "alive"}


@page("GET /readyz", PUBLIC)
def ready() -> ResponseReturnValue:
    checks = {"database": _check_database()}
    checks["disk"] = _check_disk()
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
            # That the server's own disk is full nobody is told but who writes, as the
            # worker does: its heartbeat then stops.
            if not takes_writes(session):
                return "it is read-only"
    except DamagedError:
        return _IS_DAMAGED
    except UnavailableError:
        # Where it is and what it said stays in the log: this address is public.
        return "it does not respond"
    return _IS_DAMAGED if database().is_damaged else "ok"


def _check_disk() -> str:
    settings = context().settings
    url = database().engine.url
    own = [settings.data_dir, settings.image_dir]
    folders = [] if settings.image_store else own
    if database().is_sqlite and url.database:
        folders.append(Path(url.database).parent)
    found = map(find_disk_trouble, folders)
    return next((said for said in found if said != "ok"), "ok")


def find_disk_trouble(folder: Path) -> str:
    """Return what is wrong with the disk of *folder*, which may not exist yet."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    disk = os.statvfs(there)
    if disk.f_flag & os.ST_RDONLY or not os.access(there, os.W_OK):
        return "it is read-only"
    if disk.f_bavail * disk.f_frsize < _FEWEST_FREE_BYTES:
        return "it is full"
    return "ok"


def _check_schema() -> str:
    try:
        return schema.find_mismatch(database()) or "ok"
    except (SQLAlchemyError, UnavailableError):
        return "it cannot be read"


def _check_worker() -> str:
    try:
        with database().read() as session:
            seen_at = find_last_heartbeat(session)
    except UnavailableError:
        return "it cannot be read"
    if seen_at is None:
        return "no worker has ever run: start tracker worker"
    silence = now() - seen_at
    if silence > patience(context().settings.recompute_seconds):
        return f"no worker was seen for {silence.total_seconds():.0f} seconds"
    return "ok"


# RFC 9116 asks for less than a year.
_VALID = timedelta(days=180)


@page("GET /.well-known/security.txt", PUBLIC)
def show_security_contact() -> ResponseReturnValue:
    """Say where to report a weakness (RFC 9116), if the settings name a place."""
    contact = context().settings.security_contact
    if not contact:
        raise NotFoundError("TRACKER_SECURITY_CONTACT is not set on this server")
    expires_at = (now() + _VALID).replace(hour=0, minute=0, second=0, microsecond=0)
    lines = [f"Contact: {contact}", f"Expires: {dump_instant(expires_at)}"]
    lines.append("Preferred-Languages: en")
    if context().settings.public_url:
        address = url_for("pages.show_security_contact", _external=True)
        lines.append(f"Canonical: {address}")
    return Response("".join(f"{line}\n" for line in lines), mimetype="text/plain")
