"""Tags, put on a query and taken off it on its page."""

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from tracker.http import database, requires
from tracker.services.fields import parse_input
from tracker.services.queries.queries import get_query
from tracker.services.queries.tags import NewTags, set_tags
from tracker.storage.queries.tags import load_tags
from tracker.web.blueprint import pages
from tracker.web.queries.filters import Filter

pages.add_app_template_global(load_tags)


@pages.post("/queries/<query_id>/tags")
@requires("labeler")
def tag_query(query_id: str) -> ResponseReturnValue:
    """Put one more tag on a query, or take one off."""
    with database().write() as session:
        tags = set(load_tags(get_query(session, query_id).tags))
        if added := request.form.get("add", "").strip():
            tags.add(added)
        tags.discard(request.form.get("remove", ""))
        set_tags(session, query_id, parse_input(NewTags, {"tags": sorted(tags)}))
    address = Filter.parse(request.args).address
    return redirect(url_for("pages.show_query", query_id=query_id, **address), 303)
