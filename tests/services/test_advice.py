"""Advice: the class that is needed most, and what its labels cost at random."""

import math
import random
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.rounding import roughly
from tracker.services.deciding.gates import GateChoice, ask_gate
from tracker.services.deciding.planning import Goal, build_plan, price_audit
from tracker.services.estimates.decision import Advice, decide_verdict
from tracker.services.estimates.intervals import _KEPT, Claim, bound, bound_all, score
from tracker.services.evidence.measure import Measure, parse_measure
from tracker.stats import balanced_labels_to_decide

CRACKS = {"crack": {"crack": 7}, "fine": {"fine": 363, "crack": 14}}
RARE = {"DEFECT": {"DEFECT": 12}, "OK": {"OK": 380, "DEFECT": 8}}


def advice_on(confusion: Any, target: float, measure: str = "balanced") -> Advice:
    wanted = parse_measure(measure, confusion)
    found = decide_verdict(wanted, target, confusion, 0.95)
    assert found.verdict == "undecided"
    assert found.advice is not None
    return found.advice


def test_the_rare_class_is_named_and_not_the_one_that_comes_most() -> None:
    found = advice_on(CRACKS, 0.85)
    mixed = balanced_labels_to_decide([7, 363], [7, 377], 0.85, 0.95)
    assert mixed is not None
    assert found.name == "crack"
    assert found.labels == pytest.approx(mixed[0], abs=1)
    assert found.random_queries == sum(mixed)
    assert found.share == 7 / 384
    assert f"{roughly(found.labels)} more labels of crack decide it" in found.text
    assert "At 1.8 % of all labels" in found.text
    assert f"about {roughly(sum(mixed)):,} queries drawn at random" in found.text


@pytest.mark.parametrize("measure", ["balanced", "recall:DEFECT"])
def test_labels_of_a_class_of_three_percent_cost_thirty_three_random_ones(
    measure: str,
) -> None:
    found = advice_on(RARE, 0.9, measure)
    assert found.name == "DEFECT"
    assert found.labels is not None
    assert found.random_queries == pytest.approx(found.labels / 0.03, rel=0.04)


def test_measures_of_all_labels_and_of_predictions_name_no_class() -> None:
    alike = {"YES": {"YES": 23, "NO": 5}, "NO": {"YES": 3, "NO": 41}}
    overall = advice_on(alike, 0.8, "overall")
    assert (overall.name, overall.predicted, overall.share) == (None, None, 1)
    assert overall.labels == overall.random_queries
    precise = advice_on(alike, 0.85, "precision:YES")
    assert (precise.name, precise.predicted) == (None, "YES")
    assert precise.share == 26 / 72
    assert "of queries predicted as YES decide it" in precise.text


def test_a_class_without_labels_comes_first_and_nothing_is_said_once_decided() -> None:
    found = advice_on({"crack": {}, "fine": {"fine": 30}}, 0.8)
    assert (found.name, found.labels, found.random_queries) == ("crack", None, None)
    assert found.text == "Labels of crack are needed first."
    assert decide_verdict(Measure("balanced"), 0.5, CRACKS, 0.95).advice is None
    # At the target no number of labels can be foreseen.
    even = {"a": {"a": 9, "b": 1}, "b": {"b": 9, "a": 1}}
    assert decide_verdict(Measure("balanced"), 0.9, even, 0.95).advice is None


def test_estimate_plan_and_gate_give_one_advice(bench: Bench) -> None:
    rows = [("YES", "YES")] * 7 + [("NO", "NO")] * 363 + [("YES", "NO")] * 14
    bench.log_all({"predicted": said, "label": label} for said, label in rows)
    with bench.database.write() as session:
        bench.attached(session).target = 0.85
    estimate = bench.estimate()
    assert estimate.decision is not None
    advice = estimate.decision.advice
    assert advice is not None
    assert advice.name == "YES"
    plan = build_plan(estimate, Goal(), "balanced")
    assert plan.next is not None
    assert (plan.advice, plan.next.name) == (advice, "YES")
    with bench.database.read() as session:
        asked = ask_gate(
            session, bench.attached(session), GateChoice(), by("alice", bench.clock())
        )
    assert advice.text.removesuffix(".") in asked.checks[0].message


