"""Images in bulk beside a file of rows, and mappings saved with a detector."""

import csv
import io
import json
import random
import tracemalloc
import zipfile

import pytest
from click.testing import CliRunner
from flask import request
from PIL import Image
from sqlalchemy import func, select
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.test import encode_multipart

from tests.api.problems import assert_problem
from tests.jobs.imports import importing
from tracker.cli import main
from tracker.services.imports.background import take_images
from tracker.storage.images import ImageFolder
from tracker.storage.imports import measure_pieces
from tracker.storage.queries.queries import Query

PATH = "/detectors/door/import"
MAPPING = f"{PATH}/mapping"
NOTHING = {
    "columns": {},
    "classes": {},
    "extra": None,
    "time_zone": None,
    "time_format": None,
}


def png(colour):
    content = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(content, "PNG")
    return content.getvalue()


IMAGES = {"north/1.png": png("red"), "south/1.png": png("blue"), "2.png": png("green")}
ROWS = (
    "key,predicted,image\n"
    "a,YES,north/1.png\nb,NO,south/1.png\nc,YES,2.png\nd,NO,\ne,NO,2.png\n"
)


def zipped(images):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, one in images.items():
            archive.writestr(name, one)
    return content.getvalue()


def send(api, rows, images, query="", name="rows.csv"):
    file = FileStorage(io.BytesIO(rows.encode()), name)
    parts = [FileStorage(io.BytesIO(content), name) for name, content in images.items()]
    return api.send_parts(PATH + query, {"file": file, "images": parts})


def colours(api):
    found = {}
    for query in api.walk("/detectors/door/queries"):
        found[query["key"]] = None
        if query["image"] is not None:
            content = api.get(f"/queries/{query['id']}/image").data
            with Image.open(io.BytesIO(content)) as image:
                found[query["key"]] = image.getpixel((0, 0))
    return found


RED, BLUE, GREEN = (255, 0, 0), (0, 0, 255), (0, 128, 0)
EXPECTED = {"a": RED, "b": BLUE, "c": GREEN, "d": None, "e": GREEN}


@pytest.mark.parametrize("images", [IMAGES, {"images.zip": zipped(IMAGES)}])
def test_each_row_has_the_image_that_it_names(api, door, tables, images):
    sent = send(api, ROWS, images)
    assert sent.status_code == 200, sent.text
    assert sent.json["queries_added"] == 5
    assert colours(api) == EXPECTED
    before = tables()
    assert send(api, ROWS, images).json["unchanged"] == 5
    assert tables() == before


def test_json_lines_name_images_too(api, door):
    rows = json.dumps({"predicted": "YES", "key": "a", "image": "2.png"})
    sent = send(api, rows, IMAGES, name="rows.jsonl")
    assert sent.status_code == 200, sent.text
    assert colours(api) == {"a": GREEN}
    rows = json.dumps({"items": [{"predicted": "YES", "key": "b", "image": "2.png"}]})
    sent = send(api, rows, IMAGES, name="rows.json")
    assert sent.status_code == 200, sent.text
    assert colours(api) == {"a": GREEN, "b": GREEN}


def send_later(api, rows, images, name="rows.csv"):
    parts = [FileStorage(io.BytesIO(content), name) for name, content in images.items()]
    file = FileStorage(io.BytesIO(rows.encode()), name)
    boundary, content = encode_multipart(MultiDict({"file": file, "images": parts}))
    kind = f"multipart/form-data; boundary={boundary}"
    sent = api.send_file(PATH, content, kind, headers={"Prefer": "respond-async"})
    assert sent.status_code == 202, sent.text
    return sent.json


@pytest.fixture
def importer(database, settings):
    return importing(database, images=ImageFolder(settings.image_dir))


@pytest.mark.thorough
@pytest.mark.parametrize("images", [IMAGES, {"images.zip": zipped(IMAGES)}])
@pytest.mark.parametrize("name", ["rows.csv", "rows.json"])
def test_a_worker_reads_the_images_too(api, door, settings, importer, images, name):
    rows = ROWS
    if name == "rows.json":
        lines = csv.DictReader(io.StringIO(ROWS))
        items = [{k: v for k, v in line.items() if v} for line in lines]
        rows = json.dumps({"items": items})
    waiting = send_later(api, rows, images, name)
    assert waiting["bytes"] > len(rows) + sum(map(len, IMAGES.values()))
    # None was decoded while the client waited.
    assert list(ImageFolder(settings.image_dir).iter_names()) == []
    assert importer.run() == 1
    ended = api.get(f"/imports/{waiting['id']}").json
    assert (ended["state"], ended["report"]["queries_added"]) == ("done", 5)
    assert ended["bytes_read"] == ended["bytes"]
    assert colours(api) == EXPECTED


