"""``python -m tracker.api`` prints the OpenAPI document."""

import sys

from flask_openapi3.openapi import OpenAPI
from flask_wtf.csrf import CSRFProtect

from tracker import api
from tracker.api.openapi import dump_document

if __name__ == "__main__":
    app = OpenAPI("tracker", **api.OPTIONS)
    api.register(app, CSRFProtect())
    sys.stdout.write(dump_document(app))
