"""Labels that judge the answer of one query, and not an input."""

import pytest

from tests.conftest import START, by
from tests.services.conftest import Bench
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.recount import recount
from tracker.services.evidence.truths import join_input
from tracker.services.imports.reports import RejectedImportError
from tracker.services.queries.queries import get_query_by_number
from tracker.storage.queries.queries import Query


@pytest.fixture
def judged(bench: Bench) -> Bench:
    """A detector whose answers pass or fail."""
    new = NewDetector(
        name="bot",
        question="Is the answer right?",
        classes=["pass", "fail"],
        label_sampling="random",
        label_of="answer",
        measure="overall",
        target=0.5,
    )
    with bench.database.write() as session:
        bench.detector = create_detector(session, new, by(at=START))
    return bench


def now(bench: Bench, query: Query) -> Query:
    with bench.database.read() as session:
        return get_query_by_number(session, bench.detector.id, query.id)


def test_the_label_of_one_answer_says_nothing_of_another(judged: Bench) -> None:
    old = judged.log("pass", "pass", version="v1", input="2 + 2")
    new = judged.log("pass", version="v2", input="2 + 2")
    assert now(judged, new).label is None
    judged.label(new, "fail", sampling="random")
    judged.label(old, "pass", sampling="random")
    assert (now(judged, old).label, now(judged, new).label) == ("pass", "fail")
    for version, right in (("v1", 1), ("v2", 0)):
        found = judged.estimate(version=version)
        assert found.population.kind == "live"
        assert (found.labels, sum(found.correct)) == (1, right)
        assert found.replayed_left_out == 0
    # Pooled, an input counts once, by the version that was put to it first.
    pooled = judged.estimate(version="*")
    assert (pooled.labels, sum(pooled.correct)) == (1, 1)
    with judged.database.read() as session:
        assert recount(session, judged.attached(session)) == []


def test_a_file_may_say_different_things_of_one_input(judged: Bench) -> None:
    rows = [
        {"version": version, "input": f"{n}", "predicted": "pass", "label": label}
        for n in range(30)
        for version, label in (("v1", "fail" if n < 20 else "pass"), ("v2", "pass"))
    ]
    judged.log_all(rows)
    assert sum(judged.estimate(version="v1").correct) == 10
    assert sum(judged.estimate(version="v2").correct) == 30
    found = judged.compare(old="v1", new="v2")
    assert found.paired is not None
    overall = found.paired.overall
    assert (overall.pairs, overall.gained, overall.lost) == (30, 20, 0)
    assert (overall.both, found.verdict) == (10, "better")


def test_an_input_that_is_given_later_brings_no_label_along(judged: Bench) -> None:
    known = judged.log("pass", version="v1", input="a")
    for label in (None, "fail"):
        late = judged.log("pass", label, version=f"v2 {label}")
        with judged.database.write() as session:
            detector = judged.attached(session)
            query = get_query_by_number(session, detector.id, late.id)
            join_input(session, detector, query, "a", by(at=judged.clock()))
        assert now(judged, late).label == label
        assert now(judged, known).label is None


def test_a_pair_counts_once_both_answers_are_judged(judged: Bench) -> None:
    judged.log("pass", "pass", version="v1", input="a")
    judged.log("pass", version="v2", input="a")
    assert judged.compare(old="v1", new="v2").paired is None


def test_versions_are_compared_by_their_overall_accuracy_only(judged: Bench) -> None:
    for version in ("v1", "v2"):
        judged.log("pass", "pass", version=version, input="a")
    with judged.database.write() as session:
        judged.attached(session).measure = "balanced"
    found = judged.compare(old="v1", new="v2")
    assert (found.decision, found.verdict) == (None, "undecided")
    assert "make it the measure" in (found.no_decision_because or "")


def test_a_label_of_an_input_alone_is_refused(judged: Bench) -> None:
    with pytest.raises(RejectedImportError) as caught:
        judged.log_all([{"input": "a", "label": "pass"}])
    [error] = caught.value.report.errors
    assert (error.field, "a label judges an answer" in error.message) == ("key", True)
