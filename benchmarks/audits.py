"""How many labels an audit needs beside random ones, and how long it takes.

`exact` and `joint` are intervals for a number of labels that was chosen beforehand;
their column is the first number at which they are narrow enough.  `anytime`, `even`
(the bets of an audit on draws with equal chances) and `active` hold at every look.

The tables are as docs/benchmarks.md has them.  The sets of UCI come with scikit-learn,
and are left out without it.
"""

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from tests.stats.active.replays import Plan, hostile_judges, rates
from tracker import stats
from tracker.demo.digits import DETECTORS, DemoDetector, load_digits
from tracker.stats import (
    Goal,
    Ledger,
    build_strata,
    choose_stratum,
    look,
    next_round,
    rank_of,
    round_length,
)

METHODS = ("exact", "joint", "anytime", "even", "active")
LEVEL = 0.95
GOALS = (0.05, 0.03)
Ints = npt.NDArray[np.int64]
KEY = b"benchmark"
BALANCED = Goal(None, 0.05, None)
# Of a pass rate: what the judge is right of, "copies" for one that passes everything.
JUDGES = (None, 0.7, 0.85, 0.95, "copies", "useless")


class Audit:
    """An audit in memory, drawn item by item as in a database."""

    def __init__(  # noqa: PLR0913, PLR0917 - a set, and what is asked of it.
        self,
        said: Ints,
        sure: npt.ArrayLike,
        truth: Ints,
        seed: int,
        verdicts: Ints | None = None,
        goal: Goal = BALANCED,
    ) -> None:
        """Put a set in order, by numbers that *seed* draws."""
        self.goal, classes = goal, int(truth.max()) + 1
        self.truth, self.key = truth, KEY + str(seed).encode()
        self.strata, index = build_strata(classes, said, sure, verdicts)
        ranks = np.random.default_rng(seed).permutation(len(said))
        order = np.lexsort((ranks, index))
        ends = np.cumsum(self.strata.sizes)
        self.lines = np.split(order, ends[:-1])
        none = np.zeros(0, dtype=np.int64)
        self.ledger = Ledger(self.strata, (), (), none, none)
        self.known = np.zeros((len(self.strata.sizes), classes + 1), dtype=np.int64)
        self.carried: npt.NDArray[np.float64] | None = None
        self.seconds = {"round": 0.0, "next": 0.0, "look": 0.0}

    def begin_round(self, *, is_even: bool) -> None:
        """Write down the next round; even chances for all if *is_even*."""
        start = time.process_time()
        following = next_round(
            *(self.ledger, self.known, self.goal),
            is_even=is_even,
            carried=self.carried,
        )
        self.ledger = replace(
            self.ledger,
            rounds=(*self.ledger.rounds, following),
            known=(*self.ledger.known, self.known),
        )
        self.seconds["round"] = time.process_time() - start

    def draw(self, to: int, *, is_even: bool = False) -> None:
        """Draw and label up to the number *to*."""
        drawn, labels = self.ledger.drawn.tolist(), self.ledger.labels.tolist()
        taken = np.bincount(self.ledger.drawn, minlength=len(self.lines))
        while len(drawn) < min(to, len(self.truth)):
            begun = self.ledger.rounds[-1].start if self.ledger.rounds else None
            if begun is None or len(drawn) - begun >= round_length(begun):
                self.ledger = replace(
                    self.ledger,
                    drawn=np.array(drawn, int),
                    labels=np.array(labels, int),
                )
                self.begin_round(is_even=is_even)
            start = time.process_time()
            weights = self.ledger.rounds[-1].weights
            left = self.strata.sizes - taken
            stratum = choose_stratum(self.key, len(drawn), left, weights)
            drawn.append(stratum)
            labels.append(int(self.truth[self.lines[stratum][taken[stratum]]]))
            taken[stratum] += 1
            self.seconds["next"] = time.process_time() - start
        self.ledger = replace(
            self.ledger, drawn=np.array(drawn, int), labels=np.array(labels, int)
        )


