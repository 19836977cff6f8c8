"""/device-api/v1, which the Groundlight SDK speaks: only its endpoint changes."""

from flask import Flask
from flask_wtf.csrf import CSRFProtect

from tracker.groundlight import detectors, queries
from tracker.groundlight.routes import routes

__all__ = ["register"]

# Each of them adds its calls to the routes.
_NOUNS = (detectors, queries)


def register(app: Flask, csrf: CSRFProtect) -> None:
    # A program shows a key with every request and has no cookie to steal.
    csrf.exempt(routes)
    app.register_blueprint(routes)
