"""Appending records to a folder that the processes of a machine share.

Records go to the end of the newest *segment*, a file opened with O_APPEND, and so all
processes together write one sequence: what one appended before another began stands
before it.  An append is one system call; what it took survives the process.  Each who
appends shares a lock on its segment, so that nobody deletes one that may still grow.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from tracker_client.locks import lock
from tracker_client.rows import SEPARATOR

log = logging.getLogger("tracker_client")

SEGMENT_BYTES = 8 * 2**20
# What waits in memory while the disk takes nothing.
WAITING_BYTES = 64 * 2**20
_CLOSING = SEPARATOR + b"\n"
# Without O_BINARY Windows would write two bytes for a line feed.
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)


def segment_numbers(folder: Path) -> list[int]:
    """Return the numbers of the segments that are there, in order."""
    return sorted(int(path.stem) for path in folder.glob("*.spool"))


def segment_path(folder: Path, number: int) -> Path:
    """Return where a segment lies."""
    return folder / f"{number:012}.spool"


class Spool:
    """The end of the sequence, to which this process appends."""

    def __init__(
        self, folder: Path, *, max_bytes: int, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Append in *folder*, which is made, until it holds *max_bytes*."""
        self.folder = folder
        self.dropped = 0
        # Appended by this process, but not on the disk: it is full, or cannot be used.
        self.waiting: deque[bytes] = deque()
        # The thread sends those that wait from memory, and the disk is too late.
        self.is_sent_from_memory = False
        self._waiting_bytes = 0
        self._max_bytes = max_bytes
        self._segment_bytes = min(segment_bytes, max(max_bytes // 8, 1))
        self._is_full = False
        self._number = 0
        self._handle = -1
        # How many bytes of a part of a record stand at the end, if this process left
        # them there: they are sent by nobody.
        self._torn = 0
        # A signal's handler may append while an append is under way.
        self.lock = threading.RLock()

    def append(self, content: bytes) -> None:
        """Keep whole records; never raises, never waits for anybody."""
        with self.lock:
            if self.waiting or self._is_full or not self._write(content):
                self._keep(content)

    def _keep(self, content: bytes) -> None:
        if self._is_full or self._waiting_bytes + len(content) > WAITING_BYTES:
            if not self.dropped:
                log.error("the spool in %s is full: rows are dropped", self.folder)
            self.dropped += content.count(SEPARATOR)
            return
        self.waiting.append(content)
        self._waiting_bytes += len(content)

    def _write(self, content: bytes) -> bool:
        try:
            if self._handle < 0:
                self._open()
            written = os.write(self._handle, content)
        except OSError:
            return False
        # A part that was written lacks its line feed and is passed by.
        is_whole = written == len(content)
        self._torn = 0 if is_whole else self._torn + written
        return is_whole

    def _open(self) -> None:
        """Open the newest segment, or the next one where that has grown enough."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            number = max(self._newest(), 1)
            path = segment_path(self.folder, number)
            with suppress(FileNotFoundError):
                if path.stat().st_size >= self._segment_bytes:
                    number += 1
            handle = os.open(segment_path(self.folder, number), _FLAGS, 0o600)
            if lock(handle, shared=True) and number >= self._newest():
                break
            # Somebody has just closed this segment.
            os.close(handle)
        if os.lseek(handle, 0, os.SEEK_END):
            os.lseek(handle, -1, os.SEEK_END)
            if os.read(handle, 1) != b"\n":
                # Somebody found no room for a whole record, and ended.
                os.write(handle, _CLOSING)
        self._close_segment()
        self._handle, self._number = handle, number

    def _newest(self) -> int:
        return max(segment_numbers(self.folder), default=0)

    def _close_segment(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle, self._number, self._torn = -1, 0, 0

    def tend(self) -> None:
        """Do what an append must not wait for; called again and again by the thread."""
        try:
            used = sum(path.stat().st_size for path in self.folder.glob("*.spool"))
        except OSError:
            return
        self._is_full = used >= self._max_bytes
        with self.lock:
            if self._handle >= 0 and (
                os.fstat(self._handle).st_size >= self._segment_bytes
                or self._number < self._newest()
            ):
                with suppress(OSError):
                    self._open()
            if self._is_full or self.is_sent_from_memory:
                return
            while self.waiting and self._write(self.waiting[0]):
                self.take_waiting(len(self.waiting[0]))

    def take_waiting(self, size: int) -> None:
        """Forget the first *size* bytes that wait: the disk or the server has them."""
        with self.lock:
            self._waiting_bytes -= size
            while size > 0:
                first = self.waiting.popleft()
                if len(first) > size:
                    self.waiting.appendleft(first[size:])
                size -= len(first)

    def end(self) -> tuple[int, int]:
        """Return segment and offset behind the last record of this process."""
        with self.lock:
            if self._handle < 0:
                with suppress(OSError):
                    self._open()
            if self._handle < 0:
                return 0, 0
            place = os.lseek(self._handle, 0, os.SEEK_CUR)
            return self._number, place - self._torn

    def close(self) -> None:
        """Let the segment go; the next append opens it again."""
        with self.lock:
            self._close_segment()

    def forget(self) -> None:
        """In a child of a fork: leave to the parent what is the parent's."""
        self.lock = threading.RLock()
        self.waiting = deque()
        self.is_sent_from_memory = False
        self._waiting_bytes = 0
        self._close_segment()
