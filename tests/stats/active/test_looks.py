import json
from collections import Counter
from dataclasses import replace

import mpmath
import numpy as np
import pytest
from scipy.stats import chi2

from tests.conftest import IS_LONG
from tests.stats.active.replays import (
    Plan,
    Pool,
    carry_out,
    confident,
    several_classes,
    without_confidence,
)
from tracker.stats.active.betting import (
    EDGES,
    GRID,
    LOG_PRIOR,
    BalancedBets,
    ClassBets,
    balanced_ends,
    log_products,
)
from tracker.stats.active.forecast import (
    foresee,
    foresee_labels,
    imagine,
    imagine_average,
    label_shares,
    labels_needed,
)
from tracker.stats.active.ledger import OPEN, Goal, Step, build_rows
from tracker.stats.active.looks import Standing, look
from tracker.stats.active.rounds import Round
from tracker.stats.active.strata import (
    DIFFERS,
    MISSING,
    NO_CONFIDENCE,
    build_strata,
    choose_stratum,
    rank_of,
)

POOL = confident(600, 0.2, 1, sharpness=2.2)
LEDGER = carry_out(POOL, Plan(300), 1)
LOOK = look(LEDGER, 0.95)


def plain(one):
    return [np.asarray(x).tolist() for x in (*one.measures, *one.balanced)]


def cut(ledger, draws):
    rounds = sum(r.start < draws or r.start == 0 for r in ledger.rounds)
    return replace(
        ledger,
        drawn=ledger.drawn[:draws],
        labels=ledger.labels[:draws],
        rounds=ledger.rounds[:rounds],
        known=ledger.known[:rounds],
    )


def test_the_intervals_hold_what_is_true_and_close_in():
    truths = POOL.truths()
    assert (LOOK.measures.low <= truths).all()
    assert (LOOK.measures.high >= truths).all()
    assert LOOK.balanced.low < np.mean(truths[:2]) < LOOK.balanced.high
    assert LOOK.balanced.high - LOOK.balanced.low < 0.12
    assert np.abs(LOOK.estimates - truths).max() < 0.06


def test_a_record_read_back_from_json_gives_the_same_digits():
    stored = json.loads(json.dumps([r.as_json() for r in LEDGER.rounds]))
    again = replace(LEDGER, rounds=tuple(Round.from_json(one) for one in stored))
    assert plain(look(again, 0.95)) == plain(LOOK)


def test_looks_that_go_on_from_earlier_ones_give_the_same_digits():
    early = look(cut(LEDGER, 170), 0.95)
    stored = json.loads(json.dumps([one.as_json() for one in early.standings]))
    standings = tuple(Standing.from_json(one) for one in stored)
    assert plain(look(LEDGER, 0.95, standings=standings)) == plain(LOOK)


def test_what_stands_at_the_start_of_a_round_is_never_lost():
    for earlier, later in zip(LOOK.standings, LOOK.standings[1:], strict=False):
        for name in ("measures", "box", "balanced"):
            before, after = getattr(earlier, name), getattr(later, name)
            assert (after[..., 0] >= before[..., 0]).all()
            assert (after[..., 1] <= before[..., 1]).all()
        assert (later.box[:, 0] <= later.measures[:-1, 0]).all()


def test_draws_behind_an_open_one_wait_for_it():
    labels = LEDGER.labels.copy()
    labels[200] = OPEN
    waiting = look(replace(LEDGER, labels=labels), 0.95)
    assert waiting.settled == 200
    assert waiting.labelled[-1] == 299
    # All labels count for what is certain; the bets are those of 200 draws.
    early = look(cut(LEDGER, 200), 0.95)
    assert waiting.measures.low[0] == early.measures.low[0]
    assert (waiting.measures.low >= early.measures.low).all()
    assert (waiting.measures.high <= early.measures.high).all()
    assert waiting.balanced.high <= early.balanced.high
    assert plain(look(replace(LEDGER, labels=LEDGER.labels), 0.95)) == plain(LOOK)


def test_a_correction_is_a_replay_with_the_same_rounds():
    wrong = LEDGER.labels.copy()
    wrong[::9] = 1 - wrong[::9]
    falsely = look(replace(LEDGER, labels=wrong), 0.95)
    assert plain(falsely) != plain(LOOK)
    assert plain(look(replace(LEDGER, labels=LEDGER.labels), 0.95)) == plain(LOOK)


