"""The thread that sends what was appended, and lets nobody wait for it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import threading
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path

from tracker_client.delivery import Delivery, LaterError, Outcome
from tracker_client.locks import lock
from tracker_client.reading import (
    WINDOW_ROWS,
    Cursor,
    Reader,
    Window,
    collect,
    cursor_path,
    read_cursor,
)
from tracker_client.rows import SEPARATOR, now
from tracker_client.server import Server, UnreachableError
from tracker_client.spool import Spool

log = logging.getLogger("tracker_client")

TICK_SECONDS = 0.1
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 15.0
# Nobody is believed who asks for more.
_LONGEST_WAIT_SECONDS = 3600.0


def refused_path(folder: Path) -> Path:
    """Return where the rows lie that were refused for good."""
    return folder / "refused.jsonl"


class Sender:
    """Sends the spool in a thread; of the processes that share it one at a time."""

    def __init__(self, spool: Spool, server: Server) -> None:
        """Send *spool* to *server*; nothing begins before ``start``."""
        self._spool, self._server = spool, server
        self._forget()

    def _forget(self) -> None:
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._starting = threading.Lock()
        self._is_stopping = False
        self._lock_handle = -1
        self._reader: Reader | None = None
        self._window: tuple[Window, Delivery] | None = None
        self._failures = 0
        self._not_before = 0.0
        self._is_told_to_wait = False
        self._from_memory = 0
        self._nonce = os.urandom(6).hex()

    def forget(self) -> None:
        """In a child of a fork: the thread and what it had open are the parent's."""
        if self._lock_handle >= 0:
            with suppress(OSError):
                os.close(self._lock_handle)
        self._server.forget()
        self._forget()

    @property
    def is_running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread unless it runs, or the interpreter is about to end."""
        with self._starting, suppress(RuntimeError):
            if self._thread is None:
                self._is_stopping = False
                thread = threading.Thread(
                    target=self._run, name="tracker-client", daemon=True
                )
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        """End the thread after what it does now; all that is not sent stays."""
        with self._starting:
            self._is_stopping = True
            self._wake.set()
            if self._thread is not None:
                self._thread.join(timeout=2 * TICK_SECONDS)
                if not self._thread.is_alive():
                    self._thread = None
                    self._server.close()

    def hurry(self) -> None:
        """Look at once, unless the server asked to wait."""
        if not self._is_told_to_wait:
            self._not_before = 0.0
        self._wake.set()

    @property
    def cursor(self) -> Cursor:
        """How far the spool is sent, by this process or another."""
        return read_cursor(self._spool.folder)

    @property
    def refused(self) -> int:
        """How many rows were refused, those included that the disk did not take."""
        kept, reader = self.cursor.refused, self._reader
        return kept if reader is None else max(kept, reader.cursor.refused)

    def has_sent(self, end: tuple[int, int]) -> bool:
        """Whether all up to *end* was taken or refused, and nothing waits in memory."""
        if self._spool.waiting:
            return False
        cursor = self.cursor
        return (cursor.segment, cursor.offset) >= end

    def _run(self) -> None:
        while not self._is_stopping:
            is_busy = False
            try:
                self._spool.tend()
                if time.monotonic() >= self._not_before:
                    is_busy = self._turn()
            except (LaterError, UnreachableError) as error:
                self._pause(error)
            except Exception as error:
                # A thread that ended would send nothing ever again.
                log.exception("unexpected error")
                self._pause(error)
            if not is_busy:
                self._wake.wait(TICK_SECONDS)
                self._wake.clear()
        if self._lock_handle >= 0:
            os.close(self._lock_handle)
            self._lock_handle = -1

    def _turn(self) -> bool:
        """Send one window; whether there is more to be sent at once."""
        if not self._may_send():
            return False
        if self._reader is None:
            return self._send_waiting(Cursor())
        if self._window is None:
            window = self._reader.next_window()
            if window is None:
                return self._send_waiting(self._reader.cursor)
            self._window = window, self._deliver(window)
        window, delivery = self._window
        self._keep_refused(delivery.run(), self._reader.cursor)
        self._reader.advance(window)
        self._window = None
        self._go_on()
        return window.has_more

    def _send_waiting(self, cursor: Cursor) -> bool:
        """Send from memory what the disk does not take."""
        spool = self._spool
        with spool.lock:
            content = b"".join(islice(spool.waiting, WINDOW_ROWS))
            spool.is_sent_from_memory = bool(content)
        if not content:
            return False
        records, used = collect(content.split(SEPARATOR)[1:])
        window = Window(f"{self._nonce}-{self._from_memory}", 0, records, False)
        try:
            self._keep_refused(self._deliver(window).run(), cursor)
            spool.take_waiting(used)
        finally:
            # By the next time the disk may have room; the same rows come again.
            spool.is_sent_from_memory = False
        self._from_memory += 1
        self._go_on()
        return True

    def _deliver(self, window: Window) -> Delivery:
        place = str(self._spool.folder.resolve()).encode()
        return Delivery(self._server, window, hashlib.sha256(place).hexdigest()[:16])

    def _may_send(self) -> bool:
        """Whether no other process sends; this one then does until it ends."""
        if self._lock_handle >= 0:
            return True
        try:
            path = self._spool.folder / "lock"
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            # A disk that cannot hold a lock holds no rows either: they are in memory.
            return True
        if not lock(handle):
            os.close(handle)
            return False
        self._lock_handle = handle
        self._reader = Reader(self._spool.folder)
        self._window = None
        self._cut_refused(self._reader.cursor)
        return True

    def _cut_refused(self, cursor: Cursor) -> None:
        """Take away what was refused in a window that will be sent again."""
        with suppress(OSError):
            path = refused_path(self._spool.folder)
            if (
                path.stat().st_size > cursor.refused_bytes
                and cursor_path(self._spool.folder).exists()
            ):
                os.truncate(path, cursor.refused_bytes)

    def _keep_refused(self, outcome: Outcome, cursor: Cursor) -> None:
        """Keep what was refused beside the spool; it is counted with the cursor."""
        cursor.sent += outcome.sent
        cursor.refused += len(outcome.refused)
        if not outcome.refused:
            return
        first = outcome.refused[0]
        log.warning(
            "%d rows refused, the first with %s", len(outcome.refused), first["errors"]
        )
        at = now()
        lines = [json.dumps({"at": at, **entry}) for entry in outcome.refused]
        path = refused_path(self._spool.folder)
        try:
            with path.open("a", encoding="ascii", newline="\n") as file:
                file.write("\n".join(lines) + "\n")
                file.flush()
                cursor.refused_bytes = file.tell()
        except OSError:
            log.exception("no room for what was refused: %s", lines)

    def _pause(self, error: Exception) -> None:
        self._failures += 1
        seconds = min(
            _FIRST_PAUSE_SECONDS * 2 ** min(self._failures, 10), _LONGEST_PAUSE_SECONDS
        ) * random.uniform(0.5, 1)  # noqa: S311 - it only spreads out the clients.
        asked = error.seconds if isinstance(error, LaterError) else None
        self._is_told_to_wait = asked is not None
        if asked is not None:
            seconds = max(min(asked, _LONGEST_WAIT_SECONDS), TICK_SECONDS)
        self._not_before = time.monotonic() + seconds
        if self._failures == 1:
            log.warning("not sent, kept and tried again: %s", error)

    def _go_on(self) -> None:
        if self._failures:
            log.warning("sending again")
        self._failures, self._not_before, self._is_told_to_wait = 0, 0.0, False
