"""/device-api/v1, the API of the Groundlight SDK: only the endpoint changes."""

from flask import Flask
from flask_wtf.csrf import CSRFProtect

from tracker.groundlight import detectors, queries
from tracker.groundlight.routes import routes

__all__ = ["register"]

# Importing them adds their views to the routes.
_NOUNS = (detectors, queries)


def register(app: Flask, csrf: CSRFProtect) -> None:
    # Requests carry a key and no cookie that could be stolen.
    csrf.exempt(routes)
    app.register_blueprint(routes)
