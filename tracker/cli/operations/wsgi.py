"""The application in one web process; imported by the web server only."""

import multiprocessing
import os
import signal
from wsgiref.types import WSGIApplication

from tracker.app import create_app
from tracker.cli.logs import configure_logging
from tracker.cli.operations.processes import watch_parent
from tracker.cli.setup import load_settings, process_name
from tracker.services.sandbox.readers import warm_up
from tracker.storage.database import open_database


def build_app() -> WSGIApplication:
    """Build the application of one web process, which stops with its server."""
    server = multiprocessing.parent_process()
    if server is not None and server.pid is not None:
        # The server may have been killed during the imports.
        watch_parent(server.pid, lambda: os.kill(os.getpid(), signal.SIGTERM))
    # Started now, so that no file waits for it.
    warm_up()
    settings = load_settings()
    configure_logging(settings.log_level)
    # The database has been checked before.  If it is away now, requests get 503 until
    # it is back.
    database = open_database(settings.database, at_once=settings.web_threads)
    replica = None
    if settings.database_read_url:
        replica = open_database(
            settings.database_read_url, at_once=settings.web_threads, must_exist=True
        )
    return create_app(settings, database, worker=process_name(), replica=replica)
