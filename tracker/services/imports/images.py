"""Images beside a file of rows: looked up by the names in it, never by a path.

What a row says is looked for among the names of a folder or an archive that were
listed before; nothing is opened because a row names it.
"""

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from tracker.errors import InvalidInputError
from tracker.services.images import MAX_BYTES, clean_image
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import IMAGE
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageStore

_NONE_NAMED = (
    "no column names the image of each row; call that column image, or choose it, as "
    "in map image=COLUMN"
)
_PIECE = 2**20
_MISSING = "there is no image with this name beside the file"


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Images by name, each opened only while it is read."""

    openers: Mapping[str, Callable[[], BinaryIO]]
    # The archive that holds them, where they came in one.
    archive: BinaryIO | None = None
    # By the last part of the name, where only one has it.
    _by_end: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Note which last parts of names tell an image."""
        twice = set()
        for name in self.openers:
            end = _end_of(name)
            if self._by_end.setdefault(end, name) != name:
                twice.add(end)
        for end in twice:
            del self._by_end[end]

    def find(self, said: str) -> str | None:
        """Return the name that a row means: as it says, else the only one so ended."""
        name = said.strip().replace("\\", "/").removeprefix("./")
        return name if name in self.openers else self._by_end.get(_end_of(name))

    @property
    def size(self) -> int:
        """How many bytes they have, packed as they came."""
        if self.archive is not None:
            return self.archive.seek(0, io.SEEK_END)
        total = 0
        for opener in self.openers.values():
            with opener() as opened:
                total += opened.seek(0, io.SEEK_END)
        return total

    @property
    def sha256(self) -> str:
        """A hash of all names and images."""
        digest = hashlib.sha256()
        if self.archive is not None:
            self.archive.seek(0)
            while piece := self.archive.read(_PIECE):
                digest.update(piece)
            return digest.hexdigest()
        for name in self.openers:
            digest.update(f"{name}\0".encode() + self.read(name))
        return digest.hexdigest()

    @contextmanager
    def packed(self) -> Iterator[BinaryIO]:
        """Give all of them as one zip file."""
        if self.archive is not None:
            yield self.archive
            return
        with tempfile.TemporaryFile() as whole:
            with zipfile.ZipFile(whole, "w") as archive:
                for name in self.openers:
                    archive.writestr(zipfile.ZipInfo(name), self.read(name))
            yield cast("BinaryIO", whole)

    def read(self, name: str) -> bytes:
        """Return the bytes of an image, and of a larger file the first of them.

        Raises InvalidInputError where they cannot be read.
        """
        try:
            with self.openers[name]() as opened:
                return opened.read(MAX_BYTES + 1)
        except (
            OSError,
            EOFError,
            RuntimeError,
            zipfile.BadZipFile,
            zlib.error,
        ) as error:
            raise InvalidInputError.of(IMAGE, f"it cannot be read: {error}") from error


def _end_of(name: str) -> str:
    return name.rpartition("/")[2]


@contextmanager
def open_images(path: Path) -> Iterator[ImageFiles]:
    """Open the images in a folder, and in those below it, or in a zip file."""
    if path.is_dir():
        yield ImageFiles({name: _opener(found) for name, found in _walk(path)})
        return
    with path.open("rb") as stream:
        yield open_zip(stream)


def _walk(root: Path) -> Iterator[tuple[str, Path]]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder) / name
            # A link could lead out of the folder.
            if not path.is_symlink():
                yield path.relative_to(root).as_posix(), path


def _opener(path: Path) -> Callable[[], BinaryIO]:
    return lambda: path.open("rb")


def open_zip(stream: BinaryIO) -> ImageFiles:
    """Return the images in a zip file; raises InvalidInputError for what is none."""
    try:
        archive = zipfile.ZipFile(stream)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise InvalidInputError.of(
            "images", f"it is not a zip file: {error}"
        ) from error

    def opener(entry: zipfile.ZipInfo) -> Callable[[], BinaryIO]:
        return lambda: archive.open(entry)  # type: ignore[return-value]

    entries = (entry for entry in archive.infolist() if not entry.is_dir())
    return ImageFiles({entry.filename: opener(entry) for entry in entries}, stream)


def gather_images(sent: Iterable[tuple[str, BinaryIO]]) -> ImageFiles | None:
    """Return the images that were sent, each as a file or all as one zip file."""
    given = list(sent)
    if len(given) == 1 and zipfile.is_zipfile(given[0][1]):
        given[0][1].seek(0)
        return open_zip(given[0][1])

    def opener(stream: BinaryIO) -> Callable[[], BinaryIO]:
        def reopened() -> BinaryIO:
            stream.seek(0)
            return io.BytesIO(stream.read(MAX_BYTES + 1))

        return reopened

    found = {name.replace("\\", "/"): opener(stream) for name, stream in given if name}
    return ImageFiles(found) if found else None


def store_images(
    file: RowFile,
    detector: Detector,
    images: ImageFiles,
    store: ImageStore,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> RowFile:
    """Return *file* with the images that its rows name in the *store*.

    They are written before any transaction begins; those of an import that is refused
    belong to no query.  What is wrong with an image is said of its rows.  Raises
    InvalidInputError if no column names images.
    """
    names = _list_named(file, detector)
    stored: dict[str, str] = {}
    wrong: dict[str, str] = {}
    for number, said in enumerate(names, start=1):
        found = images.find(said)
        try:
            if found is None:
                raise InvalidInputError.of(IMAGE, _MISSING)
            image = clean_image(images.read(found))
            stored[said] = store.put(image.content, image.suffix)
        except InvalidInputError as error:
            wrong[said] = error.errors[0].message
        if on_progress is not None:
            on_progress(number, len(names))
    changed = {"images": stored, "wrong_images": wrong}
    return file.read_by(file.choices.model_copy(update=changed))


def _list_named(file: RowFile, detector: Detector) -> list[str]:
    """Return what the rows call their images, each once."""
    plain = file.read_by(file.choices.model_copy(update={"images": {}}))
    rows = plain.rows(detector)
    names: dict[str, None] = {}
    for piece in rows.pieces():
        for value in piece.said(IMAGE):
            with suppress(TypeError):
                names[str(value)] = None
    if IMAGE not in rows.plan.fields:
        raise InvalidInputError.of("images", _NONE_NAMED)
    return list(names)
