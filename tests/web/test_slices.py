"""The pages of slices, thresholds and calibration."""

import html
import io
import re
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest

from tests.conftest import START, Clock, FillOnce
from tests.web.conftest import Shelf, Visitor
from tracker.services.detectors import get_detector
from tracker.services.estimates.projections import QUIET
from tracker.services.estimates.thresholds import get_calibration
from tracker.storage.database import Database


@pytest.fixture
def cameras(shelf: Shelf, recompute: Callable[[], None], fill_once: FillOnce) -> str:
    """A detector whose camera north is wrong half of the time."""

    def build() -> str:
        detector = shelf.add_detector(slices=["camera"], measure="overall")
        rows = []
        for number in range(400):
            camera = ("north", "south", "east", "<i>")[number % 4]
            is_wrong = number % 8 == 0
            rows.append(
                {
                    "key": str(number),
                    "predicted": "YES",
                    "label": "NO" if is_wrong else "YES",
                    "confidence": 0.6 if is_wrong else 0.9,
                    "metadata": {"camera": camera},
                }
            )
        shelf.add_queries(detector, rows)
        recompute()
        return detector

    return fill_once(build)


@pytest.mark.slow
def test_the_worst_camera_is_named_and_leads_to_its_mistakes(
    visitor: Visitor, cameras: str
) -> None:
    page = visitor.get(f"/detectors/{cameras}/slices")

    assert page.status == 200
    said = "Camera north is worse than the rest: overall accuracy 50.0 % against 100 %."
    assert page.by_id("answer-title").text == said
    assert "1 of 4 cameras is worse, with all tested together at 95 %" in page.text
    assert page.text.count("no difference shown") + page.text.count("Better") >= 3
    assert "<i>" not in page.html.replace("<i>Worse</i>", "")
    assert "See the 50 mistakes of north" in page.text
    listed = visitor.get(f"/detectors/{cameras}/mistakes?where=metadata.camera:north")
    assert "50 mistakes" in listed.text


def test_the_page_names_the_class_and_the_measure_in_which_a_slice_is_worse(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector = shelf.add_detector(slices=["camera"])
    rows = [
        {
            "predicted": "NO" if camera == "north" else label,
            "label": label,
            "metadata": {"camera": camera},
        }
        for _ in range(23)
        for camera, label in [
            ("north", "YES"),
            *[("south", "YES")] * 3,
            *[("north", "NO"), ("south", "NO")] * 10,
        ]
    ]
    shelf.add_queries(detector, rows)
    recompute()
    page = visitor.get(f"/detectors/{detector}/slices?pick=north&pick=south")
    said = "Camera north is worse than the rest: accuracy of YES 0 % against 100 %."
    assert page.by_id("answer-title").text == said
    assert "with all and classes tested together" not in page.text
    assert "↓ Worse in YES" in page.text
    assert "Mean of the classes; slices are compared class by class." in page.text
    picked = page.by_id("picked-title").text
    assert picked.startswith("The mean of the classes of north is ")
    assert picked.endswith(" points lower than that of south.")


def rows_of(html_text: str) -> list[str]:
    """Return the names of the slices in the order of the table."""
    return re.findall(r'name="pick" value="([^"]+)"', html_text)


def test_slices_are_sorted_and_found_over_all_of_them(
    visitor: Visitor, cameras: str
) -> None:
    path = f"/detectors/{cameras}/slices"
    assert rows_of(visitor.get(path).html)[0] == "north"
    assert rows_of(visitor.get(f"{path}?sort=-right").html)[-1] == "north"
    names = rows_of(visitor.get(f"{path}?sort=value").html)
    assert names == ["&lt;i&gt;", "east", "north", "south"]
    assert rows_of(visitor.get(f"{path}?q=OUT").html) == ["south"]
    assert rows_of(visitor.get(f"{path}?least=101").html) == []


def test_two_slices_are_compared_by_the_intervals_that_hold_for_all(
    visitor: Visitor, cameras: str
) -> None:
    page = visitor.get(f"/detectors/{cameras}/slices?pick=north&pick=east")
    said = page.by_id("picked-title").text
    found = re.fullmatch(
        r"north is right ([\d.]+).([\d.]+) points less .* east\.", said
    )
    assert found
    assert float(found[1]) < 50 < float(found[2])
    assert "95 % sure for any two cameras, however often you look" in page.text


def test_slices_of_unstated_labels_say_that_nobody_said_how_they_were_chosen(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector = shelf.add_detector(label_sampling=None)
    rows = [{"predicted": name, "label": name} for name in ("YES", "NO") * 4]
    shelf.add_queries(detector, rows)
    recompute()
    page = visitor.get(f"/detectors/{detector}/slices?by=predicted")
    assert "Nobody has said how the 8 labelled queries were chosen" in page.text
    assert "too few labels to tell" not in page.text


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["version", "predicted", "week"])
def test_the_built_in_cuts_have_pages(visitor: Visitor, cameras: str, by: str) -> None:
    page = visitor.get(f"/detectors/{cameras}/slices?by={by}")

    assert page.status == 200
    assert "400 labels" in page.text


@pytest.mark.thorough
def test_a_cut_that_there_is_not_is_an_error_in_words(
    visitor: Visitor, cameras: str
) -> None:
    assert visitor.get(f"/detectors/{cameras}/slices?by=site").status == 400


@pytest.mark.thorough
def test_a_file_of_slices(visitor: Visitor, cameras: str) -> None:
    answer = visitor.client.get(f"/detectors/{cameras}/slices.csv")

    assert answer.text.splitlines()[0].startswith("detector,version,by,value")
    assert len(answer.text.splitlines()) == 1 + 4 * 3


def test_a_parquet_file_of_slices_has_numbers(visitor: Visitor, cameras: str) -> None:
    answer = visitor.client.get(f"/detectors/{cameras}/slices.parquet")

    rows = pq.read_table(io.BytesIO(answer.data)).to_pylist()
    assert len(rows) == 4 * 3
    assert {row["queries"] for row in rows} == {100}
    assert {row["share"] for row in rows} == {0.25}


def test_a_key_is_declared_on_the_page(visitor: Visitor, cameras: str) -> None:
    form = visitor.get(f"/detectors/{cameras}/setup").form(
        f"/detectors/{cameras}/setup"
    )
    assert form["slices"] == "camera"
    visitor.post(f"/detectors/{cameras}/setup", {**form, "slices": "camera\n site \n"})
    page = visitor.get(f"/detectors/{cameras}/slices?by=metadata.site")

    assert "The queries are being counted by site." in page.text


def test_thresholds_say_from_which_confidence_on_answers_can_be_trusted(
    visitor: Visitor, cameras: str
) -> None:
    page = visitor.get(f"/detectors/{cameras}/thresholds?target=95")

    assert "at least 0.900 are at least 95" in page.text.replace("\u202f", " ")
    assert "whatever accuracy you type" in page.text
    assert "expected calibration error" in page.text
    assert "350 of 350" in page.text


def test_the_bounds_of_the_calibration_error_are_rounded_outward(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None], database: Database
) -> None:
    name = shelf.add_detector()
    row = {"predicted": "YES", "label": "YES", "confidence": 0.9}
    shelf.add_queries(name, [row] * 70)
    recompute()
    page = visitor.get(f"/detectors/{name}/thresholds").text

    shown = re.search(r"error of these bins is (\S+?)\N{EN DASH}(\S+) \(", page)
    with database.read() as session:
        detector = get_detector(session, name)
        found = get_calibration(session, detector, computed_at=START).ece
    assert shown is not None
    assert found is not None
    low, high = map(float, shown.groups())
    assert found.low - 0.001 < low <= found.low
    assert found.high <= high < found.high + 0.001


