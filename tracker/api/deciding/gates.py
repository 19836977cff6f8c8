"""Whether a version is good enough, for a build that stops where it is not."""

from typing import Any

from tracker.api.parameters import IdPath
from tracker.api.routes import answers, build_routes
from tracker.http import by, database, requires
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.detectors import get_detector

routes = build_routes("gates", "Whether a version is good enough.")


@routes.post(
    "/detectors/<id>/gate",
    responses=answers({200: Gate}, 404, 409, 413, 415, 422),
)
@requires("viewer")
def ask(path: IdPath, body: GateChoice) -> dict[str, Any]:
    """Ask whether a version meets each condition that is given.

    It goes by intervals that hold at every look, so that it may be asked after each
    commit.  With family it holds over all
    versions that a gate of the family is asked about, which are counted.  409 where the
    labels decide nothing.
    """
    is_written = body.unseen or body.family
    opened = database().write if is_written else database().read
    with opened() as session:
        return ask_gate(session, get_detector(session, path.id), body, by()).dump()
