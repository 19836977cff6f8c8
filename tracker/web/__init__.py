"""The pages."""

from flask import Flask
from jinja2 import StrictUndefined

from tracker.settings import Settings
from tracker.web import (
    accounts,
    archive,
    audit,
    comparison,
    detectors,
    health,
    history,
    imports,
    label_grid,
    labels,
    methods,
    metrics,
    planning,
    provider,
    queries,
    settings,
    sign_in,
    studies,
    why,
)
from tracker.web.blueprint import pages
from tracker.web.sparklines import EXTENSION, Sparklines

__all__ = [
    "accounts",
    "archive",
    "audit",
    "comparison",
    "detectors",
    "health",
    "history",
    "imports",
    "label_grid",
    "labels",
    "methods",
    "metrics",
    "planning",
    "provider",
    "queries",
    "register",
    "settings",
    "sign_in",
    "studies",
    "why",
]


def register(app: Flask, settings: Settings) -> None:
    """Add the pages to *app*."""
    provider.add_provider(app, settings)
    # A misspelt name in a template is an error, not an empty place.
    app.jinja_env.undefined = StrictUndefined
    app.extensions[EXTENSION] = Sparklines()
    app.register_blueprint(pages)
