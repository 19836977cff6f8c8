"""Which detectors, and what belongs to them, exist for who asks."""

from sqlalchemy.orm import Session

from tracker.services.by import Actor
from tracker.services.detectors import get_detector
from tracker.services.imports.background import get_import
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.labelling.predictions import find_any
from tracker.services.labelling.studies import get_study
from tracker.services.telling.badges import get_badge
from tracker.services.telling.webhooks import get_webhook
from tracker.services.wording import missing


def check_sees(session: Session, actor: Actor, noun: str, reference: str) -> None:
    """Raise NotFoundError unless *actor* sees what the first part of a path names.

    What they were not given looks exactly like what does not exist.
    """
    if noun in {"webhooks", "alerts"}:
        get_webhook(session, reference, actor)
        return
    match noun:
        case "detectors" | "detector-reset":
            name, detector_id = "detector", get_detector(session, reference).id
        case "queries" | "image-queries":
            name, detector_id = "query", find_any(session, reference).detector_id
        case "studies":
            name, detector_id = "study", get_study(session, reference).detector_id
        case "audits":
            name, detector_id = "audit", get_audit(session, reference).detector_id
        case "badges":
            name, detector_id = "badge", get_badge(session, reference).detector_id
        case "imports":
            name, detector_id = "import", get_import(session, reference).detector_id
        case "by-snippet":
            # It is part of the key itself.
            return
        case _:
            raise missing(noun, reference)
    if not actor.sees(detector_id):
        raise missing(name, reference)
