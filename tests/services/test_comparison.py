"""Two versions side by side, from the labels committed so far."""

from collections.abc import Iterable

import pytest

from tests.conftest import by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.deciding import pairs
from tracker.services.deciding.comparison import Comparison
from tracker.services.detectors import change_version
from tracker.stats import (
    anytime,
    boxed_paired_difference,
    joint_paired_difference,
    paired_difference,
    unpaired_difference,
)

# (truth, what v1 said, what v2 said): by hand, YES gained 2, lost 1 of 4, and NO
# gained 1, lost 0 of 3.
BY_HAND = (
    ("YES", "NO", "YES"),
    ("YES", "NO", "YES"),
    ("YES", "YES", "NO"),
    ("YES", "NO", "NO"),
    ("NO", "YES", "NO"),
    ("NO", "NO", "NO"),
    ("NO", "NO", "NO"),
)


def log_pair(
    bench: Bench,
    name: str,
    said: tuple[str, str],
    labels: tuple[str | None, str | None],
    *,
    samplings: tuple[str, str] = ("random", "random"),
) -> None:
    for place in (0, 1):
        bench.log(
            said[place],
            labels[place],
            input=name,
            version=f"v{place + 1}",
            sampling=samplings[place],
        )


def log_by_hand(bench: Bench, rows: Iterable[tuple[str, str, str]] = BY_HAND) -> None:
    """Label one of the two in turn: the truth of an input is the same for both."""
    for number, (truth, was, now) in enumerate(rows):
        labels = (truth, None) if number % 2 else (None, truth)
        log_pair(bench, f"input-{number}", (was, now), labels)
    # The old one had its labels before the new one was asked.
    with bench.database.write() as session:
        known = by("alice", bench.clock())
        change_version(session, bench.attached(session), "v2", known, unseen=True)


def label_many(bench: Bench, pairs_of_a_class: int) -> None:
    """Import pairs of which the new version gets every 40th of YES right, newly."""
    rows = [
        {
            "input": f"{truth}-{number}",
            "version": version,
            "predicted": "NO" if version == "v1" and not number % 40 else truth,
            "label": truth,
        }
        for truth in ("YES", "NO")
        for version in ("v1", "v2")
        for number in range(pairs_of_a_class)
    ]
    with bench.database.write() as session:
        import_rows(
            session,
            bench.attached(session),
            rows,
            by("alice", bench.clock()),
            digest="many",
        )


def counted(comparison: Comparison) -> dict[str, tuple[int, int, int]]:
    assert comparison.paired is not None
    return {
        one.name: (one.gained, one.lost, one.pairs) for one in comparison.paired.classes
    }


def test_pairs_are_counted_as_by_hand(bench: Bench) -> None:
    log_by_hand(bench)

    found = bench.compare()

    assert (found.old, found.new, found.confidence_level) == ("v1", "v2", 0.95)
    assert counted(found) == {"YES": (2, 1, 4), "NO": (1, 0, 3)}
    assert found.paired is not None
    assert found.paired.pairs == 7
    assert [one.difference for one in found.paired.classes] == [1 / 4, 1 / 3]
    assert [one.p_value for one in found.paired.classes] == [1, 1]
    assert found.paired.balanced.difference == pytest.approx(7 / 24)
    assert (found.verdict, found.verdict_from) == ("undecided", "paired")


def test_the_labels_of_each_version_are_compared_as_of_different_queries(
    bench: Bench,
) -> None:
    log_by_hand(bench)

    unpaired = bench.compare().unpaired

    # A label counts for the version that was given it, and is replayed for the other.
    assert [(one.old.correct, one.old.labelled) for one in unpaired.classes] == [
        (0, 2),
        (1, 1),
    ]
    assert [(one.new.correct, one.new.labelled) for one in unpaired.classes] == [
        (1, 2),
        (2, 2),
    ]
    assert [one.difference for one in unpaired.classes] == [1 / 2, 0]
    low, high = unpaired_difference(([1, 2], [2, 2]), ([0, 1], [2, 1]), 0.95)
    assert unpaired.balanced.difference == 1 / 4
    assert (unpaired.balanced.low, unpaired.balanced.high) == (low, high)


def test_an_input_with_two_labels_counts_once_and_the_newer_one_counts(
    bench: Bench,
) -> None:
    log_pair(bench, "same", ("NO", "YES"), ("YES", "YES"))
    log_pair(bench, "torn", ("NO", "YES"), ("YES", "NO"))

    found = bench.compare()

    assert counted(found) == {"YES": (1, 0, 1), "NO": (0, 1, 1)}


def test_unclear_and_targeted_labels_are_no_truth(bench: Bench) -> None:
    log_pair(bench, "unclear", ("NO", "YES"), ("UNCLEAR", None))
    log_pair(
        bench,
        "targeted",
        ("NO", "YES"),
        (None, "YES"),
        samplings=("random", "targeted"),
    )
    assert bench.compare().paired is None
    log_pair(bench, "one unclear", ("NO", "YES"), ("UNCLEAR", "YES"))
    log_pair(
        bench,
        "one targeted",
        ("NO", "YES"),
        ("NO", "YES"),
        samplings=("targeted", "random"),
    )

    found = bench.compare()

    assert counted(found) == {"YES": (2, 0, 2), "NO": (0, 0, 0)}


