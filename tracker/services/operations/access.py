"""Access of accounts and keys to detectors and what belongs to them."""

from collections.abc import Callable
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.by import Actor
from tracker.services.detectors import get_detector
from tracker.services.imports.background import get_import
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.labelling.auditing.schedules import get_schedule
from tracker.services.labelling.predictions import find_any
from tracker.services.labelling.studies import get_study
from tracker.services.telling.badges import get_badge
from tracker.services.telling.webhooks import get_webhook
from tracker.services.wording import missing
from tracker.storage.detectors import Detector

# How the objects of the first noun in a path are found.
_FIND: dict[str, tuple[str, Callable[[Session, str], Any]]] = {
    "detectors": ("detector", get_detector),
    "detector-reset": ("detector", get_detector),
    "queries": ("query", find_any),
    "image-queries": ("query", find_any),
    "studies": ("study", get_study),
    "audits": ("audit", get_audit),
    "audit-schedules": ("schedule", get_schedule),
    "badges": ("badge", get_badge),
    "imports": ("import", get_import),
}


def check_sees(session: Session, actor: Actor, noun: str, reference: str) -> None:
    """Raise NotFoundError unless *actor* sees the object *reference* of *noun*.

    A hidden object looks exactly like one that does not exist.
    """
    if noun in {"webhooks", "alerts"}:
        get_webhook(session, reference, actor)
        return
    if noun == "by-snippet":
        # The reference is a part of the key itself.
        return
    if noun not in _FIND:
        raise missing(noun, reference)
    name, find = _FIND[noun]
    found = find(session, reference)
    detector_id = found.id if isinstance(found, Detector) else found.detector_id
    if not actor.sees(detector_id):
        raise missing(name, reference)
