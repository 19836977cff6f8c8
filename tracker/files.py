"""The folders that are shipped with the code but are not code, and parts of a file."""

import gzip
import io
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

_PACKAGE = Path(__file__).parent


def shipped_folder(name: str) -> Path:
    """Return the folder *name*: ``templates``, ``static`` or ``migrations``.

    In a checkout it stands beside the package, in a wheel inside of it.  The
    checkout goes first: an editable installation may have left a stale copy.
    """
    beside = _PACKAGE.parent / name
    if (_PACKAGE.parent / "pyproject.toml").is_file() and beside.is_dir():
        return beside
    return _PACKAGE / name


@lru_cache(maxsize=64)
def zipped(content: bytes) -> bytes:
    """Return *content* as gzip; of the few files that we have, each is made once."""
    return gzip.compress(content, 6, mtime=0)


class PlacedFile(io.RawIOBase):
    """A file that keeps its own place in what others read from too."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._place = size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        starts = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}
        self._place = max(0, starts[whence] + offset)
        return self._place


class _Part(PlacedFile):
    """A file of its own that lies at the end of another, until the next part begins."""

    def __init__(self, whole: IO[bytes]) -> None:
        super().__init__(0)
        self._whole = whole
        self._start = whole.seek(0, io.SEEK_END)

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes."""
        left = max(0, min(len(buffer), self._size - self._place))
        self._whole.seek(self._start + self._place)
        found = self._whole.read(left)
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def write(self, content: Any, /) -> int:
        """Write the next bytes."""
        self._whole.seek(self._start + self._place)
        written = self._whole.write(content)
        self._place += written
        self._size = max(self._size, self._place)
        return written


class Parts:
    """Files that lie on the disk one behind the other.

    Hundreds of files of a request then take one handle, and no memory.
    """

    def __init__(self) -> None:
        self._whole = tempfile.TemporaryFile()  # noqa: SIM115 - see close.
        self._opened: list[IO[bytes]] = []

    def add(self) -> IO[bytes]:
        part = io.BufferedRandom(_Part(self._whole))
        self._opened.append(part)
        return part

    def close(self) -> None:
        """Delete them all, whether or not they were written to their end."""
        for part in self._opened:
            part.close()
        self._whole.close()