def test_a_correction_moves_the_pair(bench: Bench) -> None:
    query = bench.log("YES", "YES", input="a", version="v1")
    bench.log("NO", input="a", version="v2")
    assert counted(bench.compare())["YES"] == (0, 1, 1)
    bench.label(query, "NO")
    assert counted(bench.compare()) == {"YES": (0, 0, 0), "NO": (1, 0, 1)}


def test_of_an_input_that_came_twice_the_first_query_counts(bench: Bench) -> None:
    bench.log("NO", input="a", version="v1")
    bench.log("YES", "YES", input="a", version="v2")
    bench.log("NO", "YES", input="a", version="v2")
    bench.log("NO", input="a", version="v2", key="again")
    assert counted(bench.compare())["YES"] == (1, 0, 1)
    bench.log("YES", input="a", version="v1")
    assert counted(bench.compare(old="v1", new="v2"))["YES"] == (1, 0, 1)


def test_other_versions_inputs_and_detectors_are_not_mixed_in(bench: Bench) -> None:
    log_by_hand(bench)
    bench.log("YES", "YES", input="only-1", version="v1")
    bench.log("YES", "YES", version="v1")
    bench.log("YES", "YES", version="v2")
    bench.log("NO", "YES", input="input-0", version="v3")
    other = Bench(bench.database, bench.clock, ["YES", "NO"], name="other")
    log_by_hand(other, [("NO", "YES", "NO")] * 3)

    assert counted(bench.compare(old="v1", new="v2")) == {
        "YES": (2, 1, 4),
        "NO": (1, 0, 3),
    }
    assert counted(other.compare()) == {"YES": (0, 0, 0), "NO": (3, 0, 3)}
    assert counted(bench.compare())["YES"] == (0, 1, 1)


def test_the_job_changes_nothing_in_the_comparison(bench: Bench, recompute) -> None:
    log_by_hand(bench)
    before = bench.compare()
    recompute()
    after = bench.compare()

    assert (before.paired, before.verdict) == (after.paired, after.verdict)
    assert before.unpaired.balanced == after.unpaired.balanced
    assert before.unpaired.classes == after.unpaired.classes


def test_swapping_the_versions_mirrors_everything(bench: Bench) -> None:
    log_by_hand(bench)
    there, back = bench.compare(), bench.compare(old="v2", new="v1")
    assert there.paired is not None
    assert back.paired is not None
    for one, other in (
        (there.paired.balanced, back.paired.balanced),
        (there.unpaired.balanced, back.unpaired.balanced),
    ):
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
        assert one.difference == pytest.approx(-(other.difference or 0))


@pytest.mark.thorough
def test_the_verdict_goes_by_pairs_once_every_class_has_one(bench: Bench) -> None:
    rows = [("YES", "NO", "YES")] * 12 + [("NO", "NO", "NO")] * 12
    log_by_hand(bench, rows[:12])
    found = bench.compare()
    assert (found.verdict_from, found.verdict) == ("paired", "undecided")
    assert found.decision is not None
    assert (found.decision.difference, found.decision.measure) == (None, "balanced")
    # It wins every disagreement, which says nothing of the other class.
    assert found.paired is not None
    assert found.paired.decision.low > 0.5
    assert found.paired.decision.verdict is None
    for number, (truth, was, now) in enumerate(rows[12:]):
        log_pair(bench, f"more-{number}", (was, now), (truth, truth))
    found = bench.compare()
    assert (found.verdict_from, found.verdict) == ("paired", "better")
    assert bench.compare(old="v2", new="v1").verdict == "worse"
    assert bench.compare(confidence_level=0.999).verdict == "undecided"


@pytest.mark.thorough
def test_disagreements_decide_where_every_input_counts_the_same(bench: Bench) -> None:
    log_by_hand(bench, [("YES", "NO", "YES")] * 12)
    with bench.database.write() as session:
        bench.attached(session).measure = "overall"
    found = bench.compare()
    assert found.paired is not None
    assert found.paired.decision.verdict == "better"
    assert (found.verdict_from, found.verdict) == ("paired", "better")
    assert found.decision is not None
    assert (found.decision.difference, found.decision.measure) == (1, "overall")


def test_a_class_without_pairs_leaves_its_difference_open(bench: Bench) -> None:
    log_by_hand(bench, [("YES", "NO", "YES")])

    paired = bench.compare().paired

    assert paired is not None
    no = paired.classes[1]
    assert (no.pairs, no.difference, no.low, no.high, no.p_value) == (0, None, -1, 1, 1)
    assert paired.balanced.difference is None
    assert -1 < paired.balanced.low < paired.balanced.high == 1


