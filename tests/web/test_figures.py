"""Every figure of a detector's pages, counted and computed again from what is stored.

The counts come from the rows by plain SQL, class intervals from SciPy's beta
distribution, and the others from `tracker.stats`; see `census`.
"""

import html
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from scipy.stats import binom

from tests.conftest import WHOLE, Clock
from tests.web.census import (
    Count,
    Stored,
    balanced,
    by_class,
    clopper_pearson,
    confusion,
    count,
    full,
    mean,
    percent,
    published,
    read_rows,
    span,
    two_figures,
)
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import Page, facts
from tracker import stats
from tracker.services.estimates.projections import QUIET
from tracker.stats import (
    balanced_coverage,
    calibration_error,
    f1_intervals,
    labels_to_narrow,
    macro_f1_interval,
    macro_precision_interval,
)
from tracker.storage.database import Database

CLASSES = ["YES", "NO"]
TARGET = 0.8
CONFIDENCES = (0.55, 0.65, 0.75, 0.95)
CAMERAS = ("north", "south", "east")
# Predicted, label and what else is said of so many queries.
GIVEN: list[tuple[int, str, str | None, dict[str, Any]]] = [
    (44, "YES", "YES", {}),
    (5, "NO", "YES", {}),
    (61, "NO", "NO", {}),
    (7, "YES", "NO", {}),
    (3, "YES", "UNCLEAR", {}),
    (4, "NO", "YES", {"sampling": "targeted"}),
    (2, "YES", "YES", {"sampling": "unstated"}),
    (12, "YES", None, {}),
    # The second with each input is a repeat.
    (2, "NO", "NO", {"input": "a"}),
    (2, "NO", "NO", {"input": "b"}),
]


def given_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for times, predicted, label, more in GIVEN:
        for _ in range(times):
            number = len(rows)
            row = {
                "key": f"k{number}",
                "version": "v1",
                "predicted": predicted,
                "confidence": CONFIDENCES[number % 4],
                "sampling": "random",
                "metadata": {"camera": CAMERAS[number % 3]},
            }
            rows.append(row | ({"label": label} if label else {}) | more)
    return rows


# How frequent the classes were when the labels first came, each with one more; one of
# YES was corrected since.
SHARES = (52, 71)


@pytest.fixture
def path(shelf: Shelf, recompute: Callable[[], None], clock: Clock) -> str:
    """The page of a detector with labels of every kind, one of them corrected."""
    detector_id = shelf.add_detector(target=TARGET, slices=["camera"])
    shelf.add_queries(detector_id, given_rows())
    shelf.add_queries(detector_id, [{"key": "k0", "label": "NO"}])
    recompute()
    # A snapshot of where labels ended waits until no more come.
    clock.at += QUIET
    recompute()
    return f"/detectors/{detector_id}"


@pytest.fixture
def rows(path: str, database: Database) -> list[Stored]:
    return read_rows(database)


@pytest.fixture
def counts(rows: list[Stored]) -> dict[str, Count]:
    found = by_class(rows, CLASSES)
    # Counted by hand: k0 was called YES and is now NO.
    assert found == {"YES": Count(45, 50), "NO": Count(63, 71)}
    return found


def words_of(part: str) -> str:
    """Return what an eye reads in a part of a page."""
    words = html.unescape(re.sub("<[^>]+>", " ", part))
    return " ".join(words.replace("\u202f", " ").split())


def figures(page: Page) -> list[str]:
    """What stands beside each bar, without what is said to screen readers."""
    found = []
    for part in page.html.split('<div class="reading-figures">')[1:]:
        words = re.sub(r'<span class="visually-hidden">.*?</span>', "", part)
        found.append(words_of(words.partition("</div>")[0]))
    return found


def of_class(found: Count) -> tuple[float, float]:
    """The interval that decides, of one class."""
    ends = stats.class_intervals("anytime", found.correct, found.labelled, WHOLE)
    return float(ends.low), float(ends.high)


def class_figures(found: Count) -> str:
    ends = span(*of_class(found))
    return f"{percent(found.accuracy)} % {ends} % {found.words}"