def pool(n: int, share: float, seed: int, kind: str) -> tuple[Ints, npt.NDArray, Ints]:
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < share).astype(np.int64)
    score = rng.normal(0, 1, n) + np.where(truth == 1, 1.7, -1.7)
    odds = logit(share) + 3.4 * score
    sure = expit(np.abs(odds))
    if kind == "overconfident":
        sure = expit(np.abs(odds) * 3)
    if kind == "shuffled":
        sure = rng.permutation(sure)
    if kind == "none":
        sure = np.full(n, np.nan)
    return (odds > 0).astype(np.int64), sure, truth


def pass_rate(
    n: int, rate: float, judge: float | str | None, seed: int
) -> tuple[Ints, Ints | None]:
    """Return labels, 0 for a pass, and verdicts right of passes more than of fails."""
    rng = np.random.default_rng(1000 + seed)
    truth = rng.permutation((np.arange(n) >= round(rate * n)).astype(np.int64))
    if judge is None:
        return truth, None
    if judge == "copies":
        return truth, np.zeros((n, 1), np.int64)
    if isinstance(judge, str):
        return truth, rng.permutation(truth)[:, None]
    of_fails = judge - 0.1 * rate
    of_passes = (judge - (1.0 - rate) * of_fails) / rate
    is_right = np.empty(n, bool)
    for label, share in enumerate((of_passes, of_fails)):
        places = rng.permutation(np.flatnonzero(truth == label))
        is_right[places] = np.arange(len(places)) < share * len(places)
    return truth, np.where(is_right, truth, 1 - truth)[:, None]


def labels_of_goal(audit: Audit, most: int) -> float:
    """Return how many labels the goal takes, between the two looks around it."""
    standings: tuple = ()
    before, labels, half_width = (0, 1.0), 24, audit.goal.half_width
    aim = audit.goal.aim
    assert half_width is not None
    while labels < most:
        audit.draw(labels)
        found = look(
            *(audit.ledger, LEVEL),
            standings=standings,
            wanted=() if aim is None else (aim,),
            is_balanced=aim is None,
        )
        standings = found.standings
        low, high = found.balanced if aim is None else (x[aim] for x in found.measures)
        half = float(high - low) / 2
        if half <= half_width:
            was, now, wanted = (one**-2 for one in (before[1], half, half_width))
            share = (wanted - was) / max(now - was, 1e-12)
            return before[0] + share * (labels - before[0])
        before, labels = (labels, half), labels + round_length(labels)
    return np.inf


def judged(n: int, rates: Sequence[float], replays: int, most: int) -> Iterator[str]:
    goals = (0.05, 0.03, 0.02)
    yield f"| pass rate, judge | {' | '.join(f'± {goal:g}' for goal in goals)} |"
    yield f"|---|{'--:|' * len(goals)}"
    for rate in rates:
        for judge in JUDGES:
            cells = []
            for half_width in goals:
                runs = []
                for seed in range(replays):
                    truth, verdicts = pass_rate(n, rate, judge, seed)
                    said, none = np.zeros_like(truth), np.full(n, np.nan)
                    goal = Goal(2, half_width, None)
                    audit = Audit(said, none, truth, seed, verdicts, goal)
                    runs.append(labels_of_goal(audit, most))
                cells.append(f"{np.median(runs):,.0f}")
            yield f"| {rate:.0%}, {judge or 'none'} | {' | '.join(cells)} |"