@pytest.mark.parametrize(
    ("rows", "images", "said"),
    [
        ("key,predicted,image\na,YES,3.png\n", IMAGES, "there is no image"),
        ("key,predicted,image\na,YES,3.png\n", {"3.png": b"<html>"}, "it is not a PNG"),
        ("key,predicted\na,YES\n", IMAGES, "no column names the image"),
    ],
)
def test_a_worker_refuses_what_is_wrong_with_images(
    api, door, importer, rows, images, said
):
    waiting = send_later(api, rows, images)
    assert importer.run() == 1
    ended = api.get(f"/imports/{waiting['id']}").json
    assert ended["state"] == "rejected"
    assert said in json.dumps(ended)
    assert api.walk("/detectors/door/queries") == []


def noise(number):
    """A picture that packs to no less than a megabyte."""
    pixels = random.Random(number).randbytes(3 * 600 * 600)
    content = io.BytesIO()
    Image.frombytes("RGB", (600, 600), pixels).save(content, "PNG")
    return content.getvalue()


@pytest.mark.thorough
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("last", ["YES", "MAYBE"])
def test_many_rows_and_images_wait_in_pieces_and_appear_together(
    api, door, database, settings, importer, tables, is_packed, last
):
    images = {f"{number}.png": noise(number) for number in range(3)}
    rows = "".join(f"k{i},YES,{i % 3}.png\n" for i in range(5_000))
    rows = f"key,predicted,image\n{rows}last,{last},\n"
    before = tables()
    sent = {"images.zip": zipped(images)} if is_packed else images
    waiting = send_later(api, rows, sent)
    assert waiting["bytes"] > 3 * 2**20
    with database.read() as session:
        assert measure_pieces(session, (1, 1)) == waiting["bytes"]
    assert importer.run() == 1
    ended = api.get(f"/imports/{waiting['id']}").json
    # The images were written before it was known that a row is wrong.
    store = ImageFolder(settings.image_dir)
    assert len(list(store.iter_names())) == 3
    with database.read() as session:
        assert measure_pieces(session, (1, 1)) == 0
    if last == "MAYBE":
        assert (ended["state"], ended["report"]["bad_rows"]) == ("rejected", 1)
        changed = {name for name, held in tables().items() if held != before[name]}
        # What waited for its end is folded now.
        assert changed <= {
            *("imports", "import_pieces", "heartbeats", "pending_batches"),
            # That it was rejected.
            "events",
        }
        return
    assert (ended["state"], ended["rows_read"]) == ("done", 5_001)
    assert ended["bytes_read"] == ended["bytes"]
    with database.read() as session:
        statement = select(Query.image, func.count()).group_by(Query.image)
        found = dict(session.execute(statement).all())
    assert sorted(found.values()) == [1, 1_666, 1_667, 1_667]


def test_a_worker_tells_how_many_images_it_has_read(
    api, door, database, settings, clock
):
    waiting = send_later(api, ROWS, IMAGES)
    store, seen = ImageFolder(settings.image_dir), []
    import_id = int(waiting["id"].removeprefix("imp_"))
    take_images((1, import_id), database.read, store, on_progress=seen.append)
    shares = [progress["bytes_read"] for progress in seen]
    whole = waiting["bytes"] - len(ROWS)
    assert shares == [whole // 3, whole * 2 // 3, whole]


@pytest.mark.thorough
def test_many_images_of_a_request_take_no_memory(app):
    number, content = 120, b"x" * 400_000
    parts = [FileStorage(io.BytesIO(content), f"{n}.png") for n in range(number)]
    boundary, body = encode_multipart(MultiDict({"images": parts}))
    options = {
        "method": "POST",
        "input_stream": io.BytesIO(body),
        "content_type": f"multipart/form-data; boundary={boundary}",
        "content_length": len(body),
    }
    tracemalloc.start()
    try:
        with app.test_request_context("/", **options):
            request.max_content_length = len(body)
            sent = request.files.getlist("images")
            _, peak = tracemalloc.get_traced_memory()
            assert [len(one.read()) for one in sent] == [len(content)] * number
    finally:
        tracemalloc.stop()
    assert peak < len(body) / 8


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("3.png", "there is no image with this name"),
        ("../../etc/passwd", "there is no image with this name"),
        ("/etc/passwd", "there is no image with this name"),
        # Two end so.
        ("1.png", "there is no image with this name"),
        ("bad.png", "it is not a PNG, JPEG or WebP"),
        ("empty.png", "it is empty"),
        ("locked.png", "it cannot be read"),
    ],
)
def test_an_image_that_cannot_be_had_is_a_mistake_of_its_row(
    api, door, tables, name, said
):
    content = zipped({**IMAGES, "bad.png": b"<html>", "empty.png": b""})
    locked = bytearray(zipped({"locked.png": png("red")}))
    # The flag of encryption, in both headers.
    for start in (locked.index(b"PK\x03\x04") + 6, locked.index(b"PK\x01\x02") + 8):
        locked[start] |= 1
    images = bytes(locked) if name == "locked.png" else content
    before = tables()
    sent = send(api, f"key,predicted,image\na,YES,{name}\n", {"x.zip": images})
    problem = assert_problem(sent, 422, field="image")
    assert said in problem["errors"][0]["message"]
    assert problem["errors"][0]["row"] == 1
    assert tables() == before


