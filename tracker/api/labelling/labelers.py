"""The people who label: how they agree, and who errs too often."""

from typing import Any

from tracker.api.parameters import IdPath
from tracker.api.routes import answers, build_routes
from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.labelling import labelers as services
from tracker.services.labelling.labelers import LabelerReport

routes = build_routes("labelers", "The people who label, compared with each other.")


@routes.get("/detectors/<id>/labelers", responses=answers({200: LabelerReport}, 404))
@requires("editor")
def get_labelers(path: IdPath) -> dict[str, Any]:
    """Compare labelers: kappa with intervals, and the error rate of each person."""
    with database().read() as session:
        return services.get_labelers(session, get_detector(session, path.id)).dump()
