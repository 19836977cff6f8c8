"""Images beside a file of rows: looked up by the names in it, never by a path.

What a row says is looked for among the names of a folder or an archive that were
listed before; nothing is opened because a row names it.
"""

import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

from tracker.errors import InvalidInputError
from tracker.services.detectors import get_open_detector
from tracker.services.images import MAX_BYTES, CleanImage
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import IMAGE
from tracker.services.imports.writing import Order
from tracker.services.sandbox.archives import Names
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


# The archive of all, or the files of a folder by their names in it.
Images = BinaryIO | Mapping[str, Path]


@contextmanager
def _cleaning(images: Images) -> Iterator[Callable[[str], CleanImage]]:
    """Give what returns the image that a row names, decoded and encoded again.

    It raises InvalidInputError of the field image for what is wrong with one, and
    of the field images for what is wrong with all of them.
    """
    if isinstance(images, Mapping):
        names = Names({name: partial(_open, path) for name, path in images.items()})
        archives, size = [], sum(path.stat().st_size for path in images.values())
    else:
        # It is looked into by a process of its own.
        names, archives, size = None, [images], images.seek(0, io.SEEK_END)
    seconds = _SECONDS * (1 + size // _BYTES)
    with reading("images", *archives, seconds=seconds) as reader:
        reader.field = "images"
        reader.answer()

        def clean(said: str) -> CleanImage:
            content = b"" if names is None else names.read(said)
            answer, cleaned = reader.ask({"name": said}, content)
            if "wrong" in answer:
                raise InvalidInputError.of(IMAGE, answer["wrong"])
            return CleanImage(cleaned, answer["suffix"])

        yield clean


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


@contextmanager
def open_images(path: Path) -> Iterator[Images]:
    """Open the images in a folder, and in those below it, or in a zip file."""
    if path.is_dir():
        yield {
            found.relative_to(path).as_posix(): found
            for folder, _, names in os.walk(path)
            for found in map(Path(folder).joinpath, names)
            # A link could lead out of the folder.
            if not found.is_symlink()
        }
        return
    with path.open("rb") as stream:
        yield stream


# What a zip file can hold.
_LONGEST_NAME = 2**16 - 1


@contextmanager
def gather_images(sent: Iterable[Any]) -> Iterator[BinaryIO | None]:
    """Give one zip file of the images that were sent, each as a file or all as one."""
    given = [(one.filename or "", cast("BinaryIO", one.stream)) for one in sent]
    named = {name.replace("\\", "/"): stream for name, stream in given if name}
    if any(len(name.encode()) > _LONGEST_NAME for name in named):
        raise InvalidInputError.of("images", "the name of an image is too long")
    if len(given) == 1 and zipfile.is_zipfile(given[0][1]):
        yield given[0][1]
    elif not named:
        yield None
    else:
        with tempfile.TemporaryFile() as whole:
            with zipfile.ZipFile(whole, "w") as archive:
                for name, stream in named.items():
                    stream.seek(0)
                    # One byte more tells that it is too large.
                    content = stream.read(MAX_BYTES + 1)
                    archive.writestr(zipfile.ZipInfo(name), content)
            yield cast("BinaryIO", whole)


def store_images(
    file: RowFile,
    detector: Detector,
    images: Images,
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
    with _cleaning(images) as clean:
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
    images: Images | None,
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