def test_a_path_in_an_archive_is_a_name_and_nothing_else(api, door, settings, tmp_path):
    images = {"../../../outside.png": png("red"), "/absolute.png": png("blue")}
    rows = (
        "key,predicted,image\na,YES,../../../outside.png\nb,NO,/absolute.png\n"
        "c,NO,outside.png\n"
    )
    sent = send(api, rows, {"x.zip": zipped(images)})
    assert sent.status_code == 200, sent.text
    assert colours(api) == {"a": RED, "b": BLUE, "c": RED}
    names = set(ImageFolder(settings.image_dir).iter_names())
    assert {path.name for path in settings.image_dir.rglob("*.png")} == names


@pytest.mark.parametrize(
    ("rows", "query", "field"),
    [
        ("key,predicted\na,YES\n", "", "images"),
        ("key,predicted,image\na,YES,2.png\n", "?map=image%3Dfile", "map"),
    ],
)
def test_a_file_that_names_no_images_is_refused(api, door, rows, query, field):
    assert_problem(send(api, rows, IMAGES, query), 422, field=field)


def test_an_image_with_a_name_that_no_archive_holds_is_refused(api, door):
    sent = send(api, ROWS, {"x" * 70_000 + ".png": png("red")})
    assert_problem(sent, 422, field="images")


def test_without_images_the_column_is_any_other(api, door):
    sent = api.send_file(PATH, ROWS)
    assert_problem(sent, 422, field="image")
    sent = api.send_file(f"{PATH}?map=image%3Dimage", ROWS)
    assert_problem(sent, 422, field="map")
    assert api.send_file(f"{PATH}?extra=metadata", ROWS).status_code == 200
    [first, *_] = api.walk("/detectors/door/queries")[::-1]
    assert first["metadata"] == {"image": "north/1.png"}


def test_another_image_for_a_known_key_is_refused(api, door, tables):
    send(api, "key,predicted,image\na,YES,2.png\n", IMAGES)
    before = tables()
    sent = send(api, "key,predicted,image\na,YES,north/1.png\n", IMAGES)
    assert_problem(sent, 422, field="image")
    assert tables() == before


@pytest.fixture
def shell(database_url, settings):
    def call(*words):
        environ = {
            "TRACKER_DATABASE_URL": database_url,
            "TRACKER_DATA_DIR": str(settings.data_dir),
        }
        return CliRunner().invoke(main, words, env=environ)

    return call


def test_the_command_takes_a_folder_or_an_archive(api, door, shell, tmp_path):
    folder = tmp_path / "frames"
    for name, content in IMAGES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    secret = tmp_path / "secret.png"
    secret.write_bytes(png("black"))
    (folder / "link.png").symlink_to(secret)
    rows = tmp_path / "rows.csv"
    rows.write_text(ROWS)
    done = shell("import", "door", str(rows), "--images", str(folder))
    assert done.exit_code == 0, done.output
    assert colours(api) == EXPECTED
    packed = tmp_path / "frames.zip"
    packed.write_bytes(zipped(IMAGES))
    rows.write_text(ROWS.replace("image", "file"))
    words = ["import", "door", str(rows), "--images", str(packed)]
    done = shell(*words, "--map", "image=file")
    assert (done.exit_code, "5 rows unchanged" in done.output) == (0, True), done.output
    rows.write_text("key,predicted,image\nx,YES,link.png\ny,NO,../secret.png\n")
    done = shell("import", "door", str(rows), "--images", str(folder))
    assert done.exit_code == 1
    assert "2 of 2 rows are wrong" in done.output


