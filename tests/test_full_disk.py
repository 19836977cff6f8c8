"""A disk that fills up: refused with the reason, nothing half written, then on."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from PIL import Image

from tests.conftest import START, by
from tracker.app import create_app
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.database import open_database
from tracker.storage.operations import schema

Post = Callable[..., Any]


@pytest.fixture
def post(app: Flask, keys: dict[str, str]) -> Post:
    return poster(app, keys["editor"])


def poster(app: Flask, key: str) -> Post:
    def post(path: str, **content: Any) -> Any:
        headers = {"Authorization": f"Bearer {key}"}
        return app.test_client().post(f"/api/v1{path}", headers=headers, **content)

    return post


def picture() -> dict[str, Any]:
    drawn = io.BytesIO()
    Image.new("L", (20, 20), 128).save(drawn, "PNG")
    drawn.seek(0)
    return {"image": (drawn, "x.png"), "query": '{"predicted": "YES", "key": "k"}'}


@pytest.mark.parametrize(
    ("number", "title"),
    [
        (errno.ENOSPC, "Disk full"),
        (errno.EROFS, "Read-only"),
        (errno.EACCES, "Read-only"),
    ],
)
def test_an_image_that_cannot_be_written_is_refused_and_leaves_nothing(
    post: Post,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    title: str,
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(number, os.strerror(number))

    post("/detectors", json={"name": "door", "question": "Closed?"})
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        refused = post("/detectors/door/queries", data=picture())

    assert refused.status_code == 503
    assert refused.headers["Retry-After"]
    assert refused.json["title"] == title
    assert [path for path in settings.image_dir.rglob("*") if path.is_file()] == []
    assert post("/detectors/door/queries", data=picture()).status_code == 201


def test_a_file_in_place_of_the_folder_of_images_is_told(
    post: Post, settings: Settings
) -> None:
    post("/detectors", json={"name": "door", "question": "Closed?"})
    settings.image_dir.parent.mkdir(exist_ok=True)
    settings.image_dir.touch()
    refused = post("/detectors/door/queries", data=picture())
    settings.image_dir.unlink()

    assert (refused.status_code, refused.json["title"]) == (503, "Read-only")
    assert post("/detectors/door/queries", data=picture()).status_code == 201


@pytest.mark.thorough
def test_an_embedded_database_that_finds_no_room_refuses_and_goes_on(
    settings: Settings, tmp_path: Path
) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'small.db'}")
    schema.upgrade(database)
    with database.write() as session:
        key = create_key(session, "k", "editor", by(at=START))
    app = create_app(settings, database)
    post = poster(app, key)
    post("/detectors", json={"name": "door", "question": "Closed?"})
    rows = "".join(f"k{i},YES,NO\n" for i in range(5_000))
    body = f"key,predicted,label\n{rows}".encode()

    def limit(pages: int) -> None:
        with database.engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    limit(60)
    refused = post("/detectors/door/import", data=body, content_type="text/csv")
    with app.test_client() as client:
        headers = {"Authorization": f"Bearer {key}"}
        listed = client.get("/api/v1/detectors/door/queries", headers=headers)
    limit(2**30)
    accepted = post("/detectors/door/import", data=body, content_type="text/csv")

    assert refused.status_code == 503
    assert "full" in refused.json["detail"]
    assert listed.json["items"] == []
    assert accepted.json["labels_added"] == 5_000
    database.close()