def cells(page: Page, region: str) -> list[list[str]]:
    """The rows of the table of that name."""
    table = page.html.partition(f'aria-label="{region}"')[2].partition("</table>")[0]
    found = []
    for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table.partition("<tbody")[2], re.S):
        parts = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)
        found.append([words_of(part) for part in parts])
    assert found, f"there is no table {region}"
    return found


def places(page: Page, of: str = "plot-bar") -> list[tuple[float, float]]:
    """From where to where each bar is drawn, in percent of the axis."""
    bars = [b for b in page.find("rect") if b.attributes.get("class") == of]
    drawn = [b.attributes for b in bars if b.attributes["x"].endswith("%")]
    ends = [(float(b["x"][:-1]), float(b["width"][:-1])) for b in drawn]
    return [(x, x + width) for x, width in ends]


def on_axis(ends: tuple[float, float], begin: float = 0.5) -> tuple[float, float]:
    low, high = (100 * (end - begin) / (1 - begin) for end in ends)
    return pytest.approx((low, high), abs=0.011)


def more_to_decide(counts: dict[str, Count]) -> int:
    found = stats.balanced_labels_to_decide(
        [one.correct for one in counts.values()],
        [one.labelled for one in counts.values()],
        TARGET,
        WHOLE,
        shares=SHARES,
    )
    assert found is not None
    return sum(found)


def narrow_class(found: Count, width: float) -> tuple[int, ...]:
    """How many more labels of one class bring the interval that decides to width."""

    def interval(k: Any, n: Any, level: float) -> stats.Interval:
        return stats.anytime(k[0], n[0], level)

    more = labels_to_narrow(interval, [found.correct], [found.labelled], width, WHOLE)
    assert more is not None
    return more


def needed_of(counts: dict[str, Count], more: int) -> tuple[str, str]:
    """So many labels of the class that is needed most, and what they cost."""
    labels = sum(one.labelled for one in counts.values())
    yes = counts["YES"].labelled
    of_class = f"{two_figures(-(-more * yes // labels)):,} more labels of YES"
    return f"About {of_class}", (
        f"At {100 * yes / labels:.1f} % of all labels, that takes about "
        f"{two_figures(more):,} queries drawn at random."
    )


def test_the_page_of_a_detector(
    visitor: Visitor, path: str, rows: list[Stored], counts: dict[str, Count]
) -> None:
    page = visitor.get(path)
    deciding = balanced("anytime", counts, shares=SHARES)
    assert page.by_id("answer-title").text == (
        f"It is right {span(*deciding)} % of the time, YES and NO counting the same. "
        f"Target {percent(TARGET)[:-2]} %: not decided yet."
    )
    assert f"Best estimate {percent(mean(counts))} % from {count(rows).labelled}" in (
        page.text
    )
    for tone, (name, one) in enumerate(counts.items(), start=1):
        (row,) = page.find("tr", class_=f"tone-{tone}")
        said = f"{name} {percent(one.accuracy)} % {one.words}"
        assert " ".join(row.text.split()).startswith(said)
    begins = [_begin(min(deciding[0], TARGET))]
    begins += [_begin(min(of_class(one)[0] for one in counts.values()))] * 2
    ends = [deciding, *(of_class(one) for one in counts.values())]
    drawn = places(page, "band")[:3]
    assert drawn == [on_axis(*each) for each in zip(ends, begins, strict=True)]
    for bounds in (balanced("joint", counts), published(counts)):
        assert f"{span(*bounds)} %" in page.by_id("once").text
    assert "↔ Not decided yet" in page.text
    assert deciding[0] <= TARGET <= deciding[1]
    more = more_to_decide(counts)
    asked, price = needed_of(counts, more)
    assert f"{asked} decide it, if nothing changes." in page.text
    assert price in page.text
    waiting = sum(row.label is None for row in rows)
    is_enough = two_figures(more) <= waiting
    assert (f"{waiting} queries wait for a label now" in page.text) == (not is_enough)


def _begin(low: float) -> float:
    """Return the multiple of 10 % below what is drawn."""
    return (math.ceil(10 * low) - 1) / 10


