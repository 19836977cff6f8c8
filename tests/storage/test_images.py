"""Images in a folder and in a bucket, which keep the same promises."""

import hashlib
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from werkzeug import Response
from werkzeug.serving import make_server

from tests.s3 import SECRET, S3Server
from tracker.errors import ConfigurationError, UnavailableError
from tracker.settings import Settings
from tracker.storage.images import ImageStore, open_image_store

# One image of many pieces, and one of a single byte.
LARGE, SMALL = bytes(range(256)) * 2**16, b"1"
MISSING = f"{'0' * 64}.png"


@pytest.fixture
def bucket(s3_server: S3Server) -> ImageStore:
    return open_image_store(Settings(**s3_server.settings()))


@pytest.fixture(params=["folder", "bucket"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ImageStore, Path]:
    """A place to keep images, and where its files lie."""
    if request.param == "folder":
        settings = Settings(data_dir=tmp_path)
        return open_image_store(settings), tmp_path / "images"
    server = request.getfixturevalue("s3_server")
    return request.getfixturevalue("bucket"), server.bucket / "of" / "doors"


def written(folder: Path) -> dict[str, int]:
    """When each file was written."""
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("content", [LARGE, SMALL], ids=["large", "small"])
def test_what_is_put_is_got_under_the_hash_of_it(
    kept: tuple[ImageStore, Path], content: bytes
) -> None:
    images, folder = kept

    name = images.put(content, "png")

    assert name == f"{hashlib.sha256(content).hexdigest()}.png"
    assert images.get(name) == content
    assert list(images.iter_names()) == [name]
    # The same place in either, so that a folder is moved by copying it.
    assert list(written(folder)) == [f"{name[:2]}/{name}"]


def test_the_same_image_a_second_time_changes_nothing(
    kept: tuple[ImageStore, Path],
) -> None:
    images, folder = kept
    name = images.put(SMALL, "png")
    before = written(folder)

    assert images.put(SMALL, "png") == name
    assert written(folder) == before


def test_an_image_that_is_missing_is_no_fault_of_the_store(
    kept: tuple[ImageStore, Path],
) -> None:
    images, _ = kept
    assert list(images.iter_names()) == []
    images.put(SMALL, "png")

    with pytest.raises(FileNotFoundError):
        images.get(MISSING)


@pytest.mark.thorough
def test_all_images_are_listed_and_nothing_that_lies_beside_them(
    kept: tuple[ImageStore, Path],
) -> None:
    images, folder = kept
    # More than a server gives in one answer.
    names = {f"{number:064x}"[::-1] + ".png" for number in range(1_100)}
    for name in names:
        path = folder / name[:2] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / MISSING).touch()

    listed = list(images.iter_names())

    assert set(listed) == names
    assert len(listed) == len(names)


def assert_unavailable(images: ImageStore, why: str) -> None:
    with pytest.raises(UnavailableError, match=why):
        images.put(SMALL, "png")
    with pytest.raises(UnavailableError, match=why):
        images.get(MISSING)
    # The library says of a list only that there is none.
    with pytest.raises(UnavailableError):
        list(images.iter_names())


@pytest.mark.slow
def test_a_server_that_is_away_is_said_and_found_again(
    bucket: ImageStore, s3_server: S3Server
) -> None:
    name = bucket.put(LARGE, "png")
    s3_server.stop()
    assert_unavailable(bucket, "does not answer")

    s3_server.start()
    assert bucket.get(name) == LARGE
    assert bucket.put(SMALL, "png")


def test_a_bucket_that_is_not_there_is_no_missing_image(s3_server: S3Server) -> None:
    images = open_image_store(Settings(**s3_server.settings("s3://nothing")))

    assert_unavailable(images, "does not exist")


@contextmanager
def answering(status: int) -> Iterator[dict[str, str]]:
    """A server that answers everything with *status*, and the settings to ask it."""

    server = make_server("127.0.0.1", 0, Response(status=status))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield asking(server.server_port)
    server.shutdown()
    thread.join()
    server.server_close()


def asking(port: int) -> dict[str, str]:
    return {
        "image_store": "s3://pictures",
        "s3_endpoint": f"http://127.0.0.1:{port}",
        "s3_access_key_id": "k",
        "s3_secret_access_key": SECRET,
    }


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("status", "why"),
    [(401, "refuses"), (403, "refuses"), (500, "not answer"), (503, "not answer")],
)
def test_a_server_that_refuses_or_fails_is_said(status: int, why: str) -> None:
    with answering(status) as settings:
        assert_unavailable(open_image_store(Settings(**settings)), why)


@pytest.mark.slow
def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        images = open_image_store(Settings(**asking(silent.getsockname()[1])))
        with pytest.raises(UnavailableError, match="does not answer"):
            images.get(MISSING)


def test_variables_of_the_library_lead_nowhere_else(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AWS_ENDPOINT": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1",
        "AWS_BUCKET": "other",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_SESSION_TOKEN": "of another key",
    }.items():
        monkeypatch.setenv(name, value)

    images = open_image_store(Settings(**s3_server.settings()))

    name = images.put(SMALL, "png")
    assert list(s3_server.objects()) == [f"of/doors/{name[:2]}/{name}"]


@pytest.mark.parametrize("missing", ["s3_access_key_id", "s3_secret_access_key"])
def test_a_bucket_without_a_key_is_refused(missing: str) -> None:
    settings = Settings(**asking(1) | {missing: ""})

    with pytest.raises(ConfigurationError, match=f"needs .*TRACKER_{missing.upper()}"):
        open_image_store(settings)


def test_a_bucket_without_the_library_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As it looks where the extra is not installed.
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'tracker-server\[s3\]'"):
        open_image_store(Settings(**asking(1)))
