"""The image store: a folder or a bucket, with images named by their hash.

Names are made here and never come from a client.  An image is stored before the
transaction that names it commits, so that no query refers to a missing image; a
rolled-back transaction leaves an unused image.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tracker.errors import ConfigurationError, UnavailableError
from tracker.settings import Settings

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

_NO_BUCKET = "the bucket of the images does not exist"


def open_image_store(settings: Settings) -> "ImageStore":
    """Return the image store, without connecting to it; raises ConfigurationError."""
    if settings.image_store:
        return ImageBucket(_open_bucket(settings))
    return ImageFolder(settings.image_dir)


class ImageFolder:
    """Images as files of a folder, each named by the hash of its bytes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content* and its name on the disk, and return the name."""
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
        """Yield the name of every image, used by a query or not."""
        for path in self._folder.rglob("*"):
            is_in_place = path == self._folder / place_of(path.name)
            if is_in_place and path.is_file():
                yield path.name


class ImageBucket:
    """Images as objects of a bucket, named like the files of a folder.

    Raises UnavailableError if the bucket does not answer or refuses access.
    """

    def __init__(self, bucket: "S3Store") -> None:
        self._bucket = bucket

    def put(self, content: bytes, suffix: str) -> str:
        """Store *content*, acknowledged by the server, and return its name."""
        name = name_of(content, suffix)
        place = place_of(name)
        with _translated_errors():
            # Not a conditional put: some servers have none, and Amazon refuses one
            # while another is under way, which may still fail.
            try:
                self._bucket.head(place)
            except FileNotFoundError:
                try:
                    # An interrupted multipart upload would leave parts behind.
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


ImageStore = ImageFolder | ImageBucket


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
    # Optional: only needed with a bucket.
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
            # The library also reads variables AWS_...; these options override them, as
            # does the credential provider.
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
            # No retry begins later, so that a call ends within 15 seconds.
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=5)},
        )
    except BaseError as error:
        raise ConfigurationError(
            "TRACKER_IMAGE_STORE cannot be opened: " + str(error).partition("\n")[0]
        ) from error


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert the errors of a bucket, except for a missing image."""
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
            "the bucket of the images refuses the access key, or lacks the permission"
        ) from error
    except BaseError as error:
        raise UnavailableError(
            "the bucket of the images does not answer; try again"
        ) from error


def name_of(content: bytes, suffix: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()}.{suffix}"


def place_of(name: str) -> str:
    return f"{name[:2]}/{name}"


def is_whole(name: str, content: bytes) -> bool:
    return name == name_of(content, name.partition(".")[2])


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of *folder* to the disk."""
    # A synced file can still lose its name if its folder is not synced.
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