@pytest.mark.parametrize(("side", "word"), [(0, "met"), (1, "missed")])
def test_an_interval_beside_its_target_is_not_written_as_if_it_reached_it(
    visitor: Visitor, shelf: Shelf, side: int, word: str
) -> None:
    counts = {"YES": Count(44, 50), "NO": Count(63, 71)}
    ends = balanced("anytime", counts)
    # Rounded to three places, the end and the target are written alike.
    target = math.floor(10_000 * ends[0]) / 10_000
    if side:
        target = math.ceil(10_000 * ends[1]) / 10_000
    detector_id = shelf.add_detector(target=target)
    rows = []
    for (name, one), other in zip(counts.items(), reversed(counts), strict=True):
        right, wrong = one.correct, one.labelled - one.correct
        rows += [{"predicted": name, "label": name}] * right
        rows += [{"predicted": other, "label": name}] * wrong
    shelf.add_queries(detector_id, rows)
    page = visitor.get(f"/detectors/{detector_id}")
    title = page.by_id("answer-title").text
    found = re.search(r"right ([\d.]+)\N{EN DASH}([\d.]+) % of", title)
    assert title.endswith(f": {word}.")
    assert found is not None
    shown = float(found[side + 1]) / 100
    assert (shown > target, shown < target) == (side == 0, side == 1)
    # It is as wide as the true one, or wider.
    assert (shown <= ends[0]) if side == 0 else (shown >= ends[1])
    listed = visitor.get("/").text
    assert f"{found[1]}\N{EN DASH}{found[2]} %" in listed


def test_the_facts_below_the_bars(
    visitor: Visitor, path: str, rows: list[Stored]
) -> None:
    page = visitor.get(path)
    said = facts(page)
    all_ = count(rows)
    unscored = [row for row in rows if row.label and not row.is_scored]
    assert int(said["Labels"]) == all_.labelled == 121
    assert int(said["Queries logged"]) == len(rows) == 142
    kinds = {
        "Unclear, not scored": [r for r in unscored if r.label == "UNCLEAR"],
        "Targeted, left out": [r for r in unscored if r.sampling == "targeted"],
        "Repeated inputs, left out": [r for r in unscored if r.is_repeat],
    }
    for name, left_out in kinds.items():
        assert int(said[name]) == len(left_out) > 0
    assert sum(map(len, kinds.values())) == len(unscored)
    assert said["Corrected"] == "1"
    assert f"All {all_.labelled} labels were drawn at random" in page.text


def test_the_bounds_in_full(
    visitor: Visitor, path: str, rows: list[Stored], counts: dict[str, Count]
) -> None:
    page = visitor.get(f"{path}?method=exact")
    bounds = {"Balanced": (count(rows), published(counts))}
    ends = {
        name: stats.class_intervals("exact", [one.correct], [one.labelled], 0.95)
        for name, one in counts.items()
    }
    bounds |= {
        name: (counts[name], (float(one.low[0]), float(one.high[0])))
        for name, one in ends.items()
    }
    assert cells(page, "The bounds in full") == [
        [name, str(one.correct), str(one.labelled), *full(*each)]
        for name, (one, each) in bounds.items()
    ]


def test_the_mistakes_are_counted_by_pair(
    visitor: Visitor, path: str, rows: list[Stored]
) -> None:
    page = visitor.get(f"{path}/mistakes")
    all_, seen = count(rows), confusion(rows)
    assert sum(seen.values()) == all_.labelled
    assert f"{all_.labelled - all_.correct} mistakes" in page.text
    for label, said in ((a, b) for a in CLASSES for b in CLASSES if a != b):
        assert f"{label} taken for {said}{seen[label, said]}" in page.text


def test_the_precision_beside_the_accuracy(
    visitor: Visitor, path: str, rows: list[Stored]
) -> None:
    page, seen = visitor.get(f"{path}?by=precision"), confusion(rows)
    found = [
        Count(seen[name, name], sum(seen[label, name] for label in CLASSES))
        for name in CLASSES
    ]
    for tone, (name, one) in enumerate(zip(CLASSES, found, strict=True), start=1):
        (row,) = page.find("tr", class_=f"tone-{tone}")
        wrong = one.labelled - one.correct
        said = f"{name} {percent(one.accuracy)} % {one.words} {wrong} mistakes"
        assert row.text == said
        spoken = span(*of_class(one)).replace("\N{EN DASH}", " to ")
        assert f'aria-label="{spoken} percent"' in page.html
    begin = _begin(min(of_class(one)[0] for one in found))
    # The first is the large one of the balanced accuracy.
    drawn = places(page, "band")[1:3]
    assert drawn == [on_axis(of_class(one), begin) for one in found]