def test_an_exhausted_pool_leaves_nothing_open():
    for pool in (confident(60, 0.3, 2), several_classes(120, 7)):
        end = look(carry_out(pool, Plan(10**6), 3), 0.95)
        truths = np.array(pool.truths())
        assert np.abs(end.measures.low - truths).max() < 1e-5
        assert np.abs(end.measures.high - truths).max() < 1e-5
        assert end.balanced.high - end.balanced.low < 2e-5
        assert abs(end.balanced.low - truths[:-1].mean()) < 2e-5


def test_unclear_labels_tell_nothing():
    pool = replace(POOL, labels=np.full(600, 2))
    end = look(carry_out(pool, Plan(200), 1), 0.95)
    assert plain(end) == [[0] * 3, [1] * 3, 0, 1]


def test_a_class_that_is_never_predicted_is_missed_once_it_is_seen():
    labels = np.where(np.arange(200) < 100, 2, np.arange(200) % 2)
    pool = Pool(3, np.arange(200) % 2, np.full(200, 0.8), labels)
    end = look(carry_out(pool, Plan(60), 1), 0.95)
    assert (end.measures.low[2], end.measures.high[2]) == (0, 0)
    assert end.balanced.high <= 2 / 3 + 1e-5


def test_many_classes_and_extreme_confidences_are_served():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 50, 3000)
    predicted = np.where(rng.random(3000) < 0.9, labels, rng.integers(0, 50, 3000))
    sure = rng.choice([0.0, 1.0, np.nan, 0.5], 3000)
    end = look(carry_out(Pool(50, predicted, sure, labels), Plan(200), 1), 0.95)
    truth = np.mean([(predicted == labels)[labels == c].mean() for c in range(50)])
    assert end.balanced.low < truth < end.balanced.high
    assert end.balanced.high - end.balanced.low < 0.5


def test_one_query_is_a_pool():
    pool = Pool(2, np.array([0]), np.array([0.7]), np.array([0]))
    end = look(carry_out(pool, Plan(5), 1), 0.95)
    assert end.measures.low[0] > 0.9999
    with pytest.raises(ValueError, match="begins with a round"):
        look(carry_out(pool, Plan(0), 1), 0.95)


def test_the_strata_are_told_by_class_and_confidence():
    strata, index = build_strata(2, [0, 1, 1, 0, 1], [0.9, 0.9, np.nan, 0.9, 1.0])
    assert strata.sizes.sum() == 5
    assert index[0] == index[3]
    assert len(set(index.tolist())) == 4
    assert strata.bins[index[2]] == NO_CONFIDENCE
    assert strata.verdicts.shape == (4, 0)


def test_up_to_three_judges_are_told_apart_and_of_more_their_votes():
    said, sure = [0, 0, 0, 1], [0.9] * 4
    verdicts = [[0, 1, MISSING], [1, 0, MISSING], [0, 1, MISSING], [1, 0, MISSING]]
    strata, index = build_strata(2, said, sure, verdicts)
    assert len(strata.sizes) == 3
    assert index[0] == index[2]
    assert strata.verdicts[index].tolist() == verdicts
    more = [[*row, MISSING] for row in verdicts]
    strata, index = build_strata(2, said, sure, more)
    assert index.tolist() == [0, 0, 0, 1]
    assert strata.verdicts.tolist() == [
        [DIFFERS, MISSING, MISSING, 0],
        [DIFFERS, MISSING, MISSING, 1],
    ]
    for wrong in ([[0]] * 3, [[2]] * 4, [0] * 4, [[DIFFERS]] * 4):
        with pytest.raises(ValueError, match="verdicts must"):
            build_strata(2, said, sure, wrong)


def test_verdicts_never_make_more_strata_than_can_be_learnt_of():
    rng = np.random.default_rng(1)
    said = rng.integers(0, 2, 20_000)
    sure = 1 / (1 + np.exp(-rng.normal(2, 4, 20_000)))
    alone, _ = build_strata(2, said, sure)
    for judges, most in ((2, 400), (3, 400), (9, 3 * len(alone.sizes))):
        verdicts = rng.integers(MISSING, 2, (20_000, judges))
        strata, index = build_strata(2, said, sure, verdicts)
        assert len(alone.sizes) < len(strata.sizes) <= max(400, most)
        assert strata.sizes.tolist() == np.bincount(index).tolist()


