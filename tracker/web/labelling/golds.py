"""Gold queries, marked and unmarked on the page of the query."""

from flask import redirect, request, url_for
from flask.typing import ResponseReturnValue

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database, requires
from tracker.services.fields import parse_input
from tracker.services.labelling import golds as services
from tracker.services.labelling.golds import NewGold
from tracker.services.queries.queries import get_query
from tracker.web.blueprint import pages
from tracker.web.forms import Form
from tracker.web.queries.filters import Filter
from tracker.web.queries.queries import render_query


@pages.post("/queries/<query_id>/gold")
@requires("editor")
def mark_gold(query_id: str) -> ResponseReturnValue:
    """Say what the answer of a query is known to be."""
    try:
        new = parse_input(NewGold, {"label": request.form.get("known", "")})
        with database().write() as session:
            services.mark_gold(session, query_id, new, by())
    except (ConflictError, InvalidInputError) as error:
        with database().read() as session:
            form = Form({}, {"gold": [str(error)]})
            return render_query(session, get_query(session, query_id), form), 422
    return _back(query_id)


@pages.post("/queries/<query_id>/gold/end")
@requires("editor")
def unmark_gold(query_id: str) -> ResponseReturnValue:
    """Make a query an ordinary one again."""
    with database().write() as session:
        services.unmark_gold(session, query_id, by())
    return _back(query_id)


def _back(query_id: str) -> ResponseReturnValue:
    address = Filter.parse(request.args).address
    return redirect(url_for("pages.show_query", query_id=query_id, **address), 303)
