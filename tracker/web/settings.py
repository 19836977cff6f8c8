"""The settings of a detector, the API keys and the settings of the server."""

from datetime import timedelta
from typing import Any, NamedTuple

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, context, database, now
from tracker.services.detectors import (
    DetectorChange,
    change_detector,
    get_open_detector,
)
from tracker.services.estimates.estimate import NOW, Estimate, get_estimate
from tracker.services.estimates.intervals import Claim, bound_all
from tracker.services.estimates.measures import score_own
from tracker.services.estimates.report import counting_the_same, right_how_often
from tracker.services.evidence.measure import Measure, read_measure
from tracker.services.fields import parse_input
from tracker.services.labelling.queues import QueueChoice, build_queue, count_waiting
from tracker.services.people.keys import create_key, revoke_key
from tracker.settings import Settings
from tracker.shapes import Accuracy
from tracker.storage.base import list_detector_ids, list_rows
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.people import ApiKey, ApiKeyDetector, find_last_event
from tracker.web.blueprint import lead_to, page, reading
from tracker.web.drawing.readings import span
from tracker.web.drawing.words import sentence, share
from tracker.web.forms import Form, dump_detector, failed_form, parse_detector_change
from tracker.words import (
    BALANCED,
    DECIDING_METHOD,
    KEY_ROLES,
    OVERALL,
    PRECISION,
    RECALL,
)

# Of more classes one is typed.
MOST_CHOICES = 50
# A key that was not used for so long may be of no use.
_IDLE = timedelta(days=30)
# Of more queries that wait nobody needs the number.
_MANY = 100_000


@page("GET /detectors/<detector_id>/setup", "viewer")
def edit_detector(detector_id: str) -> ResponseReturnValue:
    """Show the settings of a detector, as text to those who may not change them."""
    with reading(detector_id) as (session, detector):
        return _render_detector(session, detector, Form(dump_detector(detector)))


# Levels that are shown beside the one that is set.
_LEVELS = (0.9, 0.95, 0.99)


class Today(NamedTuple):
    """What a detector would be said to be if another measure were set."""

    span: str
    sentence: str


def _render_detector(session: Session, detector: Detector, form: Form) -> str:
    found = get_estimate(
        session, detector, computed_at=now(), method=DECIDING_METHOD, span=NOW
    )
    return render_template(
        "settings/detector.html",
        detector=detector,
        form=form,
        versions=list_versions(session, detector.id),
        today=_say_today(detector, found),
        levels=_say_levels(detector, found),
        unstated=found.unstated + found.unstated_left_out,
        grouped=found.grouped_left_out,
        changed=find_last_event(session, "detector changed", detector.name),
        waiting=count_waiting(
            session, build_queue(session, detector, QueueChoice(), by()), at_most=_MANY
        ),
    )


def _say_today(detector: Detector, found: Estimate) -> dict[str, Today]:
    """Return what each measure would be, its own one as every other page says it."""
    kinds = [Measure(BALANCED), Measure(OVERALL)]
    if len(detector.classes) <= MOST_CHOICES:
        kinds += [Measure(k, of) for k in (RECALL, PRECISION) for of in found.confusion]
    own = read_measure(detector.measure)
    if own not in kinds:
        kinds.append(own)
    claims = [_claim(found, one, found.shown_level) for one in kinds]
    ends = dict(zip(kinds, bound_all(claims), strict=True))
    same = f", {counting_the_same(detector.classes)}"
    today = {}
    for one, claim in zip(kinds, claims, strict=True):
        interval = Accuracy(accuracy=None, low=ends[one][0], high=ends[one][1])
        if one == own:
            interval = score_own(found, str(one))
        said = span(interval, detector.target)
        more = same if one.kind == BALANCED else ""
        words = sentence(f"{right_how_often(one, said)}{more}")
        # Without a label of all that it is made of, nothing is measured.
        is_known = all(claim.counted)
        today[str(one)] = Today(said, words) if is_known else Today("", "")
    return today


def _claim(found: Estimate, measure: Measure, level: float) -> Claim:
    right, counted = measure.count_right(found.confusion)
    return Claim(right, counted, found.shares if len(counted) > 1 else None, level)


def _say_levels(detector: Detector, found: Estimate) -> list[tuple[str, str]]:
    measure = read_measure(detector.measure)
    # What of the error is for this interval is the same part at each level.
    part = (1 - found.shown_level) / (1 - found.confidence_level)
    others = [one for one in _LEVELS if one != detector.confidence_level]
    claims = [_claim(found, measure, 1 - part * (1 - one)) for one in others]
    if not all(claims[0].counted):
        return []
    intervals = [Accuracy(accuracy=None, low=a, high=b) for a, b in bound_all(claims)]
    return [(share(a), span(b)) for a, b in zip(others, intervals, strict=True)]


