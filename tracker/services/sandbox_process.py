"""The process that reads files from outside; see sandbox.py.

It loads neither the database nor the settings, and must have one thread, because it
copies itself.
"""

import gc
import importlib
import io
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tracker.errors import InvalidInputError, TooLargeError

# What each job is done by, and what is loaded before the process copies itself.
_JOBS = {
    "rows": "tracker.services.imports.reading.kinds",
    "images": "tracker.services.imports.archives",
}
# Memory that a reader may write to; code and what it shares come on top.
_MEMORY_BYTES = 640 * 2**20
_GRACE_SECONDS = 2
_HEADER = struct.Struct("!II")
# What one message may have, of JSON and of bytes.
MOST_JSON = 32 * 2**20
_MOST_BYTES = 128 * 2**20
_LONGEST_TRACE = 5_000


class Closed(Exception):  # noqa: N818 - it is an end, and no error.
    """The other side says nothing more."""


class Channel:
    """Messages to and from a reader: JSON values, some with bytes behind them."""

    def __init__(self, connection: socket.socket) -> None:
        """Talk over *connection*."""
        self._connection = connection
        self._incoming = connection.makefile("rb", buffering=2**20)

    def send(self, value: Any, content: bytes = b"") -> None:
        """Send *value*."""
        self.send_json(dump(value), content)

    def send_json(self, text: bytes, content: bytes = b"") -> None:
        """Send a value that was dumped."""
        self._connection.sendall(_HEADER.pack(len(text), len(content)) + text)
        if content:
            self._connection.sendall(content)

    def receive(
        self, hook: Callable[[dict[str, Any]], Any] | None = None
    ) -> tuple[Any, bytes]:
        """Return the next message; raises Closed after the last, and ValueError."""
        size, more = _HEADER.unpack(self._read(_HEADER.size))
        if size > MOST_JSON or more > _MOST_BYTES:
            raise ValueError("the message is too long")
        text = self._read(size).decode("utf-8", "surrogatepass")
        return json.loads(text, object_hook=hook), self._read(more)

    def _read(self, size: int) -> bytes:
        content: bytes = self._incoming.read(size)
        if len(content) < size:
            raise Closed
        return content

    def close(self) -> None:
        """Say nothing more."""
        self._incoming.close()
        self._connection.close()


def dump(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return *value* as the JSON of a message; half of a surrogate pair is kept."""
    text = json.dumps(value, ensure_ascii=False, default=default)
    return text.encode("utf-8", "surrogatepass")


class SharedFile(io.RawIOBase):
    """A file that another process has open too, and reads from where it likes."""

    def __init__(self, number: int) -> None:
        """Begin at the start of the file *number*."""
        super().__init__()
        self._number = number
        self._place = 0
        self._size = os.fstat(number).st_size
        # How far it was read.
        self.furthest = 0

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def seekable(self) -> bool:
        """Say that it can be read from any place on."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go on at another place."""
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}
        self._place = max(0, starts[whence] + offset)
        return self._place

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes."""
        content = os.pread(self._number, len(buffer), self._place)
        buffer[: len(content)] = content
        self._place += len(content)
        self.furthest = max(self.furthest, self._place)
        return len(content)


class _TimeError(Exception):
    """The processor time is used up."""


def main() -> None:
    """Copy this process for each task that is sent, until nobody sends any more."""
    control = socket.socket(fileno=0)
    alive: set[int] = set()
    importlib.import_module(_JOBS["rows"])
    # A reader ends before what it no longer needs is worth looking for.
    gc.disable()
    while True:
        message, files, _, _ = socket.recv_fds(control, 2**20, 8)
        if not message:
            break
        said = json.loads(message)
        if "start" in said:
            task = said["start"]
            # Before it is copied: the next reader has it loaded then.
            importlib.import_module(_JOBS[task["job"]]).prepare(**task["arguments"])
            pid = os.fork()
            if pid == 0:
                control.close()
                _do(task, files)
            alive.add(pid)
            answer: dict[str, Any] = {"pid": pid}
            for number in files:
                os.close(number)
        elif said["end"] in alive:
            alive.discard(said["end"])
            answer = _end(said["end"], kills=said["kills"])
        else:
            answer = {}
        control.sendall(json.dumps(answer).encode() + b"\n")
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


def _end(pid: int, *, kills: bool) -> dict[str, Any]:
    """Wait for a copy, which may be about to end by itself, and say what it took."""
    until = time.monotonic() + (0 if kills else _GRACE_SECONDS)
    while True:
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            break
        if time.monotonic() >= until:
            os.kill(pid, signal.SIGKILL)
            _, status, used = os.wait4(pid, 0)
            break
        time.sleep(0.01)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "memory": used.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        "seconds": used.ru_utime + used.ru_stime,
    }


def _do(task: dict[str, Any], files: Sequence[int]) -> None:
    """Do *task* and end; nothing is done behind this."""
    try:
        _limit(task["seconds"], task["arguments"].get("most_unpacked", 0))
        # What a library says at its end is about its input.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - it is no path of ours.
            os.dup2(nowhere.fileno(), 2)
        channel = Channel(socket.socket(fileno=files[0]))
        with suppress(OSError):
            _answer(task, channel, [SharedFile(number) for number in files[1:]])
            channel.close()
    finally:
        os._exit(0)


def _answer(task: dict[str, Any], channel: Channel, files: list[SharedFile]) -> None:
    module = importlib.import_module(_JOBS[task["job"]])
    try:
        module.work(channel, *files, **task["arguments"])
        return
    except InvalidInputError as error:
        refused = [(one.field, one.message) for one in error.errors]
        is_too_large = isinstance(error, TooLargeError)
    except MemoryError:
        most = _MEMORY_BYTES // 2**20
        refused = [("file", f"reading it takes more than {most:,} MiB of memory")]
        is_too_large = False
    except _TimeError:
        refused = [("file", "reading it takes too much processor time")]
        is_too_large = False
    except BaseException as error:
        if isinstance(error, ConnectionError):
            raise
        trace = traceback.format_exc()[-_LONGEST_TRACE:]
        channel.send({"failed": type(error).__name__, "trace": trace})
        return
    channel.send({"refused": refused, "is_too_large": is_too_large})


def _limit(seconds: int, file_bytes: int) -> None:
    """Let the system end this process where it takes too much."""
    # A system that lacks one of them, or has a narrower one, keeps the others.
    for kind, soft, hard in (
        (resource.RLIMIT_DATA, _MEMORY_BYTES, _MEMORY_BYTES),
        (resource.RLIMIT_CPU, seconds, seconds + _GRACE_SECONDS),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard))
    signal.signal(signal.SIGXCPU, _stop)
    # Where memory runs out all the same, this process goes first.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")


def _stop(*_: Any) -> None:
    raise _TimeError