def week(n: int, seed: int, *, has_judge: bool) -> tuple:
    """Return a week's labels, a tenth of them positive, and what is known of it.

    The detector is right in 90 %, its confidences tell where, a judge is right in 85 %.
    """
    rng = np.random.default_rng(seed)
    truth = (np.arange(n) < n // 10).astype(np.int64)
    wrong = np.minimum(expit(rng.normal(-3.35, 2.0, n)), 0.5)
    wrong = np.minimum(wrong * 0.1 / wrong.mean(), 0.5)
    said = np.where(rng.random(n) < wrong, 1 - truth, truth)
    judged = np.where(rng.random(n) < 0.85, truth, 1 - truth)[:, None]
    return said, 1.0 - wrong, truth, judged if has_judge else None


def weekly(n: int, replays: int, most: int) -> Iterator[str]:
    """Yield what a week takes with what 400 labels of the week before have taught."""
    yield f"| {n:,} queries | without a judge | with a judge right in 85 % |"
    yield "|---|--:|--:|"
    for aim, half_width in ((2, 0.05), (2, 0.03), (None, 0.05)):
        cells = []
        for has_judge in (False, True):
            runs = []
            for seed in range(replays):
                goal = Goal(aim, half_width, None)
                last, now = (
                    Audit(said, sure, truth, seed, judged, goal)
                    for said, sure, truth, judged in (
                        week(n, 2 * seed + part, has_judge=has_judge) for part in (0, 1)
                    )
                )
                last.draw(400)
                now.carried = stats.carry_over(last.ledger, None, now.strata)
                runs.append(labels_of_goal(now, most))
            low, middle, high = np.quantile(runs, (0.25, 0.5, 0.75))
            cells.append(f"{middle:,.0f} ({low:,.0f} to {high:,.0f})")
        name = "balanced" if aim is None else "overall"
        yield f"| {name} \N{PLUS-MINUS SIGN} {half_width:g} | {' | '.join(cells)} |"


def rechecked(n: int, count: int, replays: int) -> Iterator[str]:
    """Yield how wide re-checks of *count* of *n* labels leave the accuracies."""
    yield f"| {count} of {n:,}, wrong first labels | overall | balanced | process |"
    yield "|---|--:|--:|--:|"
    for error in (0.0, 0.02, 0.05):
        widths = []
        for seed in range(replays):
            rng = np.random.default_rng(seed)
            truth = rng.integers(0, 2, n)
            said = np.where(rng.random(n) < 0.9, truth, 1 - truth)
            first = np.where(rng.random(n) < error, 1 - truth, truth)
            pairs = 2 * said + first
            sizes = np.bincount(pairs, minlength=4)
            cells = tuple(stats.Cell(c // 2, c % 2, int(sizes[c])) for c in range(4))
            due = [
                stats.draw_times(KEY, f"{seed} {i}", differs=said[i] != first[i])[1]
                for i in range(n)
            ]
            draws = tuple(
                stats.Drawn(int(pairs[i]), int(truth[i]))
                for i in np.argsort(due)[:count]
            )
            found = stats.recheck_accuracies(2, cells, (), draws, LEVEL)
            overall = found.measures.high[2] - found.measures.low[2]
            others = (found.balanced, found.process)
            widths.append([overall, *(one.high - one.low for one in others)])
        cells_of = " | ".join(f"{one:.3f}" for one in np.median(widths, axis=0))
        yield f"| {error:.0%} | {cells_of} |"


def hostile(replays: int) -> Iterator[str]:
    """Yield how often intervals ever miss with judges that are made to mislead."""
    yield "| judge | aim | classes | overall | balanced |"
    yield "|---|---|--:|--:|--:|"
    for name, (pool, options) in hostile_judges().items():
        plan = Plan(**options)
        *classes, overall, balanced = (
            f"{one:.3f}" for one in rates(pool, plan, replays, LEVEL)
        )
        judge = name.removeprefix("judge: ").removesuffix(", overall")
        aim = "balanced" if plan.aim is None else "overall"
        yield f"| {judge} | {aim} | {', '.join(classes)} | {overall} | {balanced} |"


def steps(most: int) -> list[int]:
    return sorted({round(60 * 1.08**i) for i in range(200) if 60 * 1.08**i < most})


def reached(widths: Iterator[tuple[int, float, float]]) -> dict[tuple[str, float], int]:
    """Return the first number of labels with each half-width, of both aims."""
    found: dict[tuple[str, float], int] = {}
    for labels, balanced, rarest in widths:
        for goal in GOALS:
            for name, width in (("balanced", balanced), ("rarest", rarest)):
                if width <= 2 * goal:
                    found.setdefault((name, goal), labels)
        if len(found) == 2 * len(GOALS):
            break
    return found


def audit_widths(
    audit: Audit, most: int, *, is_even: bool
) -> Iterator[tuple[int, float, float]]:
    rarest = int(np.argmin(np.bincount(audit.truth)))
    standings: tuple = ()
    for labels in steps(most):
        audit.draw(labels, is_even=is_even)
        found = look(audit.ledger, LEVEL, standings=standings)
        standings = found.standings
        width = found.measures.high - found.measures.low
        balanced = float(found.balanced.high - found.balanced.low)
        yield labels, balanced, float(width[rarest])


def random_widths(
    said: Ints, truth: Ints, most: int, *, seed: int, method: str
) -> Iterator[tuple[int, float, float]]:
    order = np.random.default_rng(seed).permutation(len(truth))
    classes = int(truth.max()) + 1
    rarest = int(np.argmin(np.bincount(truth)))
    for labels in steps(min(most * 4, len(truth))):
        part = order[:labels]
        n = np.bincount(truth[part], minlength=classes)
        k = np.bincount(truth[part][said[part] == truth[part]], minlength=classes)
        balanced = stats.balanced_interval(method, k, n, LEVEL)
        one = stats.class_intervals(method, k, n, LEVEL)
        yield (
            labels,
            float(balanced.high - balanced.low),
            float((one.high - one.low)[rarest]),
        )


def labels_needed(replays: int, most: int, methods: Sequence[str]) -> Iterator[str]:
    yield f"| set | goal | {' | '.join(methods)} |"
    yield f"|---|---|{'--:|' * len(methods)}"
    for share, kind in (
        (0.4, "calibrated"),
        (0.1, "calibrated"),
        (0.03, "calibrated"),
        (0.03, "overconfident"),
        (0.03, "shuffled"),
        (0.03, "none"),
    ):
        said, sure, truth = pool(50_000, share, 1, kind)
        name = f"{share:.0%}, {kind}"
        yield from rows_of(name, said, sure, truth, replays, most, methods)
    for detector in DETECTORS:
        said, sure, truth = digits_of(detector)
        name = f"digits, {detector.name} v2"
        yield from rows_of(name, said, sure, truth, replays, most, methods)
    for name, (said, sure, truth) in uci_sets():
        yield from rows_of(name, said, sure, truth, replays, most, methods)


def uci_sets() -> Iterator[tuple[str, tuple[Ints, npt.NDArray, Ints]]]:
    """Yield what two classifiers say of each set, each query out of its fold."""
    try:
        from sklearn import (  # type: ignore[import-untyped]  # noqa: PLC0415
            datasets,
            linear_model,
            model_selection,
            naive_bayes,
            pipeline,
            preprocessing,
        )
    except ImportError:
        return
    for title, load in (
        ("breast cancer", datasets.load_breast_cancer),
        ("wine", datasets.load_wine),
    ):
        inputs, truth = load(return_X_y=True)
        for kind, model in (
            ("logistic", linear_model.LogisticRegression(max_iter=2000)),
            ("naive Bayes", naive_bayes.GaussianNB()),
        ):
            scaled = pipeline.make_pipeline(preprocessing.StandardScaler(), model)
            chances = model_selection.cross_val_predict(
                scaled, inputs, truth, cv=5, method="predict_proba"
            )
            said = chances.argmax(axis=1)
            yield f"{title}, {kind}", (said, chances.max(axis=1), truth)


def digits_of(detector: DemoDetector) -> tuple[Ints, npt.NDArray, Ints]:
    """Return what the newer version said of all digits, how surely, and the truth."""
    digits, classes = load_digits(), list(detector.classes)
    found = [one.predictions[detector.name, detector.versions[-1]] for one in digits]
    said = np.array([classes.index(one.predicted) for one in found])
    sure = np.array([one.confidence for one in found])
    truth = np.array([classes.index(detector.label_of(one.digit)) for one in digits])
    return said, sure, truth


def rows_of(  # noqa: PLR0913, PLR0917 - a set, and how long to look at it.
    title: str,
    said: Ints,
    sure: npt.NDArray,
    truth: Ints,
    replays: int,
    most: int,
    methods: Sequence[str],
) -> Iterator[str]:
    """Yield for each goal how many labels each method needs."""
    columns = []
    for method in methods:
        runs = []
        for seed in range(replays):
            if method in {"even", "active"}:
                is_even = method == "even"
                audit = Audit(said, sure, truth, seed)
                widths = audit_widths(audit, most, is_even=is_even)
            else:
                widths = random_widths(said, truth, most, seed=seed, method=method)
            runs.append(reached(widths))
        columns.append(runs)
    for name in ("balanced", "rarest"):
        for goal in GOALS:
            cells = [
                np.median([run.get((name, goal), np.inf) for run in runs])
                for runs in columns
            ]
            shown = [f"{one:,.0f}" if one < np.inf else "\N{EN DASH}" for one in cells]
            yield f"| {title} | {name} ± {goal:g} | {' | '.join(shown)} |"


def timings(n: int, labels: int) -> Iterator[str]:
    yield f"{n:,} queries, {labels:,} labels; seconds of processor time"
    yield f"{'classes':>8}{'set-up':>9}{'next':>9}{'label':>9}{'look':>9}{'round':>9}"
    for classes in (2, 10):
        rng = np.random.default_rng(1)
        truth = rng.integers(0, classes, n)
        wrong = rng.random(n) < 0.1
        said = np.where(wrong, rng.integers(0, classes, n), truth)
        sure = np.clip(rng.beta(8, 1, n) - 0.2 * wrong, 0.01, 0.9999)
        start = time.process_time()
        for number in range(n // 100):
            rank_of(KEY, f"iq_{number}")
        hashing = 100 * (time.process_time() - start)
        start = time.process_time()
        audit = Audit(said, sure, truth, 1)
        setup = time.process_time() - start + hashing
        audit.draw(labels)
        first = look(audit.ledger, LEVEL)
        audit.draw(labels + 1)
        start = time.process_time()
        ledger = replace(audit.ledger, labels=audit.ledger.labels)
        label = time.process_time() - start
        start = time.process_time()
        look(ledger, LEVEL, standings=first.standings)
        looked = time.process_time() - start
        audit.begin_round(is_even=False)
        yield (
            f"{classes:>8}{setup:>9.2f}{audit.seconds['next']:>9.5f}{label:>9.5f}"
            f"{looked:>9.3f}{audit.seconds['round']:>9.3f}"
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"{peak:.0f} MB at most, the set itself included"


def many_strata(n: int, labels: int) -> Iterator[str]:
    """Yield how long a round and a look take with the verdicts of two judges."""
    said, sure, truth, first = week(n, 1, has_judge=True)
    rng = np.random.default_rng(1)
    second = np.where(rng.random(n) < 0.2, 1 - truth, truth)
    second[rng.random(n) < 0.1] = -1
    verdicts = np.column_stack([first[:, 0], second])
    audit = Audit(said, sure, truth, 1, verdicts, Goal(2, 0.03, None))
    audit.draw(labels)
    standings = look(audit.ledger, LEVEL).standings[:-1]
    for name, do in (
        ("round", lambda: next_round(audit.ledger, audit.known, audit.goal)),
        ("look", lambda: look(audit.ledger, LEVEL, standings=standings)),
    ):
        times = []
        for _ in range(9):
            start = time.process_time()
            do()
            times.append(1000 * (time.process_time() - start))
        strata = len(audit.strata.sizes)
        yield f"{strata} strata, {labels:,} labels: a {name} {np.median(times):.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replays", type=int, default=3)
    parser.add_argument("--most-labels", type=int, default=12_000)
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--pass-rates", nargs="*", type=float, default=[0.7, 0.9, 0.97])
    parser.add_argument("--weeks", type=int, default=15)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS)
    parser.add_argument("--hostile", type=int, metavar="REPLAYS")
    arguments = parser.parse_args()
    if arguments.hostile:
        for line in hostile(arguments.hostile):
            print(line, flush=True)
        return
    for line in timings(arguments.queries, 2_000):
        print(line, flush=True)
    for line in many_strata(50_000, 1_000):
        print(line, flush=True)
    print()
    replays, most = arguments.replays, arguments.most_labels
    for line in judged(50_000, arguments.pass_rates, replays, most):
        print(line, flush=True)
    print()
    for line in weekly(10_000, max(replays, arguments.weeks), most):
        print(line, flush=True)
    print()
    for line in rechecked(1_000, 200, max(replays, arguments.weeks)):
        print(line, flush=True)
    if not arguments.methods:
        return
    print()
    for line in labels_needed(replays, most, arguments.methods):
        print(line, flush=True)


if __name__ == "__main__":
    main()
