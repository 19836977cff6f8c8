"""What the rounds of a resampling study say."""

import pytest

from tests.services.conftest import Bench
from tests.services.irises import SEEDS, add, iris
from tracker.errors import InvalidInputError
from tracker.services.labelling.studies import (
    StudyReport,
    build_study_report,
    get_study,
)
from tracker.storage.labelling.studies import Study


def report(bench: Bench, study: Study, level: float | None = None) -> StudyReport:
    with bench.database.read() as session:
        return build_study_report(
            session, get_study(session, f"stu_{study.id}"), confidence_level=level
        )


def test_the_published_figures_of_the_irises_are_met(bench: Bench) -> None:
    """The t interval and the percentiles as they are printed; see tests/stats.

    The printed figures of the two rules, 0.9221 and 0.9249, have their weights the
    other way round than the papers that the rules are from, and than here.
    """
    study, _ = add(bench, iris())

    said = {
        one.method: (round(one.low, 4), one.high)
        for one in report(bench, study).intervals
    }

    assert said == {
        "bootstrap-t": (0.8795, 1),
        "percentile": (0.8696, 1),
        "632": (0.9002, 1),
        "632+": (0.8974, 1),
    }


def test_the_mean_belongs_to_its_method(bench: Bench) -> None:
    study, _ = add(bench, iris())

    means = {one.method: one.accuracy for one in report(bench, study).intervals}

    assert means["bootstrap-t"] == means["percentile"] == pytest.approx(0.946338)
    assert means["632"] == pytest.approx(0.958798)
    assert means["percentile"] < means["632+"] < means["632"]


def test_methods_need_their_columns(bench: Bench) -> None:
    for names, methods in (
        (["validation"], ["bootstrap-t", "percentile"]),
        (["validation", "training"], ["bootstrap-t", "percentile", "632"]),
        (["validation", "no_information"], ["bootstrap-t", "percentile"]),
    ):
        rounds = [{name: row[name] for name in names} for row in iris()]
        study, _ = add(bench, rounds, name=" ".join(names))
        intervals = report(bench, study).intervals
        assert [one.method for one in intervals] == methods


def test_seeds_have_an_interval_of_their_own(bench: Bench) -> None:
    study, _ = add(bench, SEEDS, kind="seeds")

    (interval,) = report(bench, study).intervals

    assert interval.method == "seeds-t"
    assert interval.accuracy == pytest.approx(0.92)
    # 0.92 and 2.776 standard errors of 0.0158 / sqrt 5 on either side.
    assert (interval.low, interval.high) == pytest.approx((0.90037, 0.93963), abs=1e-5)


def test_every_interval_says_that_it_is_an_approximation_and_of_what(
    bench: Bench,
) -> None:
    first, _ = add(bench, iris())
    second, _ = add(bench, SEEDS, kind="seeds", name="seeds")

    intervals = [
        *report(bench, first).intervals,
        *report(bench, second).intervals,
    ]

    assert len({one.meaning for one in intervals}) == 5
    for one in intervals:
        assert one.meaning.startswith("An approximation that covers ")
        assert "; it does not cover " in one.meaning
        assert one.meaning.endswith(".")


def test_the_level_is_that_of_the_detector_unless_given(bench: Bench) -> None:
    study, _ = add(bench, iris())

    usual, narrow = report(bench, study), report(bench, study, 0.5)

    assert usual.confidence_level == 0.95
    for wide, less in zip(usual.intervals, narrow.intervals, strict=True):
        assert wide.low < less.low
        assert wide.accuracy == less.accuracy
    for level in (0.0, 1.0, 95.0, float("nan")):
        with pytest.raises(InvalidInputError, match="confidence_level"):
            report(bench, study, level)
