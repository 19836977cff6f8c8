"""Where the bytes of images are kept: named by what they hold, in a folder or a bucket.

A name is made here and never comes from a client.  An image is safe before the
transaction that names it commits, so that no query ever points at nothing; a
rolled-back transaction leaves an image that nobody points at.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tracker.errors import ConfigurationError, UnavailableError
from tracker.settings import Settings

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

_NO_BUCKET = "the bucket that keeps the images is not there"


class ImageStore(Protocol):
    """Images, each named by the hash of its bytes."""

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content* and return its name, once it outlives a loss of power."""

    def get(self, name: str) -> bytes:
        """Return the bytes of the image *name*; raises FileNotFoundError."""

    def delete(self, name: str) -> None:
        """Delete the image *name*, if it is there."""

    def iter_names(self) -> Iterator[str]:
        """Yield the name of every image, whether or not a query points at it."""


def open_image_store(settings: Settings) -> ImageStore:
    """Return where *settings* say that images are kept; nothing is asked of it yet.

    Raises ConfigurationError for a bucket that cannot be used.
    """
    if settings.image_store:
        return ImageBucket(_open_bucket(settings))
    return ImageFolder(settings.image_dir)


class ImageFolder:
    """Images as files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content* and return its name; both are on the disk."""
        name = name_of(content, suffix)
        path = self._folder / place_of(name)
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
        return (self._folder / place_of(name)).read_bytes()

    def delete(self, name: str) -> None:
        (self._folder / place_of(name)).unlink(missing_ok=True)

    def iter_names(self) -> Iterator[str]:
        for path in self._folder.rglob("*"):
            is_in_place = path == self._folder / place_of(path.name)
            if is_in_place and path.is_file():
                yield path.name


class ImageBucket:
    """Images as objects of a bucket, under the names they would have as files.

    A bucket that does not answer, or does not let us, is an UnavailableError.
    """

    def __init__(self, bucket: "S3Store") -> None:
        self._bucket = bucket

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content* and return its name; the server has said that it has it."""
        name = name_of(content, suffix)
        place = place_of(name)
        with _translated_errors():
            # Not a conditional put: some servers know none, and Amazon refuses one
            # for the mere reason that another is under way, which may yet fail.
            try:
                self._bucket.head(place)
            except FileNotFoundError:
                try:
                    # In parts, one that breaks off would leave some of them behind.
                    self._bucket.put(place, content, use_multipart=False)
                except FileNotFoundError as error:
                    raise UnavailableError(_NO_BUCKET) from error
        return name

    def get(self, name: str) -> bytes:
        with _translated_errors():
            return bytes(self._bucket.get(place_of(name)).bytes())

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), _translated_errors():
            self._bucket.delete(place_of(name))

    def iter_names(self) -> Iterator[str]:
        with _translated_errors():
            for objects in self._bucket.list():
                for found in objects:
                    name = found["path"].rpartition("/")[2]
                    if found["path"] == place_of(name):
                        yield name


def _open_bucket(settings: Settings) -> "S3Store":
    key_id, secret = settings.s3_access_key_id, settings.s3_secret_access_key
    if not (key_id and secret):
        raise ConfigurationError(
            "TRACKER_IMAGE_STORE needs TRACKER_S3_ACCESS_KEY_ID and "
            "TRACKER_S3_SECRET_ACCESS_KEY, the access key to the bucket"
        )
    if not find_spec("obstore"):
        raise ConfigurationError(
            "TRACKER_IMAGE_STORE needs the extra s3: pip install 'tracker-server[s3]'"
        )
    # Optional: only those who have a bucket install it.
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    key: S3Credential = {
        "access_key_id": key_id,
        "secret_access_key": secret,
        "token": None,
        "expires_at": None,
    }
    amazon = f"https://s3.{settings.s3_region}.amazonaws.com"
    endpoint = settings.s3_endpoint or amazon
    name, _, prefix = settings.image_store.removeprefix("s3://").partition("/")
    try:
        return S3Store(
            name,
            prefix=prefix or None,
            # The library reads variables AWS_... too.  What is given here goes
            # before them, and so does a key that is provided over one that is read.
            config={
                "aws_endpoint_url_s3": endpoint,
                "region": settings.s3_region,
                "virtual_hosted_style_request": False,
                "skip_signature": False,
            },
            credential_provider=lambda: key,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": timedelta(seconds=2),
                "timeout": timedelta(seconds=10),
            },
            # No try begins later than this, so that a call ends within 15 seconds.
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=5)},
        )
    except BaseError as error:
        raise ConfigurationError(
            "TRACKER_IMAGE_STORE cannot be opened: " + str(error).partition("\n")[0]
        ) from error


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Turn what a bucket raises into Tracker's errors, except for a missing image."""
    # Optional, as above.
    from obstore.exceptions import (
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" not in str(error):
            raise
        raise UnavailableError(_NO_BUCKET) from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise UnavailableError(
            "the bucket that keeps the images refuses the access key, or what it is "
            "asked for"
        ) from error
    except BaseError as error:
        raise UnavailableError(
            "the bucket that keeps the images does not answer; try again"
        ) from error


def name_of(content: bytes, suffix: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()}.{suffix}"


def place_of(name: str) -> str:
    return f"{name[:2]}/{name}"


def is_whole(name: str, content: bytes) -> bool:
    return name == name_of(content, name.partition(".")[2])


def sync_folder(folder: Path) -> None:
    """Wait until the names in *folder* are on the disk."""
    # The new name is on the disk only once its folder is.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
