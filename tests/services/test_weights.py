"""Labels with a weight: a ratio beside the interval, of which nothing is promised."""

import io

import pytest
from click.testing import CliRunner

from tests.conftest import START, by, signed_in
from tests.imports import import_file
from tests.services.test_file_kinds import read
from tracker.cli import main
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.imports.inspecting import inspect, say_counts
from tracker.services.imports.reading.choices import METADATA, read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import RejectedImportError
from tracker.storage.database import Database

HEADER = "key,pred,label,weight\n"
ROWS = HEADER + "a,YES,NO,1\nb,YES,YES,10\nc,YES,YES,10\nd,NO,NO,2\n"


@pytest.fixture
def door(database: Database) -> Database:
    new = NewDetector(
        name="door", question="?", classes=["YES", "NO"], label_sampling="random"
    )
    with database.write() as session:
        create_detector(session, new, by(at=START))
    return database


def add(database: Database, content: str, *columns: str) -> list[str]:
    choices = read_choices(columns=columns, usual_extra=METADATA)
    file = open_named(io.BytesIO(content.encode()), "x.csv").read_by(choices)
    with database.write() as session:
        detector = get_detector(session, "door")
        return import_file(session, detector, file, by(at=START)).warnings


def estimate(database: Database, **choices: object) -> Estimate:
    with database.read() as session:
        detector = get_detector(session, "door")
        return get_estimate(session, detector, computed_at=START, **choices)


@pytest.mark.parametrize(
    ("column", "is_interval"),
    [
        ("weight\n", False),
        ("mass\n", True),
        ("sampling\n", False),
    ],
)
def test_a_file_promises_the_interval_that_its_import_gives(
    door: Database, column: str, is_interval: bool
) -> None:
    value = "targeted" if column.startswith("sampling") else "2"
    rows = (f"{n},YES,{'YES' if n % 3 else 'NO'},{value}\n" for n in range(9))
    content = f"key,pred,label,{column}{''.join(rows)}"
    choices = read_choices(usual_extra=METADATA)
    file = open_named(io.BytesIO(content.encode()), "x.csv").read_by(choices)
    said = " ".join(say_counts(inspect(file)))
    assert ("balanced accuracy" in said) == is_interval
    assert ("9 labels are targeted and give no interval" in said) != is_interval
    add(door, content)
    assert estimate(door).labels == (9 if is_interval else 0)


def test_weights_give_a_ratio_and_no_interval(door: Database) -> None:
    [warning] = add(door, ROWS)
    found = estimate(door)
    assert found.weighted is not None
    assert found.weighted.labels == 4
    assert found.weighted.overall == pytest.approx(22 / 23)
    assert found.weighted.classes == pytest.approx({"YES": 1, "NO": 2 / 3})
    assert found.weighted.balanced == pytest.approx(5 / 6)
    assert "no interval" in found.weighted.says
    assert "without an interval" in warning
    # They are no random sample, whatever the owner says of other labels.
    assert (found.labels, found.targeted_left_out) == (0, 4)
    assert found.decision is None


def test_a_chance_of_being_drawn_weighs_its_reciprocal(door: Database) -> None:
    add(door, "key,pred,label,p\na,YES,NO,1\nb,YES,YES,0.1\n", "probability=p")
    found = estimate(door).weighted
    assert found is not None
    assert found.overall == pytest.approx(10 / 11)
    # Of the other class nothing is known, but that all its labels were missed.
    assert found.classes == {"NO": 0, "YES": 1}


def test_labels_beside_weighted_ones_keep_their_interval(door: Database) -> None:
    add(door, ROWS)
    add(door, "key,pred,label\ne,YES,YES\nf,NO,YES\n")
    found = estimate(door)
    assert (found.labels, found.correct) == (2, (1, 0))
    assert found.weighted is not None
    assert found.weighted.labels == 4
    assert estimate(door, where=["predicted:YES"]).weighted is None


def test_a_label_that_is_corrected_has_no_weight(door: Database) -> None:
    add(door, ROWS)
    add(door, "key,label\na,YES\n")
    found = estimate(door).weighted
    assert found is not None
    assert (found.labels, found.overall) == (3, 1)


def test_a_word_on_how_labels_were_drawn_stays(door: Database) -> None:
    add(door, "key,pred,label,weight,sampling\na,YES,YES,2,random\n")
    assert (estimate(door).labels, estimate(door).targeted_left_out) == (1, 0)


def test_a_row_without_a_label_waits_as_ever(door: Database) -> None:
    add(door, HEADER + "a,YES,,3\nb,YES,YES,3\n")
    assert estimate(door).targeted_left_out == 1


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        (HEADER + "a,YES,NO,0\n", (), "more than 0"),
        (HEADER + "a,YES,NO,-1\n", (), "more than 0"),
        (HEADER + "a,YES,NO,much\n", (), "it must be a number"),
        ("key,pred,label,p\na,YES,NO,1.5\n", ("probability=p",), "at most 1"),
        ("key,pred,label,p\na,YES,NO,0\n", ("probability=p",), "above 0"),
        ("input,label,weight\nx,YES,2\n", (), "needs predicted or key"),
    ],
)
def test_what_is_no_weight_is_refused(
    door: Database, content: str, columns: tuple[str, ...], message: str
) -> None:
    with pytest.raises(RejectedImportError) as refused:
        add(door, content, *columns)
    assert message in str(refused.value.report.errors)


def test_other_columns_of_weights_are_named_as_ignored() -> None:
    rows, report = read("pred,label,sample_weight\nYES,YES,2\n")
    assert "weight" not in rows[0]
    assert report.warnings == [
        "the column 'sample_weight' looks like weights, which are not read: every "
        "label counts once; to read them, add --map weight=sample_weight"
    ]


def test_the_command_says_what_the_ratio_is_worth(door, database_url) -> None:
    add(door, ROWS)
    environ = {"TRACKER_DATABASE_URL": database_url}
    said = CliRunner().invoke(main, ["estimate", "door"], env=environ).output
    assert "weighted: 0.956522 overall, 0.833333 balanced, by 4 labels" in said
    assert "it has no interval" in said


def test_the_page_says_the_ratio_without_an_interval(door: Database, app) -> None:
    add(door, ROWS)
    browser = signed_in(app, "erin", "editor")
    for _ in range(2):
        text = " ".join(browser.get("/detectors/door").text.split())
        assert "By the weights of 4 labels it is right about 95.7" in text
        assert "it has no interval" in text
        add(door, "key,pred,label\ne,YES,YES\nf,NO,YES\n")
