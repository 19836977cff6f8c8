"""Where the bytes of images are kept: files named by what they hold."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


class ImageStore:
    """A folder of images, each named by the hash of its bytes.

    A name is made here and never comes from a client.  A file is on the disk
    before the transaction that names it commits, so that no query ever points at
    nothing; a rolled-back transaction leaves a file that nobody points at.
    """

    def __init__(self, folder: Path) -> None:
        """Keep images in *folder*, which is made when the first one arrives."""
        self._folder = folder

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content* and return its name."""
        name = f"{hashlib.sha256(content).hexdigest()}.{suffix}"
        path = self._path(name)
        if path.exists():
            return name
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
            sync_folder(path.parent)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of the image *name*; raises FileNotFoundError."""
        return self._path(name).read_bytes()

    def has(self, name: str) -> bool:
        """Whether the image *name* is there."""
        return self._path(name).is_file()

    def iter_names(self) -> Iterator[str]:
        """Yield the name of every file, whether or not a query points at it."""
        return (path.name for path in self._folder.rglob("*") if path.is_file())

    def _path(self, name: str) -> Path:
        return self._folder / name[:2] / name


def sync_folder(folder: Path) -> None:
    """Wait until the names in *folder* are on the disk."""
    # The new name is on the disk only once its folder is.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
