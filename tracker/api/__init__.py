"""JSON under /api/v1, described by OpenAPI."""

import structlog
from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect

from tracker.api import detectors, openapi, otlp, own
from tracker.api.deciding import attribution, comparison, gates, planning
from tracker.api.estimates import (
    charts,
    cohorts,
    estimates,
    history,
    repeats,
    slices,
    thresholds,
    weeks,
)
from tracker.api.imports import imports
from tracker.api.labelling import (
    assignments,
    audits,
    golds,
    judges,
    labelers,
    labels,
    rechecks,
    reservations,
    studies,
)
from tracker.api.openapi import OPTIONS
from tracker.api.queries import queries, tags
from tracker.api.telling import badges, webhooks

__all__ = ["OPTIONS", "log", "register"]

log = structlog.get_logger("tracker.api")


def register(app: OpenAPI, csrf: CSRFProtect) -> None:
    """Add the API to *app*, which was made with ``OPTIONS``."""
    for noun in (
        detectors,
        queries,
        reservations,
        labels,
        tags,
        rechecks,
        golds,
        imports,
        estimates,
        cohorts,
        repeats,
        weeks,
        slices,
        thresholds,
        comparison,
        attribution,
        gates,
        history,
        charts,
        planning,
        studies,
        audits,
        webhooks,
        badges,
        judges,
        labelers,
        assignments,
        otlp,
        own,
        openapi,
    ):
        # A program shows a key with every request and has no cookie to steal.
        csrf.exempt(noun.routes)
        app.register_api(noun.routes)