def test_many_pairs_are_bounded_by_their_number_alone(bench: Bench) -> None:
    label_many(bench, 180)
    exact = bench.compare().paired
    bench.log("NO", "NO", version="v1", input="one-more")
    bench.log("NO", version="v2", input="one-more")
    joint = bench.compare().paired

    assert exact is not None
    assert joint is not None
    assert (exact.method, exact.pairs) == ("exact", 360)
    assert (joint.method, joint.pairs) == ("joint", 361)
    for one, other in zip(exact.classes, joint.classes, strict=True):
        b, c, n = one.gained, one.lost, one.pairs
        assert (one.low, one.high) == paired_difference(b, c, n, 0.95)
        b, c, n = [other.gained], [other.lost], [other.pairs]
        assert (other.low, other.high) == joint_paired_difference(b, c, n, 0.95)


def test_of_many_classes_each_has_a_box(bench: Bench) -> None:
    assert pairs.choose_method([40, 40, 40], 0.95) == "exact"
    assert pairs.choose_method([90, 90, 90], 0.95) == "joint"
    assert pairs.choose_method([40, 40, 40, 40], 0.95) == "box"
    low, high = pairs._bound_class("box", 8, 1, 50, 0.95)
    assert (low, high) == boxed_paired_difference([8], [1], [50], 0.95)


def test_overall_counts_every_input_alike(bench: Bench) -> None:
    log_by_hand(bench)
    paired = bench.compare().paired
    assert paired is not None
    overall, decision = paired.overall, paired.decision
    assert (overall.pairs, overall.gained, overall.lost, overall.both) == (7, 3, 1, 2)
    assert overall.difference == 2 / 7
    assert (overall.low, overall.high) == paired_difference(3, 1, 7, 0.95)
    assert (decision.verdict, decision.method) == (None, "anytime")
    assert (decision.won, decision.lost) == (3, 1)
    assert (decision.low, decision.high) == anytime(3, 4, 0.95)
    balanced = joint_paired_difference([2, 1], [1, 0], [4, 3], 0.95)
    assert (paired.balanced.low, paired.balanced.high) == balanced


@pytest.mark.thorough
def test_every_level_has_an_answer(bench: Bench) -> None:
    log_by_hand(bench)
    widths = []
    for level in (5e-324, 0.5, 0.8, 0.95, 0.999_999, 0.999_999_999):
        paired = bench.compare(confidence_level=level).paired
        assert paired is not None
        assert paired.method == ("exact" if 0.8 <= level < 0.999_999_5 else "joint")
        widths.append(paired.balanced.high - paired.balanced.low)
    assert widths[2:] == sorted(widths[2:])


def test_without_a_choice_the_newest_is_compared_with_the_one_before(
    bench: Bench,
) -> None:
    for version in ("v1", "v2", "v3"):
        bench.log("YES", "YES", version=version)

    def names(**choices: object) -> tuple[str, str]:
        found = bench.compare(**choices)
        return found.old, found.new

    assert names() == ("v2", "v3")
    assert names(new="v2") == ("v1", "v2")
    assert names(old="v1") == ("v1", "v3")
    bench.log("YES", version="v1")
    # Queries went back to the first one.
    assert names() == ("v2", "v1")
    assert bench.compare().paired is None


@pytest.mark.parametrize(
    ("choices", "field"),
    [
        ({"old": "v9"}, "old"),
        ({"new": "v9"}, "new"),
        ({"new": "V1"}, "new"),
        ({"old": "*"}, "old"),
        ({"old": ""}, "old"),
        ({"old": "v1", "new": "v1"}, "new"),
        ({"old": "v2"}, "old"),
    ],
)
def test_a_wrong_choice_is_named(
    bench: Bench, choices: dict[str, str], field: str
) -> None:
    for version in ("v1", "v2"):
        bench.log("YES", "YES", version=version)
    with pytest.raises(InvalidInputError) as refused:
        bench.compare(**choices)
    assert [error.field for error in refused.value.errors] == [field]


def test_one_version_cannot_be_compared(bench: Bench) -> None:
    with pytest.raises(ConflictError, match="no version yet"):
        bench.compare()
    bench.log("YES", "YES", version="v1")
    for choices in ({}, {"old": "v1"}, {"new": "v1"}):
        with pytest.raises(ConflictError, match="only one version"):
            bench.compare(**choices)


def pair_up(bench: Bench, rows: list[tuple[str, str, str]]) -> None:
    """Log inputs with what v1 and v2 say of them, and their label."""
    for version, place in (("v1", 0), ("v2", 1)):
        bench.log_all(
            {
                "version": version,
                "input": f"{number}",
                "predicted": row[place],
                "label": row[2],
                "sampling": "random",
            }
            for number, row in enumerate(rows)
        )


@pytest.mark.parametrize("measure", ["balanced", "overall", "recall:YES"])
def test_an_undecided_comparison_says_how_many_more_pairs_decide_it(
    bench: Bench, measure: str
) -> None:
    rows = [("NO", "YES", "YES")] * 6 + [("YES", "NO", "YES")] + 40 * [("YES",) * 3]
    rows += [("NO", "NO", "NO")] * 30
    with bench.database.write() as session:
        bench.attached(session).measure = measure
    pair_up(bench, rows)
    found = bench.compare(old="v1", new="v2").decision
    assert found is not None
    assert found.verdict == "undecided"
    assert found.labels_to_decide is not None
    assert 5 < found.labels_to_decide < 500
