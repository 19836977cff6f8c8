"""The settings of a detector, the API keys, and what the server runs with."""

from typing import Any

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import audit, context, database, now, requires
from tracker.services.detectors import (
    change_detector,
    get_detector,
    get_open_detector,
)
from tracker.services.fields import ROLES
from tracker.services.keys import create_key, revoke_key
from tracker.settings import Settings
from tracker.storage.api_keys import list_keys
from tracker.storage.detectors import Detector, list_detectors
from tracker.web.blueprint import pages
from tracker.web.forms import Form, dump_percent, failed_form, parse_detector_change


@pages.get("/detectors/<detector_id>/settings")
@requires("editor")
def edit_detector(detector_id: str) -> ResponseReturnValue:
    """Show what can be changed about a detector."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        return render_template(
            "settings/detector.html", detector=detector, form=_stored(detector)
        )


def _stored(detector: Detector) -> Form:
    return Form(
        {
            "name": detector.name,
            "question": detector.question,
            "confidence_level": dump_percent(detector.confidence_level),
            "target": dump_percent(detector.target),
            "audit_rate": dump_percent(detector.audit_rate),
            "labels_wanted": str(detector.labels_wanted),
        }
    )


@pages.post("/detectors/<detector_id>/settings")
@requires("editor")
def change_settings(detector_id: str) -> ResponseReturnValue:
    """Change a detector."""
    try:
        change = parse_detector_change(request.form)
        with database().write() as session:
            detector = get_open_detector(session, detector_id)
            changed = change_detector(session, detector, change)
            if changed:
                audit(session, "detector changed", detector.name, **changed)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            detector = get_detector(session, detector_id)
            form = failed_form(request.form, error)
            return render_template(
                "settings/detector.html", detector=detector, form=form
            ), 422
    flash("Saved.")
    return redirect(url_for("pages.edit_detector", detector_id=detector_id), 303)


@pages.get("/settings")
@requires("admin")
def show_settings() -> ResponseReturnValue:
    """Show the API keys and what the server runs with."""
    with database().read() as session:
        return _render(session, Form({"role": "editor"}))


@pages.post("/settings/keys")
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
                created_at=now(),
                detectors=None if has_all else typed.getlist("detectors"),
            )
            audit(session, "key made", name, role=typed.get("role"))
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            return _render(session, failed_form(request.form, error)), 422
    # Not a redirect: the key would have to be kept somewhere on the way.
    with database().read() as session:
        return _render(session, Form({"role": "editor"}), key=text, name=name)


@pages.post("/settings/keys/revoke")
@requires("admin")
def revoke() -> ResponseReturnValue:
    """Make an API key useless from now on."""
    with database().write() as session:
        name = request.form.get("name", "")
        revoke_key(session, name, revoked_at=now())
        audit(session, "key revoked", name)
    flash("The key is revoked.")
    return redirect(url_for("pages.show_settings"), 303)


def _render(
    session: Session, form: Form, *, key: str | None = None, name: str | None = None
) -> str:
    return render_template(
        "settings/settings.html",
        keys=list_keys(session),
        roles=ROLES,
        form=form,
        new_key=key,
        new_name=name,
        detectors=list_detectors(session),
        chosen=request.form.getlist("detectors"),
        sees_all=request.form.get("sees", "all") == "all",
        settings=describe_settings(),
    )


def describe_settings() -> list[tuple[str, str, str]]:
    """Return the variable, the value and the meaning of each setting, no secrets."""
    settings = context().settings
    return [
        (f"TRACKER_{name.upper()}", _show(settings, name), field.description or "")
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
