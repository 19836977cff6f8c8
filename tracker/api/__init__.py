"""The JSON API under /api/v1, described by OpenAPI."""

import structlog
from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect

from tracker.api import (
    deciding,
    detectors,
    estimates,
    imports,
    openapi,
    otlp,
    own,
    queries,
    telling,
)
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
        estimates.cohorts_routes,
        estimates.repeats_routes,
        estimates.weeks_routes,
        estimates.slices_routes,
        estimates.confidences_routes,
        deciding.comparison_routes,
        deciding.attribution_routes,
        deciding.gates_routes,
        estimates.history_routes,
        estimates.charts_routes,
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
