"""Reading a spool from its cursor on, in windows that are sent and then forgotten."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NamedTuple

from tracker_client.locks import lock
from tracker_client.rows import LABEL, SEPARATOR
from tracker_client.spool import segment_numbers, segment_path

WINDOW_ROWS = 1_000
WINDOW_BYTES = 4 * 2**20
# The cursor is overwritten in its place, which needs no room on a full disk.
_CURSOR_BYTES = 256
_READ_ONLY = os.O_RDONLY | getattr(os, "O_BINARY", 0)


@dataclass
class Cursor:
    """How far a spool has been sent."""

    segment: int = 0
    offset: int = 0
    # Where the window ends that is under way: after a crash the same is sent again.
    end: int = 0
    sent: int = 0
    refused: int = 0
    refused_bytes: int = 0
    # How many rounds of that window are through.
    rounds: int = 0


def cursor_path(folder: Path) -> Path:
    """Return where the cursor of a spool lies."""
    return folder / "cursor"


def read_cursor(folder: Path) -> Cursor:
    """Return the cursor of the spool in *folder*; a new one where there is none."""
    try:
        stored = json.loads(cursor_path(folder).read_bytes())
        stored.setdefault("rounds", 0)
        return Cursor(**{one.name: int(stored[one.name]) for one in fields(Cursor)})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Cursor()


def write_cursor(folder: Path, cursor: Cursor) -> None:
    """Overwrite the cursor, in one system call."""
    line = json.dumps(asdict(cursor)).encode().ljust(_CURSOR_BYTES - 1) + b"\n"
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_BINARY", 0)
    handle = os.open(cursor_path(folder), flags, 0o600)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


class Record(NamedTuple):
    """One record, its parts as they stand in the spool."""

    kind: bytes
    detector: bytes
    key: bytes
    row: bytes
    image: bytes | None


class Window(NamedTuple):
    """Records that are sent together, and where the next ones begin.

    None of them has a key that an earlier one gave a label: sending them all again
    then changes nothing, even when the server no longer knows the request.  A part of
    the spool that labels a key again is sent in rounds, each a window that ends where
    it begins but for the last.
    """

    name: str
    end: int
    records: list[Record]
    has_more: bool


def parse(part: bytes) -> Record | None:
    """Return what stands between two separators; None if it is not a whole record."""
    if not part.endswith(b"\n"):
        return None
    pieces = part[:-1].split(b"\t")
    if len(pieces) not in {4, 5}:
        return None
    image = pieces[4] if len(pieces) == 5 else None
    return Record(pieces[0], pieces[1], pieces[2], pieces[3], image)


def collect(
    parts: list[bytes], *, all_of_them: bool = False, may_repeat: bool = False
) -> tuple[list[Record], int]:
    """Return the records of the first *parts*, and how many bytes these take.

    Unless they *may_repeat* none has a key that an earlier one labelled.
    """
    records: list[Record] = []
    labelled: set[tuple[bytes, bytes]] = set()
    used = 0
    for part in parts:
        found = parse(part)
        if found is not None:
            what = (found.detector, found.key)
            is_repeat = not may_repeat and is_label(found) and what in labelled
            if not all_of_them and (len(records) == WINDOW_ROWS or is_repeat):
                break
            if is_label(found):
                labelled.add(what)
            records.append(found)
        used += len(part) + 1
        if not all_of_them and used >= WINDOW_BYTES:
            break
    return records, used


def is_label(record: Record) -> bool:
    """Return whether a record labels its key."""
    return record.kind == LABEL or b'"label":' in record.row


def split_rounds(records: list[Record]) -> list[list[Record]]:
    """Return *records* in rounds, of which none labels a key twice.

    What is said of one key keeps its order.  A key that is labelled five times in a
    row then takes five requests, and not all keys around it too.
    """
    rounds: list[list[Record]] = []
    places: dict[tuple[bytes, bytes], tuple[int, bool]] = {}
    for record in records:
        what = (record.detector, record.key)
        place, is_labelled = places.get(what, (0, False))
        if is_label(record):
            place, is_labelled = place + is_labelled, True
        places[what] = place, is_labelled
        if place == len(rounds):
            rounds.append([])
        rounds[place].append(record)
    return rounds


class Reader:
    """The windows of a spool, one after the other, for the one process that sends."""

    def __init__(self, folder: Path) -> None:
        """Begin where the last sender ended."""
        self.folder = folder
        self.cursor = read_cursor(folder)

    def next_window(self) -> Window | None:
        """Return the next window, None if all is sent; an interrupted one comes again.

        Raises OSError where the folder cannot be read.
        """
        cursor = self.cursor
        numbers = segment_numbers(self.folder)
        if not numbers:
            return None
        if cursor.segment not in numbers:
            cursor.segment, cursor.offset, cursor.end = numbers[0], 0, 0
            self.save()
        window = self._read()
        if window is None and cursor.segment < numbers[-1] and self._is_closed():
            # Between the last look and the lock somebody may have appended.
            window = self._read()
            if window is None:
                self._move_on(numbers)
                return self.next_window()
        return window

    def _read(self) -> Window | None:
        cursor = self.cursor
        handle = os.open(segment_path(self.folder, cursor.segment), _READ_ONLY)
        try:
            os.lseek(handle, cursor.offset, os.SEEK_SET)
            if cursor.end > cursor.offset:
                content = _read_all(handle, cursor.end - cursor.offset)
                whole = content
            else:
                content = whole = b""
                size = WINDOW_BYTES
                while not whole:
                    more = _read_all(handle, size)
                    content += more
                    whole = content[: content.rfind(b"\n") + 1]
                    if len(more) < size:
                        break
                    size = len(content)
        finally:
            os.close(handle)
        if not whole:
            return None
        is_known = cursor.end > cursor.offset
        # The first part ends where the first record begins, and is empty.
        parts = whole.split(SEPARATOR)
        records, used = collect(parts[1:], all_of_them=is_known, may_repeat=True)
        start = cursor.offset
        end = start + len(parts[0]) + used
        if not is_known:
            cursor.end, cursor.rounds = end, 0
            self.save()
        rounds = split_rounds(records)
        done, name = cursor.rounds, f"{cursor.segment}-{start}"
        has_round = done + 1 < len(rounds)
        return Window(
            f"{name}-{done}" if done else name,
            start if has_round else end,
            rounds[done] if rounds else [],
            has_round or len(parts[0]) + used < len(whole),
        )

    def _is_closed(self) -> bool:
        """Whether nobody appends to the segment any more."""
        handle = os.open(segment_path(self.folder, self.cursor.segment), _READ_ONLY)
        try:
            return lock(handle)
        finally:
            os.close(handle)

    def _move_on(self, numbers: list[int]) -> None:
        cursor = self.cursor
        cursor.segment = next(n for n in numbers if n > cursor.segment)
        cursor.offset = cursor.end = 0
        self.save()
        for number in numbers:
            if number < cursor.segment:
                with suppress(OSError):
                    segment_path(self.folder, number).unlink()

    def advance(self, window: Window) -> None:
        """Forget *window*: each of its records was taken or refused for good."""
        if window.end == self.cursor.offset:
            self.cursor.rounds += 1
        else:
            self.cursor.offset, self.cursor.end, self.cursor.rounds = window.end, 0, 0
        self.save()

    def save(self) -> None:
        """Write the cursor; a disk that is full keeps the old one, which is safe."""
        with suppress(OSError):
            write_cursor(self.folder, self.cursor)


def _read_all(handle: int, size: int) -> bytes:
    content = b""
    while len(content) < size:
        more = os.read(handle, size - len(content))
        if not more:
            break
        content += more
    return content
