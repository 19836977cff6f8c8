"""Badges: their public pictures and frames, and the page of their editors."""

import base64
import json
from functools import lru_cache
from typing import Literal

from flask import (
    Response,
    jsonify,
    make_response,
    render_template,
    request,
    url_for,
)
from flask.typing import ResponseReturnValue

from tracker.charts.render import render_svg
from tracker.errors import NotFoundError
from tracker.http import PUBLIC, by, database, now
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates.charts import build_chart
from tracker.services.telling import badges as services
from tracker.services.telling.badges import (
    MadeBadge,
    draw_face,
    get_shown_detector,
)
from tracker.storage.telling import list_badges
from tracker.web.blueprint import allow_style, lead_to, page, reading
from tracker.words import DECIDING_METHOD

# Dark enough behind white letters.
_FILLS = {
    "brightgreen": "#1a7f37",
    "red": "#b3261e",
    "yellow": "#8a6100",
    "blue": "#0b5cad",
    "lightgrey": "#666666",
}
# The width of a digit in the font of badges; other fonts are stretched to it.
_LETTER = 7
_MOST_SHOWN = 1_000
_STYLE = (
    "body { margin: 1rem; color: #262626; background: #fff; "
    "font: 1rem/1.5 system-ui, sans-serif; } "
    "img { display: block; width: 100%; max-width: 60rem; }"
)
_FRAMED = f"default-src 'none'; img-src data:; {allow_style(_STYLE)}; frame-ancestors *"


@page("GET /detectors/<detector_id>/badges", "editor")
def show_badges(detector_id: str) -> ResponseReturnValue:
    return _render(detector_id)


def _render(detector_id: str, *, made: MadeBadge | None = None) -> str:
    with reading(detector_id) as (session, detector):
        found = list_badges(session, detector.id, limit=_MOST_SHOWN)
        path = (
            None
            if made is None
            else url_for("pages.show_badge", token=made.token, suffix="svg")
        )
        return render_template(
            "badges/list.html",
            detector=detector,
            badges=[services.describe_badge(badge) for badge in found],
            made=made,
            preview=path,
        )


@page("POST /detectors/<detector_id>/badges", "editor")
def make_badge(detector_id: str) -> ResponseReturnValue:
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        server = request.url_root.rstrip("/")
        made = services.create_badge(session, detector, server, by())
    # Not a redirect: the addresses would have to be stored in between.
    return _render(detector_id, made=made)


@page("POST /detectors/<detector_id>/badges/revoke", "editor")
def revoke_badge(detector_id: str) -> ResponseReturnValue:
    name = request.form.get("badge", "")
    with database().write() as session:
        badge = services.get_badge(session, name)
        if badge.detector_id != get_detector(session, detector_id).id:
            raise NotFoundError("the badge belongs to another detector")
        services.revoke_badge(session, badge, by())
    return lead_to("show_badges", says="The badge is revoked.", detector_id=detector_id)


@page("GET /badge/<token>.<any(svg,json):suffix>", PUBLIC)
def show_badge(token: str, suffix: Literal["svg", "json"]) -> ResponseReturnValue:
    with database().read() as session:
        face = draw_face(session, get_shown_detector(session, token), at=now())
    if suffix == "json":
        return _cached(jsonify(face.dump()))
    left, right = (_LETTER * len(text) + 10 for text in (face.label, face.message))
    answer = make_response(
        render_template(
            "badges/badge.svg",
            left=left,
            right=right,
            fill=_FILLS[face.color],
            face=face,
        )
    )
    answer.mimetype = "image/svg+xml"
    return _cached(answer)


@page("GET /embed/<token>", PUBLIC)
def show_embed(token: str) -> ResponseReturnValue:
    with database().read() as session:
        detector = get_shown_detector(session, token)
        face = draw_face(session, detector, at=now())
        spec = build_chart(session, detector, method=DECIDING_METHOD, is_nameless=True)
        level = detector.confidence_level
    picture = _draw(json.dumps(spec))
    answer = make_response(
        render_template(
            "badges/embed.html", face=face, level=level, picture=picture, style=_STYLE
        )
    )
    answer.headers["Content-Security-Policy"] = _FRAMED
    return _cached(answer)


# Cached, because it is public and drawing takes a while.
@lru_cache(maxsize=64)
def _draw(spec: str) -> str:
    return base64.b64encode(render_svg(json.loads(spec)).encode()).decode()


def _cached(answer: Response) -> Response:
    answer.headers["Cache-Control"] = "public, max-age=60"
    # Pages of other sites may show it.
    answer.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return answer
