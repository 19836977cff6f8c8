"""Where to report a weakness of this server."""

from datetime import timedelta

from flask import Response, url_for
from flask.typing import ResponseReturnValue

from tracker.errors import NotFoundError
from tracker.http import PUBLIC, context, now, requires
from tracker.services.wording import dump_instant
from tracker.web.blueprint import pages

# RFC 9116 asks for less than a year.
_VALID = timedelta(days=180)


@pages.get("/.well-known/security.txt")
@requires(PUBLIC)
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
