"""What an audit must say, by its proof, written a second time in plain Python.

A record is what the exports say of the strata, the frozen rounds and the draws.
Nothing here imports what computes audits.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

GRID, UNIT = 2**17, 2**20
# The bettors: seven fixed distances, and two around the half-width that is wanted.
_DISTANCES = [0.8 / 2**n for n in range(7)]
_SHARES = [Fraction(n, 116) for n in (4, 8, 16, 16, 8, 4, 2, 29, 29)]
_MARKS = [*(n / 10 for n in range(6)), *(0.5 + n / 20 for n in range(1, 9))]
_MARKS += [0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985, 0.99, 0.995, 1.0]
_CELLS = [round(one * GRID) / GRID for one in _MARKS]

Stratum = tuple[Any, ...]


@dataclass(frozen=True)
class Drawn:
    """A draw that was answered: of which stratum, and what people said."""

    stratum: int
    predicted: str
    label: str


@dataclass
class Record:
    """One accuracy of an audit, overall or *of* a class, as its proof follows it."""

    classes: Sequence[str]
    # How many queries each stratum has, and what was predicted of them.
    sizes: Sequence[int]
    predicted: Sequence[str]
    rounds: Sequence[Mapping[str, Any]]
    # Of each round: the labels that were there without a draw.
    known: Sequence[Counter[tuple[int, str]]]
    draws: Sequence[Drawn]
    of: str | None = None
    # Answered behind the first open draw: no evidence yet, but what is certain.
    behind: Sequence[Drawn] = ()
    rows: list["Row"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = [*build_rows(self)]

    def is_of(self, label: str) -> bool:
        return label == self.of if self.of else label in self.classes

    @property
    def spread_at(self) -> int:
        return self.classes.index(self.of) if self.of else len(self.classes)


def read_exported(record: Mapping[str, Any], of: str | None = None) -> Record:
    """Return the record that an export holds, up to the first open draw."""
    predicted = [one["predicted"] for one in record["strata"]]
    open_ones = [one["draw"] for one in record["draws"] if one["label"] is None]
    first_open = min(open_ones, default=len(record["draws"]))
    answered, behind = (
        [
            Drawn(one["stratum"], one["predicted"], one["label"])
            for one in record["draws"]
            if one["label"] is not None and (one["draw"] > first_open) == is_behind
        ]
        for is_behind in (False, True)
    )
    labels = [*record["classes"], "UNCLEAR"]
    known = [
        Counter(
            {
                (stratum, name): n
                for stratum, row in enumerate(one["known"])
                for name, n in zip(labels, row, strict=True)
                if n
            }
        )
        for one in record["rounds"]
    ]
    sizes = [one["queries"] for one in record["strata"]]
    rounds = record["rounds"]
    common = record["classes"], sizes, predicted, rounds, known
    return Record(*common, answered, of, behind)


def certain_bounds(record: Record) -> tuple[float, float]:
    """Return what the labels leave possible, whatever the others turn out to be."""
    known = record.known[-1]
    there = [(record.predicted[b], label) for b, label in known.elements()]
    draws = [*record.draws, *record.behind]
    there += [(one.predicted, one.label) for one in draws]
    of = sum(record.is_of(label) for _, label in there)
    right = sum(record.is_of(label) and said == label for said, label in there)
    taken = Counter(b for b, _ in known.elements())
    taken.update(one.stratum for one in draws)
    left = Counter[bool]()
    for b, n in enumerate(record.sizes):
        left[record.is_of(record.predicted[b])] += n - taken[b]
    others = left[False] + (0 if record.of else left[True])
    low = Fraction(right, of + others) if of + others else Fraction(0)
    best = of + left[True]
    return float(low), float(1 - Fraction(of - right, best)) if best else 1.0


@dataclass(frozen=True)
class Row:
    """What one draw says: right less r times of has the mean zero at the truth."""

    right: Fraction
    of: Fraction
    # The part of both that was known before the draw, and of right the surprise.
    right_off: Fraction
    of_off: Fraction
    reach: int
    spread: float
    wanted: float
    ends: tuple[tuple[float, float], tuple[float, float]]
    # Of a class one end is of those predicted so, the other of all others.
    is_of_class: bool


def chances(record: Record, frozen: Mapping[str, Any]) -> list[dict[str, int]]:
    """Return what the model of a round thinks of each stratum, in units of 1/UNIT."""
    found = []
    for place, said in enumerate(record.predicted):
        wrong = frozen["wrong"][place]
        row = zip(record.classes, frozen["rows"][place], strict=True)
        one = {name: wrong * units // UNIT for name, units in row}
        found.append(one | ({said: UNIT - wrong} if said in one else {}))
    return found


def build_rows(record: Record) -> Iterator[Row]:
    """Yield what each draw says, by fractions."""
    starts = [one["start"] for one in record.rounds]
    seen_right = seen_of = 0
    drawn: Counter[int] = Counter()
    for number, frozen in enumerate(record.rounds):
        stop = [*starts, len(record.draws)][number + 1]
        known = record.known[number]
        there = Counter(place for place, _ in known.elements())
        left = [n - drawn[b] - there[b] for b, n in enumerate(record.sizes)]
        model = chances(record, frozen)
        said = [
            one.get(p, 0) * record.is_of(p)
            for one, p in zip(model, record.predicted, strict=True)
        ]
        some = [sum(n for x, n in one.items() if record.is_of(x)) for one in model]
        ends = _ends(record, frozen["weights"], left, said, some)
        first = sum(n * w for n, w in zip(left, frozen["weights"], strict=True))
        known_of = sum(n for (_, x), n in known.items() if record.is_of(x))
        known_right = sum(
            n
            for (b, label), n in known.items()
            if record.is_of(label) and label == record.predicted[b]
        )
        for one in record.draws[frozen["start"] : stop]:
            b, weight = one.stratum, frozen["weights"][one.stratum]
            reach = sum(n * w for n, w in zip(left, frozen["weights"], strict=True))
            is_of = record.is_of(one.label)
            is_right = is_of and one.label == one.predicted
            off = [
                Fraction(sum(n * q for n, q in zip(left, of, strict=True)), UNIT) + seen
                for of, seen in (
                    (said, seen_right + known_right),
                    (some, seen_of + known_of),
                )
            ]
            right, of = (
                off[k] + (Fraction(is_so) - Fraction(q[b], UNIT)) * reach / weight
                for k, (is_so, q) in enumerate(((is_right, said), (is_of, some)))
            )
            spread = frozen["spreads"][record.spread_at] * (reach / first) ** 2
            wanted = frozen["wanted"]
            yield Row(right, of, *off, reach, spread, wanted, ends, bool(record.of))
            left[b] -= 1
            drawn[b] += 1
            seen_right, seen_of = seen_right + is_right, seen_of + is_of


def _ends(
    record: Record,
    weights: Sequence[int],
    left: Sequence[int],
    said: Sequence[int],
    some: Sequence[int],
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Bound what a draw can be against either side, at r = 0 and at r = 1."""
    there = [b for b, n in enumerate(left) if n > 0]
    q = {b: (said[b] / UNIT, some[b] / UNIT, weights[b]) for b in there}
    if record.of:
        is_said = {b: record.predicted[b] == record.of for b in there}
        pairs = [(e / w, (1 - e) / w, is_said[b]) for b, (_, e, w) in q.items()]
        return (
            (
                max((here for here, _, own in pairs if own), default=0.0),
                max((away for _, away, own in pairs if not own), default=0.0),
            ),
            (
                max((away for _, away, own in pairs if own), default=0.0),
                max((here for here, _, own in pairs if not own), default=0.0),
            ),
        )
    return (
        (
            max(s / w for s, _, w in q.values()),
            max((s + 1 - e) / w for s, e, w in q.values()),
        ),
        (
            max((1 - s) / w for s, _, w in q.values()),
            max((e - s) / w for s, e, w in q.values()),
        ),
    )