def test_precision_overall_accuracy_and_f1(
    visitor: Visitor, path: str, rows: list[Stored], counts: dict[str, Count]
) -> None:
    def newest(measure: str) -> list[str]:
        page = visitor.get(f"{path}/changes?measure={measure}&method=exact")
        return cells(page, "Table of snapshots")[0][1:]

    def said(value: float, ends: tuple[float, float], words: str) -> str:
        return f"{percent(value)} % {span(*ends)} {words}"

    all_, seen = count(rows), confusion(rows)
    overall = said(all_.accuracy, clopper_pearson(all_), all_.words)
    assert newest("overall") == [str(all_.labelled), overall]
    k = [counts[name].correct for name in CLASSES]
    n = [counts[name].labelled for name in CLASSES]
    m = [sum(seen[label, name] for label in CLASSES) for name in CLASSES]
    precisions = [Count(*each) for each in zip(k, m, strict=True)]
    macro = macro_precision_interval(k, m, 0.95)
    value = math.fsum(one.accuracy for one in precisions) / len(CLASSES)
    assert newest("precision") == [
        str(all_.labelled),
        said(value, (float(macro.low), float(macro.high)), all_.words),
        *(said(one.accuracy, clopper_pearson(one), one.words) for one in precisions),
    ]
    f1 = f1_intervals(k, n, m, 0.95)
    scores = [2 * k / (n + m) for k, n, m in zip(k, n, m, strict=True)]
    either = [Count(k, n + m - k) for k, n, m in zip(k, n, m, strict=True)]
    ends = [(float(f1.low[place]), float(f1.high[place])) for place in range(len(k))]
    macro = macro_f1_interval(k, n, m, 0.95)
    together = Count(sum(k), sum(one.labelled for one in either))
    assert newest("f1") == [
        str(all_.labelled),
        said(sum(scores) / 2, (float(macro.low), float(macro.high)), together.words),
        *(
            said(score, each, one.words)
            for score, each, one in zip(scores, ends, either, strict=True)
        ),
    ]


def test_the_list_and_the_panel_beside_a_query(
    visitor: Visitor, path: str, rows: list[Stored], counts: dict[str, Count]
) -> None:
    deciding = balanced("anytime", counts, shares=SHARES)
    asked, price = needed_of(counts, more_to_decide(counts))
    basis = f"{percent(mean(counts))} % {span(*deciding)} % mean of 2 classes"
    basis += f" {count(rows).words} predictions"
    (row,) = visitor.get("/").find("tr", id="det_1")
    assert f"{span(*deciding)} %" in row.text
    of_class = asked.removeprefix("About ").replace("more labels ", "")
    assert row.text.endswith(f"{of_class} decide it on door")
    page = visitor.get(f"{path}/label")
    panel = page.by_id("progress").text
    assert asked in panel
    assert price in panel
    assert figures(page) == [f"{basis} correct"]
    # Of what was labelled a repeat alone counts for nothing.
    labelled = sum(row.label is not None and not row.is_repeat for row in rows)
    assert page.by_id("label-count").text == str(labelled) == "128"
    assert f"{sum(row.label is None for row in rows)} left in the random" in panel


def test_the_history(
    visitor: Visitor, path: str, rows: list[Stored], counts: dict[str, Count]
) -> None:
    page = visitor.get(f"{path}/changes?by=labels")
    all_ = count(rows)
    deciding = span(*balanced("anytime", counts, shares=SHARES))
    said = f"{percent(mean(counts))} %"
    newest, *_ = cells(page, "Table of snapshots")
    assert newest[1:] == [
        str(all_.labelled),
        f"{said} {deciding} {all_.words}",
        *(
            f"{percent(one.accuracy)} % {span(*of_class(one))} {one.words}"
            for one in counts.values()
        ),
    ]
    (now,) = cells(page, "All labels and the last ones")
    assert now[1:5] == [
        str(all_.labelled),
        "1",
        f"{said} [{deciding}] {all_.words}",
        # All of them lie within the last 500.
        f"{said} [{span(*published(counts))}] {all_.words}",
    ]
    said = f"The mean of the classes by all labels is {deciding} %, the target 80 %"
    assert said in page.text
    late = visitor.get(f"{path}/changes?by=labels&late=yes")
    (day,) = cells(late, "Queries of each day and their labels")
    # An input counts once.
    once = [row for row in rows if not row.is_repeat]
    labelled = sum(row.label is not None for row in once)
    share = f"{percent(labelled / len(once))} %"
    assert day[1:4] == [str(len(once)), str(labelled), share]


