"""Importing a file in the browser."""

import io
import json

import pytest
from werkzeug.test import TestResponse

from tests.conftest import Clock, pack_parts
from tests.jobs.imports import AFTER_A_HOLD, importing, take, write_pieces
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, read
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.web.imports import LARGE_BYTES

GOOD = b"key,predicted,label\na,YES,YES\nb,NO,\n"
BAD = b"key,predicted,label\na,YES,YES\nb,PERHAPS,\nc,NO,SOMETIMES\n"


def _send(
    visitor: Visitor,
    detector_id: str,
    content: bytes,
    name: str,
    on_error: str = "reject",
) -> Page:
    fields = {"file": (io.BytesIO(content), name), "on_error": on_error}
    return visitor.post(f"/detectors/{detector_id}/import", fields)


def test_a_file_is_imported_once(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    page = _send(visitor, detector_id, GOOD, "rows.csv")
    assert page.status == 200
    assert "2 queries and 1 label added" in page.text
    again = _send(visitor, detector_id, GOOD, "rows.csv")
    assert "0 queries and 0 labels added; 2 rows were known already" in again.text


def test_other_kinds_of_file_are_read(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    lines = b'{"key": "c", "predicted": "YES"}\n'
    assert "1 query " in _send(visitor, detector_id, lines, "rows.JSONL").text
    whole = json.dumps({"items": [{"key": "d", "predicted": "YES"}]}).encode()
    assert "1 query " in _send(visitor, detector_id, whole, "rows.json").text
    tabs = b"key\tpredicted\ne\tNO\n"
    assert "1 query " in _send(visitor, detector_id, tabs, "rows.tsv").text


def test_parquet_is_read(visitor: Visitor, shelf: Shelf) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(pa.table({"key": ["a"], "predicted": ["YES"]}), buffer)
    page = _send(visitor, shelf.add_detector(), buffer.getvalue(), "rows.parquet")
    assert "1 query " in page.text


def test_one_bad_row_rejects_the_file(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    page = _send(visitor, detector_id, BAD, "rows.csv")
    assert page.status == 422
    assert "2 of 3 rows are wrong, and nothing was written" in page.text
    rows = [tr.text for tr in page.find("tbody")[0:1]]
    assert rows[0].startswith("2 predicted 'PERHAPS' is not right")
    assert "3 label 'SOMETIMES' is not right" in rows[0]
    assert (
        "No query has been logged yet"
        in visitor.get(f"/detectors/{detector_id}/queries").text
    )


def test_all_that_is_wrong_with_a_row_is_said(visitor: Visitor, shelf: Shelf) -> None:
    content = (
        b"key,predicted,confidence,metadata,label\n"
        b'a,PERHAPS,high,"{""a"": 1}",NOPE\n'
        b"b,YES,1.5,{,YES\n"
        b"c,YES\n"
    )
    page = _send(visitor, shelf.add_detector(), content, "rows.csv")
    rows = [
        cells.text.split()[1]
        for cells in page.find("tr")
        if cells.text.split()[0] in {"1", "2", "3"}
    ]
    assert rows == [
        *["confidence", "predicted", "label"],
        *["confidence", "metadata"],
        "row",
    ]


def test_a_file_without_rows_is_not_called_imported(
    visitor: Visitor, shelf: Shelf
) -> None:
    page = _send(visitor, shelf.add_detector(), b"key,predicted\n", "rows.csv")
    assert page.status == 200
    assert page.by_id("report-title").text == "Nothing was imported"
    assert "The file has no rows below its header" in page.text


def test_bad_rows_are_skipped_on_request(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    page = _send(visitor, detector_id, BAD, "rows.csv", on_error="skip")
    assert page.status == 200
    assert "1 query and 1 label added" in page.text
    assert "2 bad rows skipped" in page.text


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (b"", "rows.csv", "the file is empty"),
        (b"key,KEY\na,b\n", "rows.csv", "key: occurs twice among the columns"),
        (b"predicted,pred\nYES,NO\n", "rows.csv", "columns 'predicted' and 'pred'"),
        (b"\xff\xfe\x00", "rows.csv", "it is not UTF-16 text"),
        (b"{", "rows.json", "it is not JSON"),
        (b"PAR1", "rows.parquet", "it is not Parquet"),
        (b"PK\x03\x04", "rows.docx", "it is not an Excel file"),
        (GOOD, "rows.xlsx", "it is not an Excel file"),
        (b"\x1f\x8bx", "rows.csv.gz", "it is not gzip"),
        (GOOD, "", "choose a file first"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    visitor: Visitor, shelf: Shelf, content: bytes, name: str, said: str
) -> None:
    page = _send(visitor, shelf.add_detector(), content, name)
    assert page.status == 422
    assert said in page.by_id("file-error").text


@pytest.mark.slow
def test_an_import_may_be_larger_than_other_bodies(
    settings: Settings, database: Database, clock: Clock, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    app = create_app(settings, database, clock=clock)
    app.config["MAX_CONTENT_LENGTH"] = 2_000
    row = (
        b'{"key": "k", "predicted": "YES", "note": "'
        + b"x" * 1900
        + b'", "label": "YES"}'
    )
    assert "1 query " in _send(Visitor(app), detector_id, row, "rows.jsonl").text
    small = settings.model_copy(update={"max_body_bytes": 1_024})
    visitor = Visitor(create_app(small, database, clock=clock))
    refused = _send(visitor, detector_id, row, "rows.jsonl")
    assert refused.status == 413
    assert "1,024 bytes here, which TRACKER_MAX_BODY_BYTES sets" in refused.text


def test_an_archived_detector_takes_no_file(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    visitor.send(f"/detectors/{detector_id}/archive", {"sure": "yes"})
    page = _send(visitor, detector_id, GOOD, "rows.csv")
    assert page.status == 422
    assert "is archived" in page.by_id("file-error").text


def large(rows: bytes) -> bytes:
    """A file of those rows that is too large to wait for."""
    empty = b'""\r\n' * 900_000
    padding = b" " * (LARGE_BYTES - len(empty))
    return b"key,predicted,label,note" + padding + b"\n" + rows + empty


def run_importer(database: Database, clock: Clock) -> None:
    assert importing(database, clock).run() == 1


def send_large(
    visitor: Visitor, detector_id: str, content: bytes, name: str, **more: str
) -> TestResponse:
    file = (io.BytesIO(content), name)
    parts = {"csrf_token": visitor.token, "file": file, **more}
    return visitor.client.post(f"/detectors/{detector_id}/import", **pack_parts(parts))


def follow(
    visitor: Visitor,
    detector_id: str,
    content: bytes,
    name: str = "rows.csv",
    **more: str,
) -> str:
    """Send a large file, and return the address of the page that it leads to."""
    sent = send_large(visitor, detector_id, content, name, **more)
    assert sent.status_code == 303
    return sent.headers["Location"]


@pytest.mark.slow
def test_a_large_file_is_imported_by_a_worker_and_its_page_says_so(
    visitor: Visitor, shelf: Shelf, database: Database, clock: Clock
) -> None:
    detector_id = shelf.add_detector()
    address = follow(visitor, detector_id, large(b"a,YES,YES,\nb,NO,,\n"))
    page = visitor.get(address)
    assert page.status == 200
    assert "is waiting for its turn" in page.by_id("import-state").text
    assert page.find("progress")
    assert 'hx-trigger="every 1s"' in page.html
    assert 'http-equiv="refresh"' in page.html
    assert (
        "No query has been logged yet"
        in visitor.get(f"/detectors/{detector_id}/queries").text
    )

    run_importer(database, clock)

    page = visitor.get(address)
    assert "was imported" in page.by_id("import-state").text
    assert "2 queries and 1 label added" in page.text
    assert "2 rows read" in page.text
    assert not page.find("progress")
    assert 'hx-trigger="every' not in page.html
    assert "refresh" not in page.html
    form = visitor.get(f"/detectors/{detector_id}/import")
    assert "imp_1 (5 MiB): imported" in form.text


def test_the_page_of_an_import_that_failed_says_how_far_it_came_and_resumes_it(
    visitor: Visitor, shelf: Shelf, database: Database, clock: Clock
) -> None:
    detector_id = shelf.add_detector()
    rows = b"".join(b"k%d,YES,YES,\n" % number for number in range(5_000))
    address = follow(visitor, detector_id, large(rows))
    task = take(database, "w", clock)
    assert task is not None
    pieces = write_pieces(database, task, clock)
    next(pieces)
    page = visitor.get(address)
    assert "58 %, 2,000 of 5,000 rows written" in page.text
    assert page.find("progress")[0].attributes["value"] == "58"
    form = visitor.get(f"/detectors/{detector_id}/import")
    assert "imp_1 (5 MiB): running, 58 %" in form.text

    pieces.close()
    for _ in range(3):
        clock.at += AFTER_A_HOLD
        assert take(database, "killed", clock)
    clock.at += AFTER_A_HOLD
    assert importing(database, clock).run() == 0
    page = visitor.get(address)
    assert "The rows written so far stay" in page.by_id("import-state").text
    assert "2,000 of 5,000 rows written" in page.text
    assert "2,000 queries and 2,000 labels added" in page.text

    visitor.post(f"{address}/resume", {})
    run_importer(database, clock)
    page = visitor.get(address)
    assert "was imported" in page.by_id("import-state").text
    assert "5,000 queries and 5,000 labels added" in page.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (b"a,YES,YES,\nb,PERHAPS,,\n", "1 of 2 rows is wrong, and nothing was written"),
        (b'a,YES,YES,"\n', "is not CSV"),
    ],
)
def test_what_is_wrong_with_a_large_file_is_said_later(
    visitor: Visitor,
    shelf: Shelf,
    database: Database,
    clock: Clock,
    rows: bytes,
    said: str,
) -> None:
    detector_id = shelf.add_detector()
    address = follow(visitor, detector_id, large(rows))
    run_importer(database, clock)
    page = visitor.get(address)
    assert "nothing was imported" in page.by_id("import-state").text
    assert said in page.text
    assert (
        "No query has been logged yet"
        in visitor.get(f"/detectors/{detector_id}/queries").text
    )


@pytest.mark.slow
def test_bad_rows_of_a_large_file_are_skipped_on_request(
    visitor: Visitor, shelf: Shelf, database: Database, clock: Clock
) -> None:
    content = large(b"a,YES,YES,\nb,PERHAPS,,\n")
    address = follow(visitor, shelf.add_detector(), content, on_error="skip")
    run_importer(database, clock)
    page = visitor.get(address)
    assert "1 query and 1 label added" in page.text
    assert "1 bad row skipped" in page.text


def test_a_large_parquet_file_is_imported_by_a_worker(
    visitor: Visitor, shelf: Shelf, database: Database, clock: Clock
) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    notes = ["x" * 1_000 + str(number) for number in range(6_000)]
    table = pa.table({"predicted": ["YES"] * 6_000, "label": ["NO"] * 6_000})
    table = table.append_column("note", [notes])
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="none", use_dictionary=False)
    assert buffer.tell() > LARGE_BYTES
    detector_id = shelf.add_detector()
    address = follow(visitor, detector_id, buffer.getvalue(), "rows.parquet")
    run_importer(database, clock)
    page = visitor.get(address)
    assert "6,000 queries and 6,000 labels added" in page.text


def test_an_archived_detector_takes_no_large_file(
    visitor: Visitor, shelf: Shelf, database: Database, clock: Clock
) -> None:
    detector_id = shelf.add_detector()
    address = follow(visitor, detector_id, large(b"a,YES,YES,\n"))
    visitor.send(f"/detectors/{detector_id}/archive", {"sure": "yes"})
    page = read(send_large(visitor, detector_id, large(b"a,YES,YES,\n"), "rows.csv"))
    assert page.status == 422
    assert "is archived" in page.by_id("file-error").text

    run_importer(database, clock)

    page = visitor.get(address)
    assert "is archived" in page.text
    assert "nothing was imported" in page.by_id("import-state").text


def test_an_import_that_does_not_exist_is_not_found(visitor: Visitor) -> None:
    for reference in ("imp_1", "imp_x", "det_1"):
        assert visitor.get(f"/imports/{reference}").status == 404


def test_the_columns_of_a_file_are_shown_with_what_they_are_taken_for(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    content = b"y_pred,shade\nYES,<b>red\nNO,blue\n"
    page = visitor.post(
        f"/detectors/{detector_id}/import/preview",
        {"file": (io.BytesIO(content), "rows.csv")},
    )
    assert page.status == 200
    assert "y_pred'YES', 'NO' predicted key" in page.text
    assert "shade'<b>red', 'blue' other column key" in page.text
    wrong = visitor.post(
        f"/detectors/{detector_id}/import/preview",
        {"file": (io.BytesIO(content), "rows.xlsx")},
    )
    assert "it is not an Excel file" in wrong.text


def test_what_was_chosen_for_a_column_stays_chosen(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    content = b"y_pred,other\nYES,no\n"
    page = visitor.post(
        f"/detectors/{detector_id}/import/preview",
        {"file": (io.BytesIO(content), "rows.csv"), "map": "predicted=other"},
    )
    assert "predicted `no` as NO, 1 row" in page.text
    chosen = [one for one in page.find("option") if "selected" in one.attributes]
    assert [one.attributes["value"] for one in chosen] == ["predicted=other"]
    # By its name the first column would hold the same.
    assert "y_pred'YES' other column" in page.text


def test_a_file_is_read_as_the_form_says(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    content = b"said,was,at,shade\nyep,Yes,31.01.2026 12:00,red\n"
    page = visitor.post(
        f"/detectors/{detector_id}/import",
        {
            "file": (io.BytesIO(content), "rows.csv"),
            "map": "predicted=said",
            "columns": "label=was\nasked_at=at\n",
            "classes": "yep=YES",
            "given": "sampling=random\nversion=monday",
            "time_zone": "UTC",
            "time_format": "%d.%m.%Y %H:%M",
        },
    )
    assert page.status == 200, page.text
    readings = page.by_id("readings").text
    assert "predicted `yep` as YES, 1 row" in readings
    assert "label `Yes` as YES, 1 row" in readings
    assert "the column 'was' as label" in readings
    assert "Version monday" in visitor.get(f"/detectors/{detector_id}").text


def test_an_import_is_undone_by_its_page(visitor: Visitor, shelf: Shelf) -> None:
    page = _send(visitor, shelf.add_detector(), GOOD, "rows.csv")
    (link,) = [a.attributes["href"] for a in page.find("a") if "undo" in a.text]
    assert "Yes, undo it" in visitor.get(link).text
    assert visitor.post(f"{link}/undo", {}).status == 303
    undone = visitor.get(link)
    assert "The import was undone" in undone.text
    assert "2 queries, 1 label and 0 references were taken back" in undone.text
    assert "Yes, undo it" not in undone.text
    visitor.post(f"{link}/undo", {})
    assert "undone already" in visitor.get(link).text


def test_a_detector_is_made_of_a_file(visitor: Visitor) -> None:
    content = b"id,Predicted Label,truth,sample_weight\n" + b"".join(
        b"%d,cat,%s,2\n" % (n, b"cat" if n % 3 else b"dog") for n in range(30)
    )

    def send(path: str, **fields: str) -> Page:
        file = io.BytesIO(content), "run 1.csv"
        return visitor.post(path, {"file": file, **fields})

    assert "Start from a file" in visitor.get("/detectors/new").text
    assert visitor.get("/detectors/new/file").status == 200
    seen = send("/detectors/new/file/preview")
    for said in (
        "classes: cat, dog",
        "30 predictions, 30 with a label",
        "the column 'Predicted Label' as predicted",
        "looks like weights",
        "with 95 % confidence between",
        "%, method exact (for one look)",
        "Create the detector and import",
    ):
        assert said in seen.text
    answers = {"question": "What is it?", "names": "cat\ndog"}
    refused = send("/detectors/new/file", name="a/b", **answers)
    assert refused.status == 422
    made = send("/detectors/new/file", name="", **answers)
    assert "30 queries and 30 labels added" in made.text
    assert "run 1" in made.text


def test_a_detector_is_made_of_a_file_whose_columns_are_chosen(
    visitor: Visitor,
) -> None:
    rows = "".join(f"F{n},{'open' if n % 2 else 'shut'},open,97\n" for n in range(9))
    content = f"weekly report\n\nframe no,it said,it was,score\n{rows}".encode()

    def send(path: str, **fields: object) -> Page:
        file = io.BytesIO(content), "run.csv"
        return visitor.post(path, {"file": file, "header_row": "3", **fields})

    seen = send("/detectors/new/file/preview")
    assert "No two classes were found. Choose the columns" in seen.text
    assert "add --percent" in seen.text
    assert "Create the detector" not in seen.text
    assert "prediction," not in seen.text
    seen = send("/detectors/new/file/preview", map="predicted=it said", percent="1")
    assert (
        "the column 'it was' was taken for label by its classes alone: check that"
        in seen.text
    )
    ticked = [one for one in seen.find("option") if "selected" in one.attributes]
    chosen = {"map": [one.attributes["value"] for one in ticked], "percent": "1"}
    assert chosen["map"] == ["predicted=it said", "label=it was"]
    seen = send("/detectors/new/file/preview", **chosen)
    assert "check that" not in seen.text
    assert "classes: open, shut" in seen.text
    assert "9 predictions, 9 with a label" in seen.text
    assert "Create the detector and import" in seen.text
    answers = {"question": "Is it?", "names": "open\nshut", "version": "v7"}
    made = send("/detectors/new/file", **answers, **chosen)
    assert "9 queries and 9 labels added" in made.text
    assert "v7" in made.text


def test_the_preview_says_what_would_be_refused(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    content = b"pred,actual_label,a\nYES,NO,1\nmaybe,NO,2\nperhaps,NO,3\n"
    fields = {"file": (io.BytesIO(content), "rows.csv")}
    page = visitor.post(f"/detectors/{detector_id}/import/preview", fields)
    assert "row 2 and 1 more, predicted: 'maybe', 'perhaps' is not right" in page.text
    assert "1 prediction, 1 with a label" in page.text
    chosen = {row.text.split()[0]: row for row in page.find("tr")}
    assert "label" in chosen["actual_label"].text
