"""JSON under /api/v1, described by OpenAPI."""

import structlog
from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect

from tracker.api import (
    calculator,
    charts,
    comparison,
    detectors,
    estimates,
    history,
    imports,
    labels,
    openapi,
    planning,
    queries,
    reservations,
    studies,
)
from tracker.api.openapi import OPTIONS
from tracker.api.routes import DetectorConverter, LastDetectorConverter

__all__ = ["OPTIONS", "log", "register"]

log = structlog.get_logger("tracker.api")


def register(app: OpenAPI, csrf: CSRFProtect) -> None:
    """Add the API to *app*, which was made with ``OPTIONS``."""
    app.url_map.converters["detector"] = DetectorConverter
    app.url_map.converters["last_detector"] = LastDetectorConverter
    # A name may hold two slashes in a row; one of them must not get lost.
    app.url_map.merge_slashes = False
    for noun in (
        detectors,
        queries,
        reservations,
        labels,
        imports,
        estimates,
        comparison,
        history,
        charts,
        planning,
        calculator,
        studies,
        openapi,
    ):
        # A program shows a key with every request and has no cookie to steal.
        csrf.exempt(noun.routes)
        app.register_api(noun.routes)