def test_a_row_leads_to_as_many_queries_as_it_counts(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector = shelf.add_detector()
    # At both ends of a bin, and with more digits than a page shows.
    ends = [float(f"0.{digit}") for digit in range(1, 10)]
    near = [0.0, 1.0, 1e-7, 1 - 0.32, 0.1 + 0.2, 2 / 3, 5e-324, 0.69999999999]
    rows = [
        {"predicted": "YES", "label": "NO", "confidence": confidence}
        for confidence in (*ends, *near)
    ]
    shelf.add_queries(detector, rows)
    recompute()
    page = visitor.get(f"/detectors/{detector}/thresholds").html
    row = r'"queries">(\d+)<.*?<a href="([^"]*)">(?:Mistakes|Queries)</a>'
    found = re.findall(row, page)
    assert len(found) > 15
    for count, address in found:
        listed = visitor.get(html.unescape(address))
        said = f"{count} queries" if count != "1" else "1 query"
        assert f"<h2>{said}</h2>" in listed.html, address


def test_without_a_confidence_the_page_says_what_to_send(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector = shelf.add_detector()
    shelf.add_queries(detector, [{"predicted": "YES", "label": "YES"}])

    page = visitor.get(f"/detectors/{detector}/thresholds")
    assert "No query came with a confidence." in page.text


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["", "x", "0", "100", "1e5", "9" * 5000])
def test_a_target_that_is_none_is_left_out(
    visitor: Visitor, cameras: str, target: str
) -> None:
    page = visitor.get(f"/detectors/{cameras}/thresholds?target={target}")

    assert page.status == 200


def test_the_precision_stands_on_overview_and_other_measures_on_changes(
    visitor: Visitor, cameras: str, recompute: Callable[[], None], clock: Clock
) -> None:
    # The snapshot after the last label is kept once no more come.
    clock.at += QUIET
    recompute()
    path = f"/detectors/{cameras}"
    (yes,) = visitor.get(f"{path}?by=precision").find("tr", class_="tone-1")
    (no,) = visitor.get(f"{path}?by=precision").find("tr", class_="tone-2")
    overall = visitor.get(f"{path}/changes?measure=overall&method=exact").text
    f1 = visitor.get(f"{path}/changes?measure=f1&method=exact").text

    assert "87.5 % 350 of 400 50 mistakes" in yes.text
    assert "not said yet" in no.text
    assert re.search(r"87\.5 % [\d.\N{EN DASH}]+ 350 of 400", overall)
    assert re.search(r"0 % 0\N{EN DASH}[\d.]+ 0 of 50", f1)
