"""The process that reads files from outside; see readers.py.

It loads neither the database nor the settings, and must have one thread, because it
forks.
"""

import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from tracker.errors import InvalidInputError, TooLargeError
from tracker.services.sandbox.channel import (
    GRACE_SECONDS,
    Channel,
    SharedFile,
    allow_time,
)

# The module of each job, loaded before the process forks.
_JOBS = {
    "rows": "tracker.services.imports.reading.kinds",
    "images": "tracker.services.sandbox.archives",
}
# Memory that a reader may write to, without code and shared memory.
_MEMORY_BYTES = 640 * 2**20
# Processor time of a file in all; what it may take at a time is less.
_MOST_SECONDS = 600
_LONGEST_TRACE = 5_000


class _TimeError(Exception):
    """The processor time is used up."""


def main() -> None:
    """Fork this process for each task, until the socket is closed."""
    control = socket.socket(fileno=0)
    alive: set[int] = set()
    importlib.import_module(_JOBS["rows"])
    # A reader ends before collecting garbage would pay.
    gc.disable()
    while True:
        message, files, _, _ = socket.recv_fds(control, 2**20, 8)
        if not message:
            break
        said = json.loads(message)
        if "start" in said:
            task = said["start"]
            # Before the fork, so that later readers have it loaded too.
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
    until = time.monotonic() + (0 if kills else GRACE_SECONDS)
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
    try:
        _limit(task["seconds"], task["arguments"].get("most_unpacked", 0))
        # Libraries may print a part of their input as they fail.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a device.
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
    """Let the system end this process if it takes too much.

    The *seconds* are those until its first answer.
    """
    most = max(seconds, _MOST_SECONDS)
    # A system that lacks one limit, or has a lower one, still gets the others.
    for kind, soft, hard in (
        (resource.RLIMIT_DATA, _MEMORY_BYTES, _MEMORY_BYTES),
        (resource.RLIMIT_CPU, most, most + GRACE_SECONDS),
        (resource.RLIMIT_FSIZE, file_bytes, file_bytes),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, hard))
    for one in (signal.SIGVTALRM, signal.SIGXCPU):
        signal.signal(one, _stop)
    allow_time(seconds)
    # If memory runs out, the system kills this process first.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123
        file.write("1000")


def _stop(*_: Any) -> None:
    raise _TimeError
