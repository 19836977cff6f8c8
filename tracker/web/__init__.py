"""The pages."""

from flask import Flask
from jinja2 import StrictUndefined

from tracker.web import (
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
    queries,
    settings,
    studies,
    why,
)
from tracker.web.blueprint import pages
from tracker.web.sparklines import EXTENSION, Sparklines

__all__ = [
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
    "queries",
    "register",
    "settings",
    "studies",
    "why",
]


def register(app: Flask) -> None:
    """Add the pages to *app*."""
    # A misspelt name in a template is an error, not an empty place.
    app.jinja_env.undefined = StrictUndefined
    app.extensions[EXTENSION] = Sparklines()
    app.register_blueprint(pages)
