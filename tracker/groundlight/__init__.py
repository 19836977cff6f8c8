"""/device-api/v1, the API of the Groundlight SDK: only the endpoint changes."""

from flask import Flask
from flask_wtf.csrf import CSRFProtect

from tracker.groundlight import detectors, queries
from tracker.groundlight.routes import routes

# Importing the nouns adds their views to the routes.
__all__ = ["detectors", "queries", "register"]


def register(app: Flask, csrf: CSRFProtect) -> None:
    # Requests carry a key and no cookie that could be stolen.
    csrf.exempt(routes)
    app.register_blueprint(routes)