def log_wealth(rows: Sequence[Row], r: Fraction, sign: int) -> float:
    """Return the wealth of those who bet that the accuracy is above (1) or below r."""
    side = 0 if sign > 0 else 1
    lower = max(c for c in _CELLS[:-1] if c <= r)
    cell = lower, min(c for c in _CELLS if c > lower)
    logs = [math.log(share) for share in _SHARES]
    for row in rows:
        least = max(_against(row, x, sign, side) for x in cell)
        gain = float(sign * (row.right - r * row.of))
        distances = [*_DISTANCES, 1.25 * row.wanted, 0.8 * row.wanted]
        for place, distance in enumerate(distances):
            bet = 1 / (row.spread / distance + max(0.0, least))
            logs[place] += math.log1p(bet * gain)
    top = max(logs)
    return top + math.log(sum(math.exp(one - top) for one in logs))


def _against(row: Row, r: float, sign: int, side: int) -> float:
    ends = row.ends[side]
    off = float(row.right_off) - r * float(row.of_off)
    parts = (1 - r) * ends[0], r * ends[1]
    return row.reach * (max(parts) if row.is_of_class else sum(parts)) - sign * off


def most_evidence(record: Record, r: float, sign: int) -> float:
    """Return the largest wealth against *r* at the start of a round, or now."""
    point = Fraction(min(max(r, 0.0), 1.0))
    marks = {one["start"] for one in record.rounds} | {len(record.draws)}
    return max(log_wealth(record.rows[:mark], point, sign) for mark in marks)


