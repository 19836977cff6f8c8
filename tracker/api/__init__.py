"""The JSON API under /api/v1, described by OpenAPI."""

import structlog
from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect

from tracker.api import (
    deciding,
    detectors,
    imports,
    openapi,
    otlp,
    own,
    queries,
    telling,
)
from tracker.api.estimates import estimates, history, slices
from tracker.api.labelling import audits, labels, queues, studies
from tracker.api.openapi import OPTIONS

__all__ = ["OPTIONS", "log", "register"]

log = structlog.get_logger("tracker.api")


def register(app: OpenAPI, csrf: CSRFProtect) -> None:
    """Add the API to *app*, which was created with ``OPTIONS``."""
    for routes in (
        detectors.routes,
        queries.routes,
        queues.routes,
        labels.routes,
        queries.tags_routes,
        queues.rechecks_routes,
        queues.gold_queries_routes,
        imports.routes,
        estimates.routes,
        slices.cohorts_routes,
        slices.repeats_routes,
        slices.weeks_routes,
        slices.routes,
        slices.confidences_routes,
        deciding.comparison_routes,
        deciding.attribution_routes,
        deciding.gates_routes,
        history.routes,
        history.charts_routes,
        deciding.plans_routes,
        studies.routes,
        audits.routes,
        telling.routes,
        telling.badges_routes,
        labels.judges_routes,
        labels.labelers_routes,
        labels.assignments_routes,
        otlp.routes,
        own.routes,
        openapi.routes,
    ):
        # Requests carry a key and no cookie that could be stolen.
        csrf.exempt(routes)
        app.register_api(routes)
