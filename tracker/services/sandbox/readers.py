"""Reads files from outside in processes that may die of them.

A *starter* is a fresh interpreter with one thread, started once by each process that
reads files; a *reader* is its fork, made for one file.  The system limits a reader's
memory, processor time and disk.  A reader has no database, no settings and no key: it
gets open files, and answers with JSON.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from shutil import copyfileobj
from typing import Any, BinaryIO, cast

import structlog

from tracker.errors import FieldError, InvalidInputError, TooLargeError, TooManyError
from tracker.services.sandbox.channel import Channel, Closed

log = structlog.get_logger("tracker.reader")

# Files read at once by one process; each reader may take much memory.
_MOST_READERS = 4
_SECONDS = 10
_BYTES = 64 * 2**20
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from tracker.services.sandbox.process import main; main()"
)
# Without the settings, which hold secrets.
_ENVIRON = {
    # Arrow's own pools would reserve memory against the limit.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Reader(Channel):
    """A process that reads one file; see ``reading``."""

    def __init__(
        self, connection: socket.socket, starter: "_Starter", pid: int
    ) -> None:
        super().__init__(connection)
        self._starter = starter
        self.pid = pid
        self.field = "file"
        # Its exit status and resources, once it has ended.
        self.ended: dict[str, Any] = {}

    def ask(self, value: Any, content: bytes = b"") -> tuple[Any, bytes]:
        """Send *value* and return the answer; raises as ``answer``."""
        try:
            self.send(value, content)
        except OSError:
            raise self._died() from None
        return self.answer()

    def answer(
        self, hook: Callable[[dict[str, Any]], Any] | None = None
    ) -> tuple[Any, bytes]:
        """Return the next answer of the process.

        Raises InvalidInputError if it refuses the file or has died of it.
        """
        try:
            value, content = self.receive(hook)
        except (Closed, OSError, ValueError, RecursionError):
            raise self._died() from None
        match value:
            case {"refused": refused, "is_too_large": is_too_large}:
                kind = TooLargeError if is_too_large else InvalidInputError
                raise kind([FieldError(str(a), str(b)) for a, b in refused])
            case {"failed": name, "trace": trace}:
                log.error("a file could not be read", error=name, trace=trace)
                raise InvalidInputError.of(
                    self.field, f"it cannot be read ({name}); the log says more"
                )
        return value, content

    def end(self) -> None:
        self.close()
        self.ended |= self._starter.end(self.pid, kills=True)

    def _died(self) -> InvalidInputError:
        self.ended |= self._starter.end(self.pid, kills=False)
        log.warning("a reader died of its file", **self.ended)
        return InvalidInputError.of(
            self.field,
            "reading it took too much memory or processor time, or crashed the reader; "
            "nothing was imported",
        )


class _Starter:
    """A process that forks for each file."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._lock = threading.RLock()
        self._is_asking = False
        self._left: list[int] = []
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own code.
                [sys.executable, "-I", "-S", "-c", _START, json.dumps(sys.path)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=_ENVIRON | {"TMPDIR": tempfile.gettempdir()},
                # Ctrl-C is for this process, not for the starter.
                start_new_session=True,
            )
        self._answers = self._control.makefile("rb")

    def start(self, task: dict[str, Any], files: Sequence[int]) -> Reader:
        """Fork the process for *task*; raises OSError if it is gone."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                pid = self._ask({"start": task}, [theirs.fileno(), *files])["pid"]
            except OSError:
                ours.close()
                raise
        return Reader(ours, self, pid)

    def end(self, pid: int, *, kills: bool) -> dict[str, Any]:
        with suppress(OSError):
            return self._ask({"end": pid, "kills": kills})
        return {}

    def close(self) -> None:
        self._answers.close()
        self._control.close()
        self._process.wait()

    def _ask(
        self, message: dict[str, Any], files: Sequence[int] = ()
    ) -> dict[str, Any]:
        with self._lock:
            if self._is_asking:
                # The garbage collector may end a reader during another request.
                self._left.append(message["end"])
                return {}
            self._is_asking = True
            try:
                answer = self._ask_once(message, files)
                while self._left:
                    self._ask_once({"end": self._left.pop(), "kills": True}, ())
            finally:
                self._is_asking = False
        return answer

    def _ask_once(
        self, message: dict[str, Any], files: Sequence[int]
    ) -> dict[str, Any]:
        socket.send_fds(self._control, [json.dumps(message).encode()], list(files))
        line = self._answers.readline()
        if not line:
            raise ConnectionError("the process that starts readers has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


_lock = threading.Lock()
_places = threading.BoundedSemaphore(_MOST_READERS)
_starters: list[_Starter] = []


def warm_up() -> None:
    _find_starter()


def _find_starter(gone: _Starter | None = None) -> _Starter:
    with _lock:
        # After a fork this process has the starters of its parent.
        usable = [
            one for one in _starters if one.owner == os.getpid() and one is not gone
        ]
        if not usable:
            if not _starters:
                atexit.register(_close)
            elif gone in _starters:
                gone.close()
            usable = [_Starter()]
        _starters[:] = usable
        return usable[0]


def _close() -> None:
    for one in _starters:
        if one.owner == os.getpid():
            one.close()
    _starters.clear()


@contextmanager
def reading(
    job: str, *streams: BinaryIO, seconds: int | None = None, **arguments: Any
) -> Iterator[Reader]:
    """Start a process that does *job* with *streams*, and end it with the block.

    It has *seconds* of processor time until its first answer, by default 10 for each
    64 MiB; what it may take for the next ones, it says itself.  Raises TooManyError if
    this process already reads as many files as it may.
    """
    if not _places.acquire(blocking=False):
        raise TooManyError(f"{_MOST_READERS} files are being read; try again")
    try:
        with ExitStack() as stack:
            files = [stack.enter_context(_file(stream)) for stream in streams]
            sizes = sum(os.fstat(file).st_size for file in files)
            task = {
                "job": job,
                "arguments": arguments,
                "seconds": seconds or _SECONDS * (1 + sizes // _BYTES),
            }
            starter = _find_starter()
            try:
                reader = starter.start(task, files)
            except OSError:
                reader = _find_starter(gone=starter).start(task, files)
            try:
                yield reader
            finally:
                reader.end()
    finally:
        _places.release()


@contextmanager
def _file(stream: BinaryIO) -> Iterator[int]:
    """Yield the number of an open file with the content of *stream*."""
    try:
        number = stream.fileno()
        if not stream.readable():
            raise OSError
        if stream.writable():
            stream.flush()
    except OSError:
        with tempfile.TemporaryFile() as spool:
            stream.seek(0)
            copyfileobj(stream, cast("BinaryIO", spool), 2**20)
            spool.flush()
            yield spool.fileno()
        return
    yield number