def check_interval(
    record: Record,
    bounds: tuple[float, float],
    certain: tuple[float, float],
    level: float,
) -> None:
    """Check that all outside of *bounds* is refuted, and hardly more.

    What lies outside of *certain* is refuted by the labels that are there.
    """
    needed = math.log(2 / (1 - level))
    step, near, slack = 1 / GRID, 0.01, 1e-6
    assert certain[0] - step <= bounds[0] <= bounds[1] <= certain[1] + step
    for bound, sign in zip(bounds, (1, -1), strict=True):
        for part in (1.0, 0.75, 0.5, 0.25):
            end = 0.0 if sign > 0 else 1.0
            at = end + part * (bound - sign * step - end)
            if certain[0] < at < certain[1]:
                found = most_evidence(record, at, sign)
                assert found >= needed - slack, (bound, sign, at, found)
        found = most_evidence(record, bound + sign * near, sign)
        assert found < needed + slack, (bound, sign, found)


def change_since(
    before: Sequence[Record], now: Record, draws: int, level: float
) -> tuple[float, float, float] | None:
    """Bound the share of right ones now less that before, by theorem 3."""
    records = [*before, now]
    shares = [*[-1 / len(before)] * len(before), 1.0]
    if any(len(one.draws) < draws for one in records):
        return None
    needed = math.log(2 / (1 - level)) + 1e-9
    spread = 0.1 * sum(share**2 for share in shares) / draws
    unit = min(math.sqrt(2 * needed / spread), 0.375 * draws)
    middle, losses = 0.0, [0.0, 0.0]
    for share, record in zip(shares, records, strict=True):
        total, mean = sum(record.sizes), 0.0
        for number, row in enumerate(record.rows[:draws]):
            seen, known = float(row.right) / total, float(row.right_off) / total
            guess = (mean * number + 5 * known) / (number + 5)
            guess = min(max(guess, known - 0.4), known + 0.4)
            for side, sign in enumerate((1, -1)):
                end = row.ends[0 if sign * share > 0 else 1][0]
                most = row.reach / total * end + abs(guess - known)
                bet = unit * abs(share) / draws * most
                if bet >= 1:
                    return None
                psi = -math.log1p(-bet) - bet
                losses[side] += psi * ((seen - guess) / most) ** 2
            mean += (seen - mean) / (number + 1)
        middle += share * mean
    low, high = (s * (x + needed) / unit for s, x in zip((-1, 1), losses, strict=True))
    return middle, middle + low, middle + high


def hash_of(key: str, text: str) -> int:
    return int.from_bytes(hashlib.sha256(bytes.fromhex(key) + text.encode()).digest())


def repeat_draws(
    key: str,
    lines: Mapping[int, Sequence[str]],
    rounds: Sequence[Mapping[str, Any]],
    known: Sequence[set[str]],
    draws: int,
) -> Iterator[tuple[int, str, Fraction]]:
    """Yield stratum, query and chance of each draw, by the key that is shown at last.

    *lines* has the queries of each stratum, *known* those that are known in a round.
    """
    order = {
        b: sorted(ids, key=lambda one: hash_of(key, f"query {one}") >> 193)
        for b, ids in lines.items()
    }
    taken: set[str] = set()
    for number in range(draws):
        place = max(n for n, one in enumerate(rounds) if one["start"] <= number)
        out = taken | known[place]
        left = {b: [one for one in ids if one not in out] for b, ids in order.items()}
        masses = {b: len(ids) * rounds[place]["weights"][b] for b, ids in left.items()}
        total = sum(masses.values())
        point = hash_of(key, f"draw {number}") % total
        for b in sorted(masses):
            if point < masses[b]:
                break
            point -= masses[b]
        taken.add(left[b][0])
        yield b, left[b][0], Fraction(rounds[place]["weights"][b], total)


def list_on_average(
    evidence: Mapping[str, float], spans: int, level: float
) -> set[str]:
    """Return the largest list by e-BH."""
    best: set[str] = set()
    ranked = sorted(evidence, key=lambda one: -evidence[one])
    for size in range(1, len(ranked) + 1):
        if evidence[ranked[size - 1]] >= math.log(spans / ((1 - level) * size)):
            best = set(ranked[:size])
    return best
