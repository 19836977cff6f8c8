"""The account of the key's owner: pins, saved views, and its inbox."""

from typing import Any

from tracker.api.routes import build_routes
from tracker.http import by, database
from tracker.services.people import own as services
from tracker.services.people.own import Own, OwnChange
from tracker.storage.telling import find_newest_id

routes = build_routes("account", "The pins, saved views and inbox of a person.")


@routes.call("GET /account", "viewer", Own, 409)
def get_account() -> dict[str, Any]:
    """Get the pins and saved views of the key's owner."""
    with database().read() as session:
        found = services.get_own(session, by())
        return services.describe_own(session, found).dump()


@routes.call("PATCH /account", "viewer", Own, 404, 409)
def change_account(body: OwnChange) -> dict[str, Any]:
    """Set the pins and saved views, or mark the inbox as seen."""
    with database().write() as session:
        found = services.get_own(session, by())
        newest = find_newest_id(session) if body.has_looked else 0
        services.change_own(session, found, body, by(), newest_event=newest)
        return services.describe_own(session, found).dump()
