"""The first use: a key, ready commands, and a page that moves on by itself."""

import re

from flask import Response, render_template, url_for
from flask.typing import ResponseReturnValue

from tracker.http import account, by, database, requires
from tracker.services.people.keys import create_key, revoke_key
from tracker.storage.base import dump_id
from tracker.storage.detectors import list_detectors
from tracker.storage.people import list_keys
from tracker.web.blueprint import lead_to, pages
from tracker.words import LOGGER

_NAME = "first key"
_MADE_HERE = re.compile(rf"{_NAME}( \d+)?")


@pages.get("/begin")
@requires("viewer")
def show_beginning() -> ResponseReturnValue:
    """Say nothing while there is no detector, and lead to the first one after."""
    with database().read() as session:
        found = list_detectors(session, limit=1, among=account().detectors)
    if not found:
        return Response(status=204)
    here = url_for("pages.show_detector", detector_id=dump_id("det", found[0].id))
    return Response(status=200, headers={"HX-Redirect": here})


@pages.post("/begin")
@requires("admin")
def make_first_key() -> ResponseReturnValue:
    """Make a key and show it inside of the commands, this once.

    One that was made here before is of no use any more.
    """
    with database().write() as session:
        if list_detectors(session, limit=1):
            return lead_to("show_detectors")
        taken = [0]
        for old in list_keys(session):
            if made := _MADE_HERE.fullmatch(old.name):
                taken.append(int(made[1] or 1))
                if old.revoked_at is None:
                    revoke_key(session, old.name, by())
        name = f"{_NAME} {max(taken) + 1}" if len(taken) > 1 else _NAME
        key = create_key(session, name, LOGGER, by())
    # Not a redirect: the key would have to be kept somewhere on the way.
    return render_template("detectors/list.html", total=0, archived=0, new_key=key)
