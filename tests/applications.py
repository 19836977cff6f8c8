"""Applications that tests borrow: each made once, and as after its start each time."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from flask import Flask
from werkzeug.serving import make_server

from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database


class Applications:
    """The newest application over each database.

    To make one takes longer than most tests, and it compiles every template again.
    """

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._made: dict[Database, tuple[Settings, Flask, dict[str, Any]]] = {}

    def get(self, settings: Settings, database: Database) -> Flask:
        """Return the application over *database*, which remembers no request."""
        if database not in self._made or self._made[database][0] != settings:
            app = create_app(settings, database, clock=self._clock)
            self._made[database] = settings, app, dict(app.extensions)
        _, app, extensions = self._made[database]
        app.extensions = dict(extensions)
        return app


@contextlib.contextmanager
def answering(app: WSGIApplication) -> Iterator[str]:
    """Answer requests by threads of this process, and give the address.

    A process that serves takes seconds to start; ``processes.serving`` is for tests
    of what only a process does.
    """
    server = make_server("127.0.0.1", 0, whole(app), threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(app: WSGIApplication) -> WSGIApplication:
    """Return *app* with answers that are closed before they are sent.

    This server does not close the file of one that a browser hangs up on.
    """

    def run(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        answer = app(environ, start_response)
        with contextlib.closing(answer):  # type: ignore[type-var]
            return [b"".join(answer)]

    return run