@pytest.mark.parametrize(("rate", "most"), [(0.7, 800), (0.9, 400)])
def test_a_class_that_is_never_predicted_costs_few_labels(rate, most):
    labels = (np.arange(5000) >= rate * 5000).astype(int)
    pool = Pool(2, np.zeros(5000, int), np.full(5000, np.nan), labels)
    reached = []
    for seed in range(3):
        end = look(carry_out(pool, Plan(most, aim=2), seed), 0.95, wanted=(2,))
        reached.append(float(end.measures.high[2] - end.measures.low[2]) / 2)
    assert np.median(reached) <= 0.05


def test_a_judge_narrows_a_pass_rate_and_a_useless_one_hardly_widens_it():
    rng = np.random.default_rng(2)
    labels = rng.permutation((np.arange(20_000) >= 18_000).astype(int))
    said, none = np.zeros(20_000, int), np.full(20_000, np.nan)
    good = np.where(rng.random(20_000) < 0.95, labels, 1 - labels)[:, None]
    widths = []
    for verdicts in (None, rng.permutation(good), np.zeros((20_000, 1), int), good):
        pool = Pool(2, said, none, labels, verdicts)
        ends = [
            look(carry_out(pool, Plan(400, aim=2), seed), 0.95, wanted=(2,))
            for seed in range(9)
        ]
        found = [float(end.measures.high[2] - end.measures.low[2]) for end in ends]
        widths.append(float(np.median(found)))
    alone, useless, copy, helped = widths
    assert helped < 0.7 * alone
    assert useless <= 1.1 * alone
    assert copy <= 1.1 * alone


@pytest.mark.parametrize(
    ("predicted", "confidence"), [([3], [0.5]), ([0], [1.5]), ([], []), ([0, 1], [0.5])]
)
def test_what_is_no_pool_is_refused(predicted, confidence):
    with pytest.raises(ValueError, match=r"must"):
        build_strata(2, np.array(predicted, int), np.array(confidence))


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.full(300, 3)},
        {"drawn": np.zeros(300, int)},
        {"rounds": LEDGER.rounds[1:]},
        {"labels": LEDGER.labels[:-1]},
    ],
)
def test_a_record_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match=r"must|needs|more labels"):
        replace(LEDGER, **change)


