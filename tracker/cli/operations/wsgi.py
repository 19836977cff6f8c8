"""The application in one web process; imported there and nowhere else."""

import multiprocessing
import os
import signal
from wsgiref.types import WSGIApplication

from tracker.cli.operations.processes import watch_parent

# Before the rest, whose import takes seconds: a server that is killed meanwhile would
# leave a process that keeps the port.  getppid would no longer name that server.
_server = multiprocessing.parent_process()
if _server is not None and _server.pid is not None:
    watch_parent(_server.pid, lambda: os.kill(os.getpid(), signal.SIGTERM))

from tracker.app import create_app  # noqa: E402 - see above.
from tracker.cli.logs import configure_logging  # noqa: E402
from tracker.cli.setup import load_settings, process_name  # noqa: E402
from tracker.storage.database import open_database  # noqa: E402


def build_app() -> WSGIApplication:
    """Return the application for one web process, which stops with its server."""
    settings = load_settings()
    configure_logging(settings.log_level)
    # The database has been checked.  Should it be away by now, requests are answered
    # with 503 until it is back.
    database = open_database(settings.database, at_once=settings.web_threads)
    return create_app(settings, database, worker=process_name())