@pytest.mark.thorough
def test_the_methods(visitor: Visitor, path: str, counts: dict[str, Count]) -> None:
    page = visitor.get(f"{path}/methods")
    bounds = {name: balanced(name, counts, shares=SHARES) for name in stats.METHODS}
    widths = {name: high - low for name, (low, high) in bounds.items()}
    shown = {row[0].split()[0]: row for row in cells(page, "Methods") if len(row) > 1}
    assert set(shown) == set(stats.METHODS)
    accuracies = tuple(one.accuracy for one in counts.values())
    labelled = tuple(one.labelled for one in counts.values())
    for name, (_, _, interval, width, holds, _) in shown.items():
        assert interval == f"{span(*bounds[name])} %"
        if name != "exact":
            change = round(100 * (widths[name] / widths["exact"] - 1))
            word = "wider" if change > 0 else "narrower"
            assert width == f"{abs(change)} % {word}"
        if "\N{PLUS-MINUS SIGN}" in holds or "at least" in holds:
            continue
        method = stats.get_method(name).balanced_interval
        summed = float(balanced_coverage(method, labelled, accuracies, 0.95).holds)
        assert f"{int(1000 * summed) / 10:g} %" in holds
        assert ("too low" in holds) == (summed < 0.95)
    joint = widths["joint"]
    k = [one.correct for one in counts.values()]
    more = stats.labels_to_reach_balanced_width(k, labelled, joint, 0.95)
    assert more is not None
    assert f"would need about {two_figures(sum(more)):,} more labels" in page.text


@pytest.mark.thorough
def test_why_exact(visitor: Visitor, path: str, counts: dict[str, Count]) -> None:
    page = visitor.get(f"{path}/why?supposed=85&scope=NO")
    one = counts["NO"]
    ends = span(*clopper_pearson(one))
    assert f"{percent(one.accuracy)} % [{ends}] {one.words}" in page.by_id("tail").text
    chance = binom.sf(one.correct - 1, one.labelled, 0.85)
    said = f"85 % , {one.correct} or more of {one.labelled} would be correct with a"
    assert f"{said} chance of {100 * chance:.3g} %" in page.by_id("tail").text