def test_draws_follow_the_stated_chances_in_every_order():
    # Two strata, two queries each: 24 orders against successive sampling.
    weights = np.array([3, 1])
    found, chances = Counter(), {}
    keys = 100_000 if IS_LONG else 4_000

    def follow(order, left, chance):
        total = sum(weights[i // 2] for i in left)
        if not left:
            chances[order] = chance
        for item in left:
            rest = tuple(x for x in left if x != item)
            follow((*order, item), rest, chance * weights[item // 2] / total)

    follow((), (0, 1, 2, 3), 1.0)
    for number in range(keys):
        key = b"%d" % number
        lines = [sorted((0, 1), key=lambda i: rank_of(key, f"iq_{i}"))]
        lines += [sorted((2, 3), key=lambda i: rank_of(key, f"iq_{i}"))]
        left, order = np.array([2, 2]), []
        for draw in range(4):
            stratum = choose_stratum(key, draw, left, weights)
            order.append(lines[stratum][2 - left[stratum]])
            left[stratum] -= 1
        found[tuple(order)] += 1
    distance = sum((found[o] - keys * c) ** 2 / (keys * c) for o, c in chances.items())
    assert distance < chi2.isf(1e-4, 23)
    with pytest.raises(ValueError, match="nothing is left"):
        choose_stratum(b"", 0, np.zeros(2, int), weights)


def test_a_wealth_is_never_above_its_80_digits():
    rows = build_rows(LEDGER)
    for measure, sign in ((0, 1), (1, -1), (2, 1)):
        point = int((0.93, 0.7, 0.88)[measure] * GRID)
        cell = int(np.searchsorted(EDGES, point, side="right")) - 1
        bets = ClassBets(rows, measure, sign)
        shown = log_products(bets.factors(cell, point))
        with mpmath.workdps(80):
            r = mpmath.mpf(point) / GRID
            for bettor, found in zip(bets.bets_in(cell), shown, strict=True):
                exact = sum(
                    mpmath.log(1 + mpmath.mpf(bet) * sign * (mpmath.mpf(a) - r * b))
                    for bet, a, b in zip(
                        bettor.tolist(),
                        rows.right[:, measure].tolist(),
                        map(mpmath.mpf, rows.of[:, measure].tolist()),
                        strict=True,
                    )
                )
                assert found <= exact <= found + 1e-7


def test_between_two_looks_everything_passed_over_was_refuted():
    rows = build_rows(LEDGER)
    rng = np.random.default_rng(3)
    low = int(LOOK.measures.low[1] * GRID)
    before = LOOK.standings[-1].measures[1, 0]
    points = rng.integers(min(before, low - 50), low, 200)
    # What was refuted at this look or at an earlier one.
    best = np.full(len(points), -np.inf)
    for standing in (*[r.start for r in LEDGER.rounds], len(LEDGER.labels)):
        early = ClassBets(rows.first(standing), 1, 1)
        for place, point in enumerate(points):
            cell = int(np.searchsorted(EDGES, point, side="right")) - 1
            logs = np.log(early.factors(cell, int(point))).sum(axis=1)
            wealth = float(np.logaddexp.reduce(LOG_PRIOR + logs))
            best[place] = max(best[place], wealth)
    assert (best >= np.log(2 / 0.05) - 1e-6).all()


def test_for_two_classes_the_expansion_is_wider_than_the_corners():
    rows = build_rows(LEDGER)
    boxes = np.array([one.box for one in LOOK.standings])
    ends = np.array([balanced_ends(LEDGER, n, b) for n, b in enumerate(boxes)])
    box = boxes[-1]
    for sign, near in ((1, 0), (-1, 1)):
        bets = BalancedBets(rows, boxes[rows.which], ends[rows.which], sign)
        start = int(box[:, near].sum())
        corners, expansion = (
            bets.least_of_two(box),
            bets.minorant(box, start * sign),
        )
        for total in np.linspace(*box.sum(axis=0), 9).astype(int):
            assert (expansion(int(total)) <= corners(int(total)) + 1e-9).all()


NOTHING_KNOWN = np.zeros((len(POOL.strata.sizes), 3), dtype=int)


@pytest.mark.slow
def test_a_forecast_grows_with_what_is_asked():
    few, many = (
        foresee(POOL.strata, NOTHING_KNOWN, Goal(None, width, None), 0.95)
        for width in (0.1, 0.03)
    )
    assert 10 < few.labels < many.labels <= 600
    assert few.at_random < many.at_random <= 600
    decided = foresee(POOL.strata, NOTHING_KNOWN, Goal(None, None, 0.3), 0.95)
    assert 0 < decided.labels < many.labels
    again = foresee(POOL.strata, NOTHING_KNOWN, Goal(None, None, 0.3), 0.95)
    assert again == decided


def test_a_forecast_for_a_target_hardly_moves_with_labels_that_change_nothing():
    known, goal, found = NOTHING_KNOWN.copy(), Goal(None, None, 0.85), []
    for place in range(6):
        found.append(foresee_labels(POOL.strata, known, goal, 0.95))
        known[place, POOL.strata.predicted[place]] += 1
    assert max(found) <= 1.2 * min(found), found


@pytest.mark.slow
def test_a_forecast_for_a_rare_class_says_what_it_then_takes():
    pool = confident(20_000, 0.1, 5, sharpness=3.4)
    known = np.zeros((len(pool.strata.sizes), 3), dtype=int)
    foreseen = foresee(pool.strata, known, Goal(1, 0.06, None), 0.95)
    end = look(carry_out(pool, Plan(foreseen.labels, aim=1), 2), 0.95)
    reached = float(end.measures.high[1] - end.measures.low[1]) / 2
    assert 0.04 < reached < 0.09
    assert foreseen.labels <= 1.1 * foreseen.at_random


def test_an_imagined_audit_closes_in_and_ends_where_it_is_told():
    goal = Goal(None, 0.05, None)
    shares = label_shares(LEDGER, NOTHING_KNOWN, goal)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    drawn = imagine(
        *(POOL.strata, shares, NOTHING_KNOWN, goal, 0.95), is_even=True, draws=90
    )
    steps = list(drawn)
    assert [one.labels for one in steps] == [0, 48, 90]
    assert (steps[0].low, steps[0].high) == (0, 1)
    widths = [one.half_width for one in steps]
    assert widths == sorted(widths, reverse=True)


def test_a_target_bets_by_the_distance_from_it_and_by_half_a_point_at_least():
    goal = Goal(aim=2, half_width=None, target=0.9)
    assert goal.wanted(0.84) == pytest.approx(0.06)
    assert goal.wanted(0.95) == pytest.approx(0.05)
    assert goal.wanted(0.9) == goal.wanted(0.902) == 0.005
    assert Goal(2, 0.03, None).wanted(0.9) == 0.03


def test_what_is_needed_follows_from_the_width_so_far():
    goal = Goal(None, 0.05, None)
    assert labels_needed(Step(100, 0.8, 0.9), goal, 10**6) == 100
    assert labels_needed(Step(100, 0.7, 0.9), goal, 10**6) == 400
    # Of a small set the rest counts, and all of it is always enough.
    assert labels_needed(Step(100, 0.7, 0.9), goal, 150) == 134
    assert labels_needed(Step(0, 0.0, 1.0), goal, 150) == 150
    assert labels_needed(Step(100, 0.7, 0.9), Goal(None, None, 0.75), 10**6) == 400


@pytest.mark.thorough
def test_choosing_helps_where_confidences_speak_and_nowhere_else():
    speaking = confident(20_000, 0.1, 5, sharpness=3.4)
    gains, goal = [], Goal(1, 0.05, None)
    for pool in (speaking, without_confidence(speaking)):
        known = np.zeros((len(pool.strata.sizes), 3), dtype=int)
        ledger = carry_out(pool, Plan(200, aim=1), 1)
        shares = label_shares(ledger, known, goal)
        chosen, even = (
            imagine_average(
                pool.strata, shares, known, goal, 0.95, is_even=is_even, draws=600
            )[-1]
            for is_even in (False, True)
        )
        gains.append(even.half_width / chosen.half_width)
    assert gains[0] > 1.2
    assert gains[1] < 1.05


@pytest.mark.slow
def test_the_expected_half_width_is_reached():
    pool = confident(50_000, 0.03, 5, sharpness=3.4)
    widths = []
    for seed in range(5 if IS_LONG else 1):
        end = look(carry_out(pool, Plan(2100), seed), 0.95)
        widths.append(float(end.balanced.high - end.balanced.low) / 2)
    assert np.median(widths) <= 0.05
    # The labels that it took were to be expected from the confidences alone.
    known = np.zeros((len(pool.strata.sizes), 3), dtype=int)
    foreseen = foresee(pool.strata, known, Goal(None, 0.05, None), 0.95)
    assert 1300 <= foreseen.labels <= 2300
    assert foreseen.at_random >= 1.1 * foreseen.labels


def test_a_look_at_one_measure_finds_what_a_look_at_all_finds():
    one = look(LEDGER, 0.95, wanted=(1,), is_balanced=False)
    assert one.measures.low[1] == LOOK.measures.low[1]
    assert one.measures.high[1] == LOOK.measures.high[1]
    assert (one.measures.low[0], float(one.balanced.low)) == (0, 0)
    mean = look(LEDGER, 0.95, wanted=())
    assert mean.balanced == LOOK.balanced
    assert mean.measures.high.tolist() == [1, 1, 1]


# In each of these a bound had been refuted beyond what is true before the last label.
@pytest.mark.parametrize("seed", [49, 116, 188, 345])
def test_once_all_is_labelled_the_intervals_are_what_is_true(seed):
    pool = confident(60, 0.4, seed, sharpness=1.0)
    found = look(carry_out(pool, Plan(60), seed), 0.95)

    truths = np.array(pool.truths())
    for interval, truth in (
        (found.measures, truths),
        (found.balanced, truths[:2].mean()),
    ):
        assert (interval.low <= truth).all()
        assert (interval.high >= truth).all()
        assert (interval.high - interval.low <= 1 / GRID + 1e-15).all()
