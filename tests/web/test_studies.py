# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""The pages of resampling studies."""

import csv
import html
import io

import pytest

from tests.services.irises import IRIS, SEEDS, iris
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page
from tests.web.test_pages import HOSTILE

SEEDS_FILE = b"accuracy\n" + b"".join(b"%f\n" % one["accuracy"] for one in SEEDS)


def upload(
    visitor: Visitor,
    detector_id: str,
    content: bytes = b"",
    file_name: str = "rounds.csv",
    **typed: str,
) -> Page:
    fields = {"name": "tree", "kind": "bootstrap", **typed}
    file = (io.BytesIO(content or IRIS.read_bytes()), file_name)
    return visitor.post(f"/detectors/{detector_id}/studies", {**fields, "file": file})


def test_a_study_is_added_and_shown(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    assert "None yet" in visitor.get(f"/detectors/{detector_id}/studies").text
    sent = upload(visitor, detector_id, version="v3", note="seed 12345")
    assert sent.status == 303
    page = visitor.get(sent.headers["Location"])
    assert page.status == 200
    assert "Trained 200 times on draws with replacement from the same data" in page.text
    assert "Version v3" in page.text
    assert "seed 12345" in page.text
    assert "None of them is guaranteed" in page.text
    listed = visitor.get(f"/detectors/{detector_id}/studies")
    assert listed.find("a", href=sent.headers["Location"])[0].text == "tree"
    assert "v3" in listed.text


def test_every_interval_stands_with_its_mean_its_rounds_and_its_meaning(
    visitor: Visitor, shelf: Shelf
) -> None:
    sent = upload(visitor, shelf.add_detector())
    page = visitor.get(sent.headers["Location"])
    figures = [one.text for one in page.find("div", class_="reading-figures")]
    assert figures == [
        "200 rounds 83.6–100 %",
        "94.6 %, between 87.9 and 100 %, 200 rounds 94.6 % 87.9–100 % 200 rounds",
        "94.6 %, between 86.9 and 100 %, 200 rounds 94.6 % 86.9–100 % 200 rounds",
        "95.9 %, between 90.0 and 100 %, 200 rounds 95.9 % 90.0–100 % 200 rounds",
        "95.8 %, between 89.7 and 100 %, 200 rounds 95.8 % 89.7–100 % 200 rounds",
    ]
    names = [one.text for one in page.find("div", class_="reading-name")]
    assert names == ["Rounds", "bootstrap-t", "percentile", "632", "632+"]
    meanings = [one.text for one in page.find("dd")][:4]
    assert all("it does not cover" in meaning for meaning in meanings)


def test_the_rounds_are_drawn_upon_the_axis_of_the_bars(
    visitor: Visitor, shelf: Shelf
) -> None:
    sent = upload(visitor, shelf.add_detector())
    page = visitor.get(sent.headers["Location"])
    (picture,) = page.find("svg", role="img")
    assert picture.attributes["aria-label"].startswith("Histogram of 200 rounds from")
    assert "80 % 85 % 90 % 95 % 100 %" in page.text
    assert '<rect x="98.00%"' in page.html


def test_seeds_and_missing_columns_are_told(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    sent = upload(visitor, detector_id, SEEDS_FILE, kind="seeds")
    page = visitor.get(sent.headers["Location"])
    assert "Trained 5 times with other random seeds" in page.text
    assert "92.0 %, between 90.0 and 94.0 %, 5 rounds" in page.text
    assert "as well" not in page.text
    bare = b"validation\n0.9\n0.8\n"
    sent = upload(visitor, detector_id, bare, name="bare")
    page = visitor.get(sent.headers["Location"])
    assert "Add training to each round to get 632 as well" in page.text
    trained = b"validation,training\n0.9,1\n0.8,1\n"
    sent = upload(visitor, detector_id, trained, name="trained")
    page = visitor.get(sent.headers["Location"])
    assert "Add no_information to each round to get 632+" in page.text


def test_the_middle_half_is_said_as_it_was_seen(visitor: Visitor, shelf: Shelf) -> None:
    rounds = b"accuracy\n.89\n.9\n.91\n.93\n.95\n"
    sent = upload(visitor, shelf.add_detector(), rounds, kind="seeds")
    page = visitor.get(sent.headers["Location"])
    assert "half of them within 90.0\N{EN DASH}93.0\u202f%" in page.html


@pytest.mark.parametrize("share", [b"1", b"0", b"0.3", b"0.999999"])
def test_rounds_that_are_all_equal_are_drawn_too(
    visitor: Visitor, shelf: Shelf, share: bytes
) -> None:
    content = b"accuracy\n" + 3 * (share + b"\n")
    sent = upload(visitor, shelf.add_detector(), content, kind="seeds")
    page = visitor.get(sent.headers["Location"])
    assert page.status == 200
    assert page.find("rect", height="100.00%")


def test_the_same_file_again_leads_to_the_same_study(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    first, again = (upload(visitor, detector_id) for _ in range(2))
    assert first.headers["Location"] == again.headers["Location"]
    other = upload(visitor, detector_id, note="other")
    assert other.status == 422
    assert "with other note" in other.by_id("name-error").text


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("content", "name", "typed", "field", "said"),
    [
        (b"x", "rounds.doc", {}, "file", "its name must end in"),
        (b"x", "", {}, "file", "choose a file first"),
        (b"validation\n0.9\n", "a.csv", {}, "file", "there are 1; a study has from 2"),
        (b"validation\n0.9\n2\n", "a.csv", {}, "file", "row 2, validation: 2.0 is not"),
        (b"colour\n2\n", "a.csv", {}, "file", "colour: is not a known column"),
        (b"colour,size\n2,3\n", "a.csv", {}, "file", "size: is not a known column"),
        (b"{", "a.json", {}, "file", "it is not JSON"),
        (b"", "a.csv", {"name": " "}, "name", "is required"),
        (b"", "a.csv", {"kind": "x"}, "kind", "is not right"),
        (b"", "a.csv", {"version": "*"}, "version", "means all versions"),
        (b"", "a.csv", {"note": "x" * 2_001}, "note", "at most 2,000 characters"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    visitor: Visitor,
    shelf: Shelf,
    content: bytes,
    name: str,
    typed: dict[str, str],
    field: str,
    said: str,
) -> None:
    detector_id = shelf.add_detector()
    page = upload(visitor, detector_id, content, name, **{"note": "mine", **typed})
    assert page.status == 422
    assert said in page.by_id(f"{field}-error").text
    if "note" not in typed:
        assert page.by_id("note").text == "mine"
    assert "None yet" in visitor.get(f"/detectors/{detector_id}/studies").text


def test_an_archived_detector_takes_no_study(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    assert visitor.get(f"/detectors/{detector_id}/studies").find("input", id="file")
    visitor.send(f"/detectors/{detector_id}/archive", {"sure": "yes"})
    assert not visitor.get(f"/detectors/{detector_id}/studies").find("input", id="file")
    assert upload(visitor, detector_id).status == 422


@pytest.mark.slow
def test_many_studies_come_in_pages(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    for number in range(26):
        upload(visitor, detector_id, SEEDS_FILE, kind="seeds", name=f"study {number}")
    first = visitor.get(f"/detectors/{detector_id}/studies")
    (older,) = [one for one in first.find("a") if one.text == "Older"]
    second = visitor.get(older.attributes["href"])
    names = [
        link.text
        for page in (first, second)
        for link in page.find("a")
        if link.attributes["href"].startswith("/studies/")
    ]
    assert names == [f"study {number}" for number in range(25, -1, -1)]


def test_the_rounds_can_be_downloaded(visitor: Visitor, shelf: Shelf) -> None:
    location = upload(visitor, shelf.add_detector()).headers["Location"]
    got = visitor.client.get(f"{location}/rounds.csv")
    assert got.headers["Content-Disposition"].endswith('-rounds.csv"')
    reader = csv.DictReader(io.StringIO(got.text, newline=""))
    assert [{k: float(v) for k, v in row.items()} for row in reader] == iris()
    for suffix in ("json", "jsonl", "parquet", "xlsx"):
        assert visitor.client.get(f"{location}/rounds.{suffix}").status_code == 200
    for path in (
        f"{location}/rounds.txt",
        "/studies/stu_9",
        "/studies/stu_9/rounds.csv",
    ):
        assert visitor.get(path).status == 404


def test_hostile_text_is_only_ever_shown(visitor: Visitor, shelf: Shelf) -> None:
    detector_id = shelf.add_detector()
    typed = {"name": HOSTILE, "note": HOSTILE, "version": HOSTILE}
    sent = upload(visitor, detector_id, **typed)
    assert sent.status == 303
    bad = upload(visitor, detector_id, f"{HOSTILE}\n1\n".encode(), "a.csv", **typed)
    assert bad.status == 422
    pages = [
        visitor.get(sent.headers["Location"]),
        visitor.get(f"/detectors/{detector_id}/studies"),
        bad,
    ]
    for page in pages:
        assert "<script>alert" not in page.html
        assert "<img src=x" not in page.html
        assert HOSTILE in html.unescape(page.html)
        assert not page.find("style")
        assert not [one for one in page.elements if "style" in one.attributes]
