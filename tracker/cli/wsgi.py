"""The application in one web process; imported there and nowhere else."""

import os
import signal
from wsgiref.types import WSGIApplication

from tracker.app import create_app
from tracker.cli.processes import watch_parent
from tracker.cli.setup import configure_logging, load_settings, process_name
from tracker.storage.database import open_database


def build_app() -> WSGIApplication:
    """Return the application for one web process, which stops with its server."""
    settings = load_settings()
    configure_logging(settings)
    watch_parent(os.getppid(), lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Whoever started this process has looked at the database.  Should it be away by
    # now, requests are answered with 503 until it is back.
    database = open_database(settings.database)
    return create_app(settings, database, worker=process_name())