@pytest.mark.parametrize("is_sure", [True, False])
def test_a_plan_says_what_an_audit_would_take(bench: Bench, is_sure: bool) -> None:
    # Where the detector doubts what it has wrong, an audit asks about that.
    def row(number: int, label: str | None) -> dict[str, Any]:
        wrong = number % 12 == 0
        rare = number % 20 < 2
        truth, other = ("YES", "NO") if rare else ("NO", "YES")
        confidence = 0.9 if is_sure else 0.55 if wrong else 0.999
        said = {"predicted": other if wrong else truth, "confidence": confidence}
        return said | ({"label": truth} if label else {})

    bench.log_all(row(number, "known") for number in range(120))
    bench.log_all(row(number, None) for number in range(3_000))
    with bench.database.write() as session:
        bench.attached(session).target = 0.85
    estimate = bench.estimate()
    with bench.database.read() as session:
        estimate = price_audit(session, bench.attached(session), estimate)
    assert estimate.decision is not None
    advice = estimate.decision.advice
    assert advice is not None
    assert advice.random_queries is not None
    assert advice.audit_labels is not None
    plan = build_plan(estimate, Goal(), "balanced")
    assert plan.advice == advice
    fewer = f"An audit would take about {roughly(advice.audit_labels):,} labels."
    # All were asked within the last seven days.
    assert advice.weekly_labels == advice.audit_labels
    if not is_sure:
        assert advice.audit_labels < advice.random_queries / 2
    each = (
        f" An audit every week would take about {roughly(advice.weekly_labels):,} each."
    )
    assert advice.text.endswith(fewer + each)
    # A tenth less is within what one forecast is off.
    for most in (10**7, math.ceil(0.9 * advice.random_queries)):
        nothing = advice.model_copy(update={"text": "So."}).with_audit(most, most)
        no_more = "An audit every week would save nothing."
        assert nothing.text == f"So. An audit would save nothing. {no_more}"
    decided = advice.model_copy(update={"text": "So."}).with_audit(0)
    assert decided.text.endswith("so far would need no label more.")


def test_an_audit_that_has_not_decided_yet_is_not_said_to_need_no_label(
    bench: Bench,
) -> None:
    """The interval is narrow enough, but lies far from what the confidences say."""
    rows = [("YES", "YES")] * 7 + [("NO", "NO")] * 363 + [("YES", "NO")] * 14
    bench.log_all({"predicted": said, "label": label} for said, label in rows)
    bench.log_all({"predicted": "NO", "confidence": 0.9} for _ in range(5_000))
    with bench.database.write() as session:
        bench.attached(session).target = 0.9
    with bench.database.read() as session:
        found = price_audit(session, bench.attached(session), bench.estimate())
    assert found.decision is not None
    assert found.decision.advice is not None
    # After 48 the interval that is foreseen still holds the target.
    assert (found.decision.advice.audit_labels or 0) > 100
    assert "no label more" not in found.decision.advice.text


def test_the_price_of_a_week_is_of_the_last_seven_days(bench: Bench) -> None:
    def price() -> Advice:
        estimate = bench.estimate()
        with bench.database.read() as session:
            priced = price_audit(session, bench.attached(session), estimate)
        assert priced.decision is not None
        assert priced.decision.advice is not None
        return priced.decision.advice

    def row(number: int, label: str | None, day: str) -> dict[str, Any]:
        wrong = number % 8 == 0
        truth, other = ("YES", "NO") if number % 2 else ("NO", "YES")
        said = {"predicted": other if wrong else truth, "asked_at": f"{day}T09:00:00Z"}
        confidence = 0.55 if wrong else 0.99
        return said | {"confidence": confidence} | ({"label": truth} if label else {})

    with bench.database.write() as session:
        bench.attached(session).target = 0.85
    days = ((bench.clock() - timedelta(days=n)).date().isoformat() for n in (60, 2))
    long_ago, lately = days
    bench.log_all(row(n, "known", long_ago) for n in range(64))
    bench.log_all(row(n, None, long_ago) for n in range(2_000))
    found = price()
    assert (found.audit_labels or 0) > 0
    assert found.weekly_labels is None
    assert "every week" not in found.text
    # A small week cannot take more labels than it has queries.
    bench.log_all(row(n, None, lately) for n in range(40))
    found = price()
    assert found.weekly_labels is not None
    assert 0 < found.weekly_labels <= 40 < (found.audit_labels or 0)
    assert found.text.endswith(
        f"An audit every week would take about {roughly(found.weekly_labels):,} each."
    )


def test_the_intervals_of_many_verdicts_have_the_bits_of_each_alone() -> None:
    draw, claims = random.Random(7), []
    for classes in draw.choices((1, 2, 3, 10), k=60):
        counted = tuple(draw.randint(0, 60) for _ in range(classes))
        right = tuple(draw.randint(0, n) for n in counted)
        shares = tuple(draw.uniform(0.01, 1) for _ in range(classes))
        has_shares = classes > 1 and draw.random() < 0.5
        level = draw.choice((0.95, 0.975))
        claims.append(Claim(right, counted, shares if has_shares else None, level))
    together = bound_all(claims)
    _KEPT.clear()
    alone = [bound(one.right, one.counted, one.level, one.shares) for one in claims]
    assert together == alone


@pytest.mark.parametrize("shares", [None, (0.7, 0.2, 0.1)])
def test_the_calendar_of_a_fold_takes_the_interval_of_its_snapshot(
    shares: tuple[float, ...] | None,
) -> None:
    correct, labelled = [[30, 9, 2], [31, 9, 2]], [[33, 10, 2], [34, 10, 2]]
    _KEPT.clear()
    rows = score(correct, labelled, "anytime", 0.95, [shares, shares])
    claims = [
        Claim(tuple(k), tuple(n), shares, 0.95)
        for k, n in zip(correct, labelled, strict=True)
    ]
    assert [*_KEPT] == claims
    assert bound_all(claims) == [(row[0].low, row[0].high) for row in rows]
    _KEPT.clear()
    assert bound_all(claims) == [(row[0].low, row[0].high) for row in rows]