@page("POST /detectors/<detector_id>/setup", "editor")
def change_settings(detector_id: str) -> ResponseReturnValue:
    try:
        hosts = context().settings.predictor_hosts
        with database().write() as session:
            detector = get_open_detector(session, detector_id)
            change = parse_detector_change(request.form, detector.classes)
            change_detector(session, detector, change, by(), predictor_hosts=hosts)
    except (InvalidInputError, ConflictError) as error:
        with reading(detector_id) as (session, detector):
            # The other sections show what is stored.
            typed = dump_detector(detector) | request.form.to_dict()
            return _render_detector(session, detector, failed_form(typed, error)), 422
    section = request.form.get("section", "")
    flash("Saved.", section or "message")
    return lead_to("edit_detector", detector_id=detector_id, _anchor=section or None)


@page("POST /detectors/<detector_id>/label-sampling", "editor")
def state_label_sampling(detector_id: str) -> ResponseReturnValue:
    said = {"label_sampling": request.form.get("label_sampling") or None}
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        change_detector(session, detector, parse_input(DetectorChange, said), by())
    return lead_to("show_detector", says="Saved.", detector_id=detector_id)


@page("GET /keys", "admin")
def show_settings() -> ResponseReturnValue:
    with database().read() as session:
        return _render(session, Form({"role": "editor"}))


@page("GET /activity/server", "admin")
def show_server() -> ResponseReturnValue:
    """Show the settings of the server with what each means; no secret is shown."""
    settings = context().settings
    changed, usual = list[Any](), list[Any]()
    for name, field in Settings.model_fields.items():
        is_usual = getattr(settings, name) == field.get_default()
        variable = {
            "name": f"TRACKER_{name.upper()}",
            "value": _show(settings, name),
            "meaning": field.description or "",
        }
        (usual if is_usual else changed).append(variable)
    return render_template("settings/server.html", changed=changed, usual=usual)


@page("POST /keys", "admin")
def make_key() -> ResponseReturnValue:
    typed = request.form
    name = typed.get("name", "").strip()
    has_all = typed.get("sees", "all") == "all"
    try:
        with database().write() as session:
            text = create_key(
                session,
                name,
                typed.get("role", ""),
                by(),
                detectors=None if has_all else typed.getlist("detectors"),
                expires=typed.get("expires"),
                owner=typed.get("owner", "").strip(),
            )
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            return _render(session, failed_form(request.form, error)), 422
    # Not a redirect: the key would have to be kept somewhere on the way.
    with database().read() as session:
        return _render(session, Form({"role": "editor"}), key=text, name=name)


@page("POST /keys/revoke", "admin")
def revoke() -> ResponseReturnValue:
    with database().write() as session:
        revoke_key(session, request.form.get("name", ""), by())
    return lead_to("show_settings", says="The key is revoked.")


def _render(
    session: Session, form: Form, *, key: str | None = None, name: str | None = None
) -> str:
    keys = list_rows(session, ApiKey)
    detectors = list_detectors(session)
    names = {one.id: one.name for one in detectors}
    in_use = [
        one
        for one in keys
        if not one.revoked_at and (one.expires_at is None or one.expires_at > now())
    ]
    used = {one: one.last_used_at or one.created_at for one in in_use}
    idle = min(used, key=lambda one: used[one], default=None)
    return render_template(
        "settings/keys.html",
        keys=sorted(keys, key=lambda one: (one.revoked_at is not None, -one.id)),
        seen={
            one.id: None
            if one.has_all_detectors
            else [
                names[i]
                for i in list_detector_ids(session, ApiKeyDetector, api_key_id=one.id)
                if i in names
            ]
            for one in keys
        },
        in_use=len(in_use),
        idle_key=idle if idle and now() - used[idle] > _IDLE else None,
        roles=KEY_ROLES,
        form=form,
        new_key=key,
        new_name=name,
        detectors=detectors,
        chosen=request.form.getlist("detectors"),
        sees_all=request.form.get("sees", "all") == "all",
    )


def _show(settings: Settings, name: str) -> str:
    if name == "secret_key" and not settings.secret_key:
        return "kept in the data folder"
    if not Settings.model_fields[name].repr:
        return "given" if getattr(settings, name) else ""
    if name == "database_url":
        # A password may stand in the address and among its parameters.
        url = database().engine.url.set(query={})
        return url.render_as_string(hide_password=True)
    value: Any = getattr(settings, name)
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return str(value)
