"""Tags of queries."""

from typing import Any

from tracker.api.parameters import IdPath
from tracker.api.queries.queries import address_of_image
from tracker.api.routes import answers, build_routes
from tracker.http import by, database, requires
from tracker.services.labelling.golds import see_as
from tracker.services.queries import queries
from tracker.services.queries.tags import NewTags, set_tags

routes = build_routes("tags", "What people mark queries with, to find them again.")


@routes.put(
    "/queries/<id>/tags",
    responses=answers({200: queries.Query}, 404, 409, 410, 413, 415, 422),
)
@requires("labeler")
def tag_query(path: IdPath, body: NewTags) -> dict[str, Any]:
    """Mark a query with these tags, and with no others.

    List the queries with a tag by tag=; the labels export has the tags too.
    """
    with database().write() as session:
        query = see_as(session, set_tags(session, path.id, body), by().name)
        image = address_of_image(query)
        return queries.describe_query(session, query, image=image).dump()
