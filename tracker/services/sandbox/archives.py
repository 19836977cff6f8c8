"""Reads and decodes images of an archive, in a process of its own.

It does not load the database: see readers.py.
"""

import io
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any

from tracker.errors import InvalidInputError
from tracker.services.images import MAX_BYTES, check_image, clean_image
from tracker.services.sandbox.channel import (
    BROKEN_ZIP,
    Channel,
    Closed,
    SharedFile,
    allow_time,
    refusing,
)

# Processor time; a normal image takes a tenth of it.
_SECONDS_EACH = 10


class Names:
    """The images of an archive or folder by name, looked up as rows write them."""

    def __init__(self, openers: Mapping[str, Callable[[], IO[bytes]]]) -> None:
        self._openers = openers
        self._by_end: dict[str, str] = {}
        twice = set()
        for name in openers:
            end = _end_of(name)
            if self._by_end.setdefault(end, name) != name:
                twice.add(end)
        for end in twice:
            del self._by_end[end]

    def read(self, said: str) -> bytes:
        """Return the image *said*, else the only one whose name ends with it.

        It is cut after the largest size allowed.  Raises InvalidInputError if there is
        none, or it cannot be read.
        """
        name = said.strip().replace("\\", "/").removeprefix("./")
        found = name if name in self._openers else self._by_end.get(_end_of(name))
        if found is None:
            raise InvalidInputError.of(
                "image", "there is no image with this name beside the file"
            )
        broken = refusing("it cannot be read", OSError, *BROKEN_ZIP, field="image")
        with broken, self._openers[found]() as opened:
            return opened.read(MAX_BYTES + 1)


def _end_of(name: str) -> str:
    return name.rpartition("/")[2]


def prepare(**_: Any) -> None:
    """Do nothing: importing this module has loaded everything."""


def work(channel: Channel, *archives: SharedFile) -> None:
    """Answer each name of the archive, or each image, with the cleaned image.

    An image sent with a suffix is only checked.
    """
    images = _open(archives[0]) if archives else None
    channel.send({"is_open": True})
    with suppress(Closed):
        while True:
            said, content = channel.receive()
            allow_time(_SECONDS_EACH)
            try:
                if images is not None:
                    content = images.read(said["name"])
                if "suffix" in said:
                    check_image(content, said["suffix"])
                    channel.send({})
                    continue
                image = clean_image(content)
            except InvalidInputError as error:
                channel.send({"wrong": error.errors[0].message})
            else:
                channel.send({"suffix": image.suffix}, image.content)


def _open(file: SharedFile) -> Names:
    kinds = zipfile.BadZipFile, NotImplementedError, OSError, ValueError
    with refusing("it is not a zip file", *kinds, field="images"):
        archive = zipfile.ZipFile(io.BufferedReader(file, 2**16))
    entries = {one.filename: one for one in archive.infolist() if not one.is_dir()}
    return Names({name: partial(archive.open, one) for name, one in entries.items()})
