"""Images of queries by API."""

import io
import json
import zlib

import pytest
from PIL import Image

from tests.api.problems import assert_problem

QUERY = {"predicted": "YES", "key": "frame-1", "label": "NO"}


def draw(image_format="PNG", size=(8, 6), mode="RGB", **options):
    output = io.BytesIO()
    Image.new(mode, size, "red").save(output, image_format, **options)
    return output.getvalue()


def send(api, content, query=QUERY, name="a.png", **more):
    parts = {"query": json.dumps(query), "image": (io.BytesIO(content), name), **more}
    return api.send_parts("/detectors/door/queries", parts)


def declare_pixels(width, height):
    """Return a PNG that says it is huge and holds nothing."""

    def chunk(kind, body):
        crc = zlib.crc32(kind + body)
        return len(body).to_bytes(4) + kind + body + crc.to_bytes(4)

    header = width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("image_format", "media_type"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("WEBP", "image/webp")],
)
def test_an_image_is_stored_as_its_pixels_and_nothing_else(
    api, door, image_format, media_type
):
    secret = b"<script>alert(1)</script>"
    made = send(api, draw(image_format) + secret)
    assert made.status_code == 201, made.text
    assert made.json["label"] == "NO"
    address = made.json["image"]
    assert address.endswith(f"/api/v1/queries/{made.json['id']}/image")
    got = api.get(address, role="viewer")
    assert got.status_code == 200
    assert got.content_type == media_type
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    assert secret not in got.data
    with Image.open(io.BytesIO(got.data)) as image:
        assert image.format == image_format
        assert image.size == (8, 6)


def test_where_a_picture_was_taken_is_not_kept(api, door):
    exif = Image.Exif()
    exif[0x010E] = "at home"
    made = send(api, draw("JPEG", exif=exif))
    got = api.get(made.json["image"])
    assert b"at home" not in got.data


@pytest.mark.thorough
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no image at all",
        b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
        b"<!doctype html><script>alert(1)</script>",
        draw("GIF"),
        draw("BMP"),
        draw("PNG")[:40],
        declare_pixels(5_000, 5_000),
        declare_pixels(2**30, 2**30),
        b"\x89PNG\r\n\x1a\n" + bytes(10 * 2**20),
    ],
    ids=[
        *("empty", "text", "svg", "html", "gif", "bmp", "truncated"),
        *("25 Mpx", "bomb", "10 MiB"),
    ],
)
def test_what_is_no_small_png_jpeg_or_webp_is_refused(api, door, tables, content):
    before = tables()
    assert_problem(send(api, content), 422, field="image")
    assert tables() == before


def test_a_body_over_the_limit_is_refused(api, door, tables):
    before = tables()
    refused = assert_problem(send(api, bytes(13 * 2**20)), 413)
    # The limit of everything but an import, which no setting moves.
    assert refused["detail"] == "the body may have 12,582,912 bytes here"
    assert tables() == before


def test_the_same_key_with_the_same_image_gives_the_stored_query(api, door, tables):
    made = send(api, draw())
    before = tables()
    assert send(api, draw()).json == made.json
    assert_problem(send(api, draw(size=(9, 9))), 409)
    assert_problem(api.post("/detectors/door/queries", QUERY), 409)
    assert tables() == before


def test_the_query_may_come_as_a_file_too(api, door):
    text = json.dumps(QUERY).encode()
    parts = {
        "query": (io.BytesIO(text), "query.json"),
        "image": (io.BytesIO(draw()), "a.png"),
    }
    made = api.send_parts("/detectors/door/queries", parts)
    assert made.status_code == 201
    assert made.json["key"] == QUERY["key"]


def test_parts_that_are_wrong_are_named(api, door, tables):
    path = "/detectors/door/queries"
    image = draw()

    def post(parts):
        return api.send_parts(path, parts)

    def file():
        return io.BytesIO(image), "a.png"

    before = tables()
    query = json.dumps(QUERY)
    assert_problem(post({"image": file()}), 422, field="query")
    assert_problem(post({"query": query}), 422, field="image")
    assert_problem(post({"query": query, "image": "text"}), 422, field="image")
    assert_problem(post({"query": query, "image": file(), "x": "1"}), 422, field="x")
    assert_problem(post({"query": [query] * 2, "image": file()}), 422, field="query")
    assert_problem(
        post({"query": query, "image": [file(), file()]}), 422, field="image"
    )
    assert_problem(post({"query": "[]", "image": file()}), 422, field="query")
    assert_problem(post({"query": "{", "image": file()}), 400)
    assert_problem(post({"query": '{"predicted":NaN}', "image": file()}), 400)
    unsure = '{"key":"k","predicted":"maybe"}'
    assert_problem(post({"query": unsure, "image": file()}), 422, field="predicted")
    assert_problem(api.send_file(path, b"x", "multipart/form-data"), 422, field="query")
    assert tables() == before


def test_a_query_without_an_image_has_none(api, door, app):
    query = api.post("/detectors/door/queries", {"predicted": "YES"}).json
    assert_problem(api.get(f"/queries/{query['id']}/image"), 404)


def test_an_image_that_is_missing_on_the_disk_is_a_problem(api, door, settings):
    made = send(api, draw())
    for file in settings.image_dir.rglob("*.png"):
        file.unlink()
    assert_problem(api.get(made.json["image"]), 404)
