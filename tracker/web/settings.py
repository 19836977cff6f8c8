"""The settings of a detector, the API keys and the settings of the server."""

from dataclasses import dataclass
from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, context, database, requires
from tracker.services.detectors import (
    DetectorChange,
    change_detector,
    get_detector,
    get_open_detector,
)
from tracker.services.fields import parse_input
from tracker.services.people.keys import create_key, revoke_key
from tracker.settings import Settings
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.people import list_keys
from tracker.web.blueprint import pages
from tracker.web.forms import Form, dump_detector, failed_form, parse_detector_change
from tracker.words import KEY_ROLES


@pages.get("/detectors/<detector_id>/setup")
@requires("viewer")
def edit_detector(detector_id: str) -> ResponseReturnValue:
    """Show the settings of a detector, as text to those who may not change them."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        return _render_detector(session, detector, Form(dump_detector(detector)))


def _render_detector(session: Session, detector: Detector, form: Form) -> str:
    versions = list_versions(session, detector.id)
    return render_template(
        "settings/detector.html", detector=detector, form=form, versions=versions
    )


@pages.post("/detectors/<detector_id>/setup")
@requires("editor")
def change_settings(detector_id: str) -> ResponseReturnValue:
    """Change a detector."""
    try:
        hosts = context().settings.predictor_hosts
        with database().write() as session:
            detector = get_open_detector(session, detector_id)
            change = parse_detector_change(request.form, detector.classes)
            change_detector(session, detector, change, by(), predictor_hosts=hosts)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            detector = get_detector(session, detector_id)
            form = failed_form(request.form, error)
            return _render_detector(session, detector, form), 422
    flash("Saved.")
    return redirect(url_for("pages.edit_detector", detector_id=detector_id), 303)


@pages.post("/detectors/<detector_id>/label-sampling")
@requires("editor")
def state_label_sampling(detector_id: str) -> ResponseReturnValue:
    """State how the queries were chosen whose labels do not say it."""
    said = {"label_sampling": request.form.get("label_sampling") or None}
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        change_detector(session, detector, parse_input(DetectorChange, said), by())
    flash("Saved.")
    return redirect(url_for("pages.show_detector", detector_id=detector_id), 303)


@pages.get("/keys")
@requires("admin")
def show_settings() -> ResponseReturnValue:
    """Show the API keys."""
    with database().read() as session:
        return _render(session, Form({"role": "editor"}))


@pages.get("/activity/server")
@requires("admin")
def show_server() -> ResponseReturnValue:
    """Show the settings of the server."""
    variables = describe_settings()
    return render_template(
        "settings/server.html",
        changed=[one for one in variables if not one.is_usual],
        usual=[one for one in variables if one.is_usual],
    )


@pages.post("/keys")
@requires("admin")
def make_key() -> ResponseReturnValue:
    """Make an API key and show it, this once."""
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


@pages.post("/keys/revoke")
@requires("admin")
def revoke() -> ResponseReturnValue:
    """Make an API key useless from now on."""
    with database().write() as session:
        revoke_key(session, request.form.get("name", ""), by())
    flash("The key is revoked.")
    return redirect(url_for("pages.show_settings"), 303)


def _render(
    session: Session, form: Form, *, key: str | None = None, name: str | None = None
) -> str:
    return render_template(
        "settings/keys.html",
        keys=list_keys(session),
        roles=KEY_ROLES,
        form=form,
        new_key=key,
        new_name=name,
        detectors=list_detectors(session),
        chosen=request.form.getlist("detectors"),
        sees_all=request.form.get("sees", "all") == "all",
    )


@dataclass(frozen=True, slots=True)
class Variable:
    """A setting of the server as a page shows it; no secret is."""

    name: str
    value: str
    meaning: str
    is_usual: bool


def describe_settings() -> list[Variable]:
    """Return each setting with its value and its meaning, no secrets."""
    settings = context().settings
    return [
        Variable(
            f"TRACKER_{name.upper()}",
            _show(settings, name),
            field.description or "",
            is_usual=getattr(settings, name) == field.get_default(),
        )
        for name, field in Settings.model_fields.items()
    ]


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
