"""Badges: an editor creates them, and everybody with the address can read them."""

import secrets
from datetime import datetime
from typing import Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.charts import words
from tracker.errors import NotFoundError
from tracker.services.by import By
from tracker.services.detectors import get_by_id
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.report import Report
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import LIVE
from tracker.services.fields import Instant
from tracker.shapes import Shape
from tracker.storage.base import dump_id, find_row
from tracker.storage.detectors import Detector, find_detector
from tracker.storage.people import digest_of
from tracker.storage.telling import Badge
from tracker.words import BALANCED, DECIDING_METHOD, UNSTATED, Verdict

Colour = Literal["brightgreen", "red", "yellow", "blue", "lightgrey"]
_COLOURS: dict[Verdict, Colour] = {
    "met": "brightgreen",
    "missed": "red",
    "undecided": "yellow",
}


class BadgeSummary(Shape):
    """A badge, without its address."""

    id: str = Field(description="bdg_ and a number.")
    created_at: Instant
    created_by: str


class MadeBadge(BadgeSummary):
    """A new badge; its addresses are shown only once."""

    token: str
    svg: str = Field(description="The address of the picture.")
    json_: str = Field(
        serialization_alias="json", description="The address for shields.io."
    )
    embed: str = Field(description="The address of the page with the chart.")


class BadgeFace(Shape):
    """The text of a badge in the format of shields.io, which allows no other field."""

    schema_version: int = Field(default=1, serialization_alias="schemaVersion")
    label: str = "accuracy"
    message: str
    color: Colour
    basis: str = Field(default="", exclude=True, description="For the picture only.")


def create_badge(
    session: Session, detector: Detector, server: str, by: By
) -> MadeBadge:
    """Add a badge with addresses on *server*, whose token is not stored."""
    token = secrets.token_urlsafe(24)
    badge = Badge(
        detector_id=detector.id,
        digest=digest_of(token),
        created_by=by.name,
        created_at=by.at,
    )
    session.add(badge)
    session.flush()
    by.record(session, "badge made", dump_id("bdg", badge.id), detector=detector.name)
    return MadeBadge(
        **dict(describe_badge(badge)),
        token=token,
        svg=f"{server}/badge/{token}.svg",
        json_=f"{server}/badge/{token}.json",
        embed=f"{server}/embed/{token}",
    )


def get_badge(session: Session, reference: str) -> Badge:
    return get_by_id(session, Badge, "bdg", "badge", reference)


def revoke_badge(session: Session, badge: Badge, by: By) -> None:
    by.record(session, "badge revoked", dump_id("bdg", badge.id))
    session.delete(badge)


def describe_badge(badge: Badge) -> BadgeSummary:
    return BadgeSummary.from_row(badge, id=dump_id("bdg", badge.id))


def get_shown_detector(session: Session, token: str) -> Detector:
    """Return the detector of a badge's token; raises NotFoundError."""
    # Looked up by its hash, so that timing tells an attacker nothing.
    badge = find_row(session, Badge, digest=digest_of(token))
    detector = badge and find_detector(session, badge.detector_id)
    if not detector:
        raise NotFoundError("there is no badge at this address")
    return detector


def draw_face(session: Session, detector: Detector, *, at: datetime) -> BadgeFace:
    """Return the text of a badge: the shown version, in the detector's measure.

    It uses the interval of the verdict, because a badge is looked at again and again.
    """
    estimate = get_estimate(session, detector, computed_at=at, method=DECIDING_METHOD)
    found = estimate.decision
    report = Report(detector, estimate, 0)
    said = report.interval
    if said.accuracy is None:
        return BadgeFace(message="not known yet", color="lightgrey")
    # Rounded as on the pages, so that no badge says 100 % after a mistake.
    text = str(words.accuracy(said)).replace(" ", "")
    low, high = words.bounds(said, beside=detector.target)
    kind, measure = estimate.population.kind, read_measure(detector.measure)
    colour: Colour = "blue" if found is None else _COLOURS[found.verdict]
    if kind == UNSTATED:
        colour = "lightgrey"
    day = f" since {report.since:%-d %b %Y}" if report.since else ""
    name = "" if measure.kind == BALANCED else f"{measure.name} "
    whose = "" if kind == LIVE else f", {kind} labels"
    message = f"{name}{text} ({low} to {high}%){day}{whose}"
    basis = f"{measure.name[0].upper()}{measure.name[1:]}, by {estimate.basis}"
    return BadgeFace(message=message, color=colour, basis=basis)
