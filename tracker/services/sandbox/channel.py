"""Messages and open files between the worker and a reader, and the reader's limits."""

import json
import os
import signal
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tracker.errors import InvalidInputError, TooLargeError
from tracker.files import PlacedFile
from tracker.services.wording import show_reason

_HEADER = struct.Struct("!II")
_MOST_JSON = 32 * 2**20
_MOST_BYTES = 128 * 2**20
# Processor time after the limit until the system ends the process.
GRACE_SECONDS = 2
# What reading a zip file that is damaged, or of an unknown kind, raises.
BROKEN_ZIP = (EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


@contextmanager
def refusing(said: str, *kinds: type[Exception], field: str = "file") -> Iterator[None]:
    """Raise InvalidInputError of *field* for errors of the libraries that read it."""
    try:
        yield
    except kinds as error:
        reason = f"{said}: {show_reason(error)}"
        raise InvalidInputError.of(field, reason) from error


class Closed(Exception):  # noqa: N818 - an end is not an error.
    """The other side has closed the channel."""


class Channel:
    """Messages to and from a reader: JSON values, some followed by bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._incoming = connection.makefile("rb", buffering=2**20)

    def send(self, value: Any, content: bytes = b"") -> None:
        self.send_json(dump(value), content)

    def send_json(self, text: bytes, content: bytes = b"") -> None:
        self._connection.sendall(_HEADER.pack(len(text), len(content)) + text)
        if content:
            self._connection.sendall(content)

    def receive(
        self, hook: Callable[[dict[str, Any]], Any] | None = None
    ) -> tuple[Any, bytes]:
        """Return the next message; raises Closed after the last, or ValueError."""
        size, more = _HEADER.unpack(self._read(_HEADER.size))
        if size > _MOST_JSON or more > _MOST_BYTES:
            raise ValueError("the message is too long")
        text = self._read(size).decode("utf-8", "surrogatepass")
        return json.loads(text, object_hook=hook), self._read(more)

    def _read(self, size: int) -> bytes:
        content: bytes = self._incoming.read(size)
        if len(content) < size:
            raise Closed
        return content

    def close(self) -> None:
        self._incoming.close()
        self._connection.close()


def dump(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return *value* as JSON; lone surrogates are kept."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    return text.encode("utf-8", "surrogatepass")


class SharedFile(PlacedFile):
    """A file that another process has open too, with a position of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(os.fstat(number).st_size)
        self._number = number
        # The end of the bytes read so far.
        self.furthest = 0

    def readinto(self, buffer: Any, /) -> int:
        content = os.pread(self._number, len(buffer), self._place)
        buffer[: len(content)] = content
        self._place += len(content)
        self.furthest = max(self.furthest, self._place)
        return len(content)


def allow_time(seconds: float) -> None:
    """Give this process so much processor time from now on.

    Then SIGVTALRM comes, and a little later the system ends what does not heed it.
    """
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds + GRACE_SECONDS)


# The default of TRACKER_MAX_BODY_BYTES.
MOST_UNPACKED = 256 * 2**20


class Unpacked:
    """Counts the bytes unpacked from a file; its header may lie."""

    def __init__(self, most: int = MOST_UNPACKED) -> None:
        self._most = most
        self._size = 0

    def add(self, size: int) -> None:
        """Count *size* more bytes; raises TooLargeError if there are too many."""
        self._size += size
        if self._size > self._most:
            raise TooLargeError.of(
                "file",
                f"unpacked it has more than {self._most:,} bytes, the limit of "
                "TRACKER_MAX_BODY_BYTES",
            )
