"""Images that are kept in a bucket: by API and on the pages, never past us."""

import json
from typing import Any

import pytest
from flask import Flask

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.api.test_images import QUERY, draw, send
from tests.conftest import signed_in
from tests.s3 import SECRET, S3Server
from tracker.settings import Settings


@pytest.fixture
def settings(settings: Settings, s3_server: S3Server) -> Settings:
    """Settings that keep images in a bucket, and everything else in a folder."""
    return settings.model_copy(update=s3_server.settings())


@pytest.mark.thorough
def test_an_image_goes_into_the_bucket_and_is_shown_by_us(
    api: Api, door: Any, app: Flask, s3_server: S3Server, settings: Settings
) -> None:
    made = send(api, draw(size=(400, 300)))
    assert made.status_code == 201, made.text
    again = send(api, draw(size=(400, 300)))
    assert (again.status_code, again.json) == (200, made.json)

    [(_, stored)] = s3_server.objects().values()
    assert api.get(made.json["image"], role="viewer").data == stored
    assert not settings.image_dir.exists()
    client = signed_in(app, "vera", "viewer")
    path = f"/queries/{made.json['id']}"
    page = client.get(path)
    assert f'src="{path}/image"' in page.text
    # A browser is never redirected to the bucket, and never learns of it.
    assert settings.s3_endpoint not in made.text + page.text
    assert settings.s3_endpoint not in page.headers["Content-Security-Policy"]
    assert client.get(f"{path}/image").data == stored
    assert client.get(f"{path}/thumbnail").mimetype == "image/webp"


def test_an_image_is_for_those_who_see_its_detector(
    api: Api, door: Any, app: Flask
) -> None:
    made = send(api, draw())
    path = f"/queries/{made.json['id']}"
    assert api.get(f"{path}/image", role=None).status_code == 401
    stranger = signed_in(app, "charlie", "labeler", sees_all=False)
    assert stranger.get(f"{path}/image").status_code == 404
    assert stranger.get(f"{path}/thumbnail").status_code == 404


@pytest.mark.slow
def test_a_bucket_that_is_away_is_a_503_and_nothing_is_written(
    api: Api, door: Any, app: Flask, tables: Any, s3_server: S3Server
) -> None:
    made = send(api, draw())
    client = signed_in(app, "vera", "viewer")
    before, objects = tables(), s3_server.objects()
    s3_server.stop()

    query = QUERY | {"key": "frame-2"}
    for answer in (send(api, draw(size=(9, 9)), query), api.get(made.json["image"])):
        assert_problem(answer, 503)
        assert answer.headers["Retry-After"]
        assert SECRET not in answer.text
    path = f"/queries/{made.json['id']}"
    for page in (client.get(f"{path}/image"), client.get(f"{path}/thumbnail")):
        assert page.status_code == 503
        assert page.headers["Retry-After"]
    assert tables() == before
    assert s3_server.objects() == objects
    # Whatever needs no image goes on.
    assert client.get(path).status_code == 200
    assert api.post("/detectors/door/queries", {"predicted": "YES"}).status_code == 201

    s3_server.start()
    assert send(api, draw(size=(9, 9)), query).status_code == 201
    assert api.get(made.json["image"]).status_code == 200


@pytest.mark.thorough
def test_an_image_that_was_taken_out_of_the_bucket_is_a_404(
    api: Api, door: Any, app: Flask, s3_server: S3Server
) -> None:
    made = send(api, draw())
    for name in s3_server.objects():
        (s3_server.bucket / name).unlink()

    assert_problem(api.get(made.json["image"]), 404)
    client = signed_in(app, "vera", "viewer")
    assert client.get(f"/queries/{made.json['id']}/image").status_code == 404


def test_a_name_from_a_client_is_no_name_of_an_object(
    api: Api, door: Any, s3_server: S3Server
) -> None:
    query = QUERY | {"key": "../../key", "input": "../input"}
    made = send(api, draw(), query, name="../../../evil.png")
    assert made.status_code == 201, json.dumps(made.json)

    [name] = s3_server.objects()
    assert "evil" not in name
    assert "key" not in name
    assert api.get("/queries/..%2F..%2Fpictures/image").status_code == 404