@pytest.mark.thorough
def test_the_plan(visitor: Visitor, path: str, counts: dict[str, Count]) -> None:
    page = visitor.get(f"{path}/labelling?within=3")
    k = [one.correct for one in counts.values()]
    n = [one.labelled for one in counts.values()]

    narrow = partial(stats.balanced_interval, "anytime", shares=SHARES)

    def drawn(points: float) -> tuple[Sequence[int], int]:
        """How many labels of each class, and how many queries drawn bring them."""
        more = labels_to_narrow(narrow, k, n, 2 * points / 100, WHOLE)
        assert more is not None
        draws = max(wanted * sum(n) / has for wanted, has in zip(more, n, strict=True))
        return more, -int(-draws // 1)

    text = page.by_id("more").text
    more = more_to_decide(counts)
    assert f"target of 80 % is met about {two_figures(more):,}" in text
    needed, _ = needed_of(counts, more)
    assert needed.removeprefix("About ").replace("more labels ", "") in text
    for points, noun in ((2, "points"), (1, "point")):
        about = f"about {two_figures(drawn(points)[1]):,}"
        assert f"within \N{PLUS-MINUS SIGN} {points} {noun} {about}" in text
    wanted, draws = drawn(3)
    assert f"About {two_figures(sum(wanted)):,} more labels would tell" in page.text
    assert f"takes about {two_figures(draws):,} queries drawn" in page.text
    table = cells(page, "Labels for each class")
    for (name, labelled, _, alone), one in zip(table, counts.values(), strict=True):
        (width,) = narrow_class(one, 0.06)
        about = f"{two_figures(width):,}"
        assert (int(labelled), alone) == (one.labelled, about), name
    each = [row[2].replace("none", "0").replace(",", "") for row in table]
    assert list(map(int, each)) == [two_figures(one) for one in wanted]


def mean_of(rows: list[Stored], *, intervals: int) -> tuple[float, str]:
    """The mean accuracy of the classes, and its ends of so many intervals at once."""
    found = by_class(rows, CLASSES).values()
    level = 1 - (1 - 0.95) / intervals
    k, n = ([getattr(one, name) for one in found] for name in ("correct", "labelled"))
    low, high = stats.anytime(k, n, level)
    share = sum(one.accuracy for one in found) / len(CLASSES)
    return share, span(float(low.mean()), float(high.mean()))


def test_the_slices(visitor: Visitor, path: str, rows: list[Stored]) -> None:
    page = visitor.get(f"{path}/slices")
    listed = page.html.partition("<tbody>")[2].partition("</tbody>")[0]
    lines = listed.split("<tr")[1:]
    assert len(lines) == len(CAMERAS)
    for line in lines:
        text = words_of(line.partition(">")[2])
        camera = text.split()[0]
        part = [row for row in rows if row.metadata["camera"] == camera]
        one = count(part)
        share, ends = mean_of(part, intervals=len(CAMERAS) * len(CLASSES))
        assert f"{percent(len(part) / len(rows))} % " in text
        assert f"{percent(share)} % {ends} % {one.labelled} " in text
        assert f"{one.labelled - one.correct} of {camera}" in text
        picked = words_of(visitor.get(f"{path}/slices?pick={camera}").html)
        for name, found in by_class(part, CLASSES).items():
            assert f"{name} {found.words}" in picked
    all_ = count(rows)
    assert f"{all_.labelled} labels of v1, {len(rows)} queries" in page.text
    # One by itself; it takes no part in the comparison.
    share, ends = mean_of(rows, intervals=len(CLASSES))
    together = f"together, {percent(share)} % ({ends} %, {all_.words})"
    assert together in page.text


@pytest.mark.thorough
def test_thresholds_and_calibration(
    visitor: Visitor, path: str, rows: list[Stored]
) -> None:
    page = visitor.get(f"{path}/thresholds")
    error = 0.05 / len(CONFIDENCES)

    def accuracy(found: Count) -> str:
        ends = span(*clopper_pearson(found, error))
        return f"{percent(found.accuracy)} % [{ends}] {found.words}"

    known = [(row, row.confidence) for row in rows if row.confidence is not None]
    expected, bins, parts = [], [], []
    for threshold in CONFIDENCES:
        above = [row for row, confidence in known if confidence >= threshold]
        share = f"{percent(len(above) / len(rows))} %"
        head = [f"{threshold:.3f}", str(len(above)), share]
        expected.append([*head, accuracy(count(above)), "Mistakes"])
        within = [row for row, confidence in known if confidence == threshold]
        parts.append((threshold, count(within), len(within) / len(rows)))
        start = int(10 * threshold) / 10
        name = f"{start:.1f}\N{EN DASH}{start + 0.1:.1f}"
        head = [name, str(len(within)), f"{threshold:.3f}"]
        bins.append([*head, accuracy(count(within)), "Queries"])
    assert cells(page, "Accuracy by threshold") == expected
    assert cells(page, "Accuracy by confidence") == bins
    ends = [clopper_pearson(one, error) for _, one, _ in parts]
    found = calibration_error(
        stats.Interval(*(list(end) for end in zip(*ends, strict=True))),
        [one.correct for _, one, _ in parts],
        [one.labelled for _, one, _ in parts],
        [threshold for threshold, _, _ in parts],
        [share for _, _, share in parts],
    )
    estimate = sum(w * abs(one.accuracy - said) for said, one, w in parts)
    low, high = math.floor(1000 * found.low) / 1000, math.ceil(1000 * found.high) / 1000
    assert f"bins is {low:.3f}\N{EN DASH}{high:.3f}" in page.text
    assert f"(estimate {estimate:.3f})" in page.text
