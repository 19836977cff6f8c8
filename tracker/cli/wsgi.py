"""The application in one web process; imported there and nowhere else."""

import os
import signal
from wsgiref.types import WSGIApplication

from tracker.app import create_app
from tracker.cli.processes import watch_parent
from tracker.cli.setup import configure_logging, connect, load_settings, process_name


def build_app() -> WSGIApplication:
    """Return the application for one web process, which stops with its server."""
    settings = load_settings()
    configure_logging(settings)
    watch_parent(os.getppid(), lambda: os.kill(os.getpid(), signal.SIGTERM))
    return create_app(settings, connect(settings), worker=process_name())
