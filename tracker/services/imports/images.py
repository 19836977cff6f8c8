"""Images beside a file of rows: looked up by the names in it, never by a path.

What a row says is looked for among the names of a folder or an archive that were
listed before; nothing is opened because a row names it.
"""

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracker.errors import InvalidInputError
from tracker.services.detectors import get_open_detector
from tracker.services.images import MAX_BYTES, CleanImage
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import IMAGE
from tracker.services.imports.writing import Order
from tracker.services.sandbox.archives import Names, read_image
from tracker.services.sandbox.readers import reading
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.images import ImageStore

_NONE_NAMED = (
    "no column names the image of each row; call that column image, or choose it, as "
    "in map image=COLUMN"
)
# Of processor time, and as much again for each 64 MiB of images.
_SECONDS = 60
_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Images by name, each opened only while it is read, or the archive of all."""

    openers: Mapping[str, Callable[[], BinaryIO]]
    # It is looked into by a process of its own.
    archive: BinaryIO | None = None

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
        if self.archive is not None:
            self.archive.seek(0)
            found = hashlib.file_digest(self.archive, "sha256")  # type: ignore[arg-type]
            return found.hexdigest()
        digest = hashlib.sha256()
        for name in self.openers:
            digest.update(f"{name}\0".encode() + read_image(self.openers[name]))
        return digest.hexdigest()

    @contextmanager
    def packed(self) -> Iterator[BinaryIO]:
        if self.archive is not None:
            yield self.archive
            return
        with tempfile.TemporaryFile() as whole:
            with zipfile.ZipFile(whole, "w") as archive:
                for name in self.openers:
                    archive.writestr(
                        zipfile.ZipInfo(name), read_image(self.openers[name])
                    )
            yield cast("BinaryIO", whole)

    @contextmanager
    def cleaned(self) -> Iterator[Callable[[str], CleanImage]]:
        """Give what returns the image that a row names, decoded and encoded again.

        It raises InvalidInputError of the field image for what is wrong with one, and
        of the field images for what is wrong with all of them.
        """
        names = Names(self.openers)
        archives = [] if self.archive is None else [self.archive]
        seconds = _SECONDS * (1 + self.size // _BYTES)
        with reading("images", *archives, seconds=seconds) as reader:
            reader.field = "images"
            reader.answer()

            def clean(said: str) -> CleanImage:
                content = b"" if self.archive is not None else names.read(said)
                answer, cleaned = reader.ask({"name": said}, content)
                if "wrong" in answer:
                    raise InvalidInputError.of(IMAGE, answer["wrong"])
                return CleanImage(cleaned, answer["suffix"])

            yield clean


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


@contextmanager
def open_images(path: Path) -> Iterator[ImageFiles]:
    """Open the images in a folder, and in those below it, or in a zip file."""
    if path.is_dir():
        yield ImageFiles(
            {
                found.relative_to(path).as_posix(): partial(_open, found)
                for folder, _, names in os.walk(path)
                for found in map(Path(folder).joinpath, names)
                # A link could lead out of the folder.
                if not found.is_symlink()
            }
        )
        return
    with path.open("rb") as stream:
        yield ImageFiles({}, stream)


def gather_images(sent: Iterable[Any]) -> ImageFiles | None:
    """Return the images that were sent, each as a file or all as one zip file."""
    given = [(one.filename or "", cast("BinaryIO", one.stream)) for one in sent]
    if len(given) == 1 and zipfile.is_zipfile(given[0][1]):
        return ImageFiles({}, given[0][1])

    def reopened(stream: BinaryIO) -> BinaryIO:
        stream.seek(0)
        return io.BytesIO(stream.read(MAX_BYTES + 1))

    found = {
        name.replace("\\", "/"): partial(reopened, stream)
        for name, stream in given
        if name
    }
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

    They are written before any transaction begins.  If the import is refused, no query
    uses them.  An image that cannot be read is an error of its rows.  Raises
    InvalidInputError if no column names images.
    """
    plain = file.read_by(file.choices.model_copy(update={"images": {}}))
    rows = plain.rows(detector)
    names: dict[str, None] = {}
    with rows.pieces() as pieces:
        for piece in pieces:
            for value in piece.said(IMAGE):
                with suppress(TypeError):
                    names[str(value)] = None
    if IMAGE not in rows.plan.fields:
        raise InvalidInputError.of("images", _NONE_NAMED)
    stored: dict[str, str] = {}
    wrong: dict[str, str] = {}
    with images.cleaned() as clean:
        for number, said in enumerate(names, start=1):
            try:
                image = clean(said)
                stored[said] = store.put(image.content, image.suffix)
            except InvalidInputError as error:
                if error.errors[0].field != IMAGE:
                    raise
                wrong[said] = error.errors[0].message
            if on_progress is not None:
                on_progress(number, len(names))
    changed = {"images": stored, "wrong_images": wrong}
    return file.read_by(file.choices.model_copy(update=changed))


def take_images(
    database: Database,
    order: Order,
    images: ImageFiles | None,
    store: ImageStore,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> Order:
    """Return *order* with the images beside its file in the *store*, if there are."""
    if images is None:
        return order
    with database.read() as session:
        found = get_open_detector(session, order.detector)
    file = store_images(order.file, found, images, store, on_progress=on_progress)
    return replace(order, file=file)