def test_a_saved_mapping_goes_for_every_file_that_does_not_say_otherwise(
    api, door, shell, tmp_path
):
    assert api.get(MAPPING).json == NOTHING
    body = {
        "columns": {"predicted": "Antwort", "confidence": "p"},
        "classes": {"zu": "YES", "auf": "NO"},
        "extra": "ignore",
        "time_zone": "Europe/Berlin",
    }
    saved = api.call("PUT", MAPPING, json=body, role="editor")
    assert saved.json == {**NOTHING, **body} == api.get(MAPPING).json
    rows = "key,Antwort,p,zeit,asked_at\na,zu,0.5,x,2026-01-31 13:00\n"
    assert api.send_file(PATH, rows).status_code == 200
    [query] = api.walk("/detectors/door/queries")
    assert (query["predicted"], query["confidence"], query["asked_at"]) == (
        "YES",
        0.5,
        "2026-01-31T12:00:00Z",
    )
    assert query["metadata"] is None
    # Another kind of file has none of these columns.
    other = {"items": [{"key": "b", "predicted": "NO", "confidence": 0.25}]}
    assert api.send_file(PATH, json.dumps(other), "application/json").status_code == 200
    # What is said beside the file goes before what was saved.
    rows = "key,Antwort,says,p\nc,zu,auf,0.5\n"
    sent = api.send_file(f"{PATH}?map=predicted%3Dsays&extra=metadata", rows)
    assert sent.status_code == 200, sent.text
    found = {one["key"]: one for one in api.walk("/detectors/door/queries")}
    assert found["c"]["predicted"] == "NO"
    assert found["c"]["metadata"] == {"Antwort": "zu"}
    refused = api.send_file(f"{PATH}?saved_mapping=false", rows)
    assert {error["field"] for error in refused.json["errors"]} == {
        "Antwort",
        "says",
        "p",
    }
    path = tmp_path / "rows.csv"
    path.write_text("key,Antwort,p\nd,auf,0.5\n")
    done = shell("import", "door", str(path))
    assert "1 queries" in done.output, done.output
    said = shell("detectors", "mapping", "door").output
    assert "--map predicted=Antwort\n" in said
    assert "--time-zone Europe/Berlin\n" in said
    assert shell("detectors", "mapping", "door", "--remove").output == ""
    assert api.get(MAPPING).json == NOTHING


def test_an_import_saves_how_it_was_read(api, door, tables, shell, tmp_path):
    rows = "key,guess,p\na,zu,0.5\n"
    options = "?map=confidence%3Dp&class=zu%3DYES&save_mapping=true"
    assert api.send_file(PATH + options, rows).status_code == 200
    expected = {**NOTHING, "columns": {"confidence": "p"}, "classes": {"zu": "YES"}}
    assert api.get(MAPPING).json == expected
    path = tmp_path / "rows.csv"
    path.write_text("key,guess,p,at\nb,auf,0.5,31.01.2026\n")
    words = ["import", "door", str(path), "--class", "auf=NO", "--map", "asked_at=at"]
    words += ["--time-format", "%d.%m.%Y", "--time-zone", "UTC", "--save-mapping"]
    done = shell(*words)
    assert done.exit_code == 0, done.output
    assert api.get(MAPPING).json == {
        "columns": {"confidence": "p", "asked_at": "at"},
        "classes": {"zu": "YES", "auf": "NO"},
        "extra": None,
        "time_zone": "UTC",
        "time_format": "%d.%m.%Y",
    }
    # An import that is refused saves nothing.
    before = tables()
    refused = api.send_file(
        f"{PATH}?class=x%3DYES&save_mapping=true", "predicted\nmaybe\n"
    )
    assert refused.status_code == 422
    assert tables() == before


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"columns": {"prediction": "x"}}, "columns"),
        ({"classes": {"x": "MAYBE"}}, "class"),
        ({"extra": "drop"}, "extra"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"map": {}}, "map"),
        ({"classes": {"x": 1}}, "classes"),
    ],
)
def test_a_mapping_that_is_wrong_is_not_saved(api, door, tables, body, field):
    before = tables()
    answered = api.call("PUT", MAPPING, json=body)
    problem = assert_problem(answered, 422)
    assert problem["errors"][0]["field"].startswith(field)
    assert tables() == before
