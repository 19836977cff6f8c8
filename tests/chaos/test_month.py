"""A user's month: four weeks of a detector and its judge, audited by themselves.

All parts run as processes, whose clock goes by weeks.  Two people label in browsers and
one by API, and in each step something is killed.  What the audits say is then worked
out again from the exports.
"""

import json
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.chaos.audited_again import (
    Record,
    certain_bounds,
    change_since,
    check_interval,
    list_on_average,
    log_wealth,
    most_evidence,
    read_exported,
    repeat_draws,
)
from tests.chaos.conftest import new_durable_url
from tests.chaos.month import (
    CLASSES,
    DROPS,
    HALF_WIDTH,
    LATE,
    QUERIES,
    SCHEDULE,
    TARGET,
    WEEKS,
    Month,
    Sent,
    first_monday,
    play_week,
)
from tests.chaos.service import Service
from tests.chaos.verdict import command
from tests.conftest import DATABASES, IS_LONG, SECRET_KEY
from tracker.storage.database import open_database

LEVEL = 0.95
# So much of the wealth a false alarm in a year needs, and no more.
ALARM = math.log(53 / (1 - LEVEL))


def read_record(month: Month, audit: Any) -> Record:
    """Return the exported record, whose draws are repeated by the key."""
    week = WEEKS - 1 - month.audits().index(audit)
    exported = command(month.service, "audits", "export", audit["id"], "--record")
    record = json.loads(exported.stdout)
    ids = {key: number for number, key in month.keys.items()}
    members = month.set_of(week)
    judges = [one.removeprefix("judge:") for one in record["uses"][1:]]
    place_of = {
        (one["predicted"], one["bin"], *one["verdicts"]): place
        for place, one in enumerate(record["strata"])
    }
    lines: dict[int, list[str]] = defaultdict(list)
    for one in members:
        lines[place_of[_stratum_of(one, judges)]].append(ids[one.key])
    labels = read_labels(month)
    before = {
        one.key
        for one in members
        if (at := labels.get(one.key)) and at[1] < audit["created_at"]
    }
    rounds, draws = record["rounds"], record["draws"]
    repeated = repeat_draws(
        audit["key"],
        lines,
        rounds,
        [{ids[key] for key in before}] * len(rounds),
        len(draws),
    )
    is_open = False
    for row, (stratum, query, chance) in zip(draws, repeated, strict=True):
        sent = month.sent[row["key"]]
        assert (row["query"], row["stratum"]) == (query, stratum)
        assert Fraction(row["stratum_weight"], row["weight_left"]) == chance
        assert (row["predicted"], row["confidence"]) == (
            sent.predicted,
            sent.confidence,
        )
        assert row["label"] in {sent.truth, None}
        is_open |= row["label"] is None
        if not is_open:
            month.labels[row["labeler"]] += 1
    found = read_exported(record)
    known = Counter(
        (place_of[_stratum_of(month.sent[key], judges)], labels[key][0])
        for key in before
    )
    assert found.known == [known] * len(rounds)
    assert found.sizes == [len(lines[place]) for place in range(len(place_of))]
    return found


def _stratum_of(sent: Sent, judges: list[str]) -> tuple[Any, ...]:
    """Return prediction, bin of the confidence and verdicts."""
    odds = (1 - sent.confidence) / sent.confidence
    said = [sent.verdicts.get(name) for name in judges]
    verdicts = [-1 if one is None else CLASSES.index(one) for one in said]
    return sent.predicted, round(2 * math.log(odds)), *verdicts


def read_labels(month: Month) -> dict[str, tuple[str, str]]:
    rows = month.ask("GET", "/detectors/door/labels?format=json")["items"]
    return {
        row["key"]: (row["label"], row["labelled_at"])
        for row in rows
        if row["is_current"]
    }


def check_week(month: Month, audit: Any, record: Record, before: list[Record]) -> str:
    """Work out again what one week's result says."""
    result = audit["result"]
    known, draws = record.known[0], record.draws
    pairs = Counter((one.predicted, one.label) for one in draws)
    for (stratum, name), number in known.items():
        pairs[record.predicted[stratum], name] += number
    clear = {pair: n for pair, n in pairs.items() if pair[1] in CLASSES}
    overall = result["overall"]
    right = sum(n for (said, truth), n in clear.items() if said == truth)
    # Draws behind an open one have a label, and are counted as labels, too.
    assert result["labels_used"] == len(draws)
    if not result["open_draws"]:
        assert (overall["correct"], overall["labelled"]) == (right, sum(clear.values()))
        assert result["unclear"] == sum(pairs.values()) - sum(clear.values())
    low, high = overall["low"], overall["high"]
    check_interval(record, (low, high), certain_bounds(record), LEVEL)
    assert result["is_reached"]
    assert (high - low) / 2 <= HALF_WIDTH
    point = math.floor(TARGET * 2**17) / 2**17
    alarm = most_evidence(record, point, -1)
    assert result["below_target"] == (alarm >= ALARM), alarm
    if not result["open_draws"]:
        evidence = log_wealth(record.rows, point, -1)
        assert result["log_evidence_below"] == pytest.approx(evidence, abs=1e-6)
    if audit["late"]:
        sure = result["for_late"]
        bounds = sure["low"], sure["high"]
        check_interval(record, bounds, certain_bounds(record), 1 - 0.9 * (1 - LEVEL))
        assert overall["labelled"] <= sure["queries"] <= audit["queries"]
        kept = sure["queries"] / (sure["queries"] + audit["late"])
        assert audit["with_late"]["low"] == pytest.approx(kept * sure["low"])
        assert audit["with_late"]["high"] == pytest.approx(
            1 - kept * (1 - sure["high"])
        )
    draws_of_each = round(3.5 / HALF_WIDTH)
    expected = before and change_since(before, record, draws_of_each, LEVEL)
    change = result["change"]
    assert (change is None) == (not expected)
    if change:
        found = change["difference"], change["low"], change["high"]
        assert found == pytest.approx(expected, abs=1e-9)
    return _say(month, audit, change)


def _say(month: Month, audit: Any, change: Any) -> str:
    result, name = audit["result"], audit["name"].rpartition(", ")[2]
    overall = result["overall"]
    week = WEEKS - 1 - month.audits().index(audit)
    members = [one for one in month.set_of(week) if one.truth != "UNCLEAR"]
    truth = sum(o.predicted == o.truth for o in members) / len(members)
    saved = month.ask("GET", f"/audits/{audit['id']}/savings")
    moved = f", change {change['low']:+.3f} to {change['high']:+.3f}" if change else ""
    return (
        f"{name}: {overall['low']:.3f} to {overall['high']:.3f} (truth {truth:.3f}) "
        f"by {result['labels_used']} labels, without judges "
        f"{saved['labels_without_judges']}, at random {saved['labels_at_random']}, "
        f"below {result['below_target']}, {audit['late']} late{moved}"
    )


@pytest.mark.parametrize("kind", DATABASES if IS_LONG else DATABASES[:1])
def test_a_month_is_audited_week_by_week_whatever_is_killed(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    chromium: Browser,
    record_figure,
    kind: str,
) -> None:
    play(new_durable_url(request, tmp_path, kind), tmp_path, chromium, record_figure)


def play(
    url: str, folder: Path, browser: Browser, record: Callable[[str], None]
) -> None:
    monday, ahead = first_monday(), folder / "ahead"
    ahead.write_text("0")
    more = {"TRACKER_TEST_AHEAD": str(ahead), "TRACKER_SECRET_KEY": SECRET_KEY}
    database = open_database(url)
    service = Service(url, folder, workers=1, mutant="follow_a_clock", **more)
    begun = time.monotonic()
    month = Month(service, database, ahead)
    # On Saturday; of the days before the first Monday nothing is audited.
    month.move_to((monday - timedelta(days=2)).astimezone(UTC))
    with service:
        door = {"name": "door", "question": "Does it pass?", "classes": CLASSES}
        month.ask("POST", "/detectors", door | {"label_sampling": "random"})
        schedule = month.ask("POST", "/detectors/door/audits", SCHEDULE)
        for week in range(WEEKS):
            play_week(month, browser, monday, week)
        audits = month.audits()[::-1]
        records: list[Record] = []
        for audit in audits:
            again = read_record(month, audit)
            record(check_week(month, audit, again, records[::-1][:4][::-1]))
            records.append(again)
        assert set(month.labels) == {"ann", "bob", "cyd"}
        check_told(month, audits)
        check_year(month, schedule, audits, monday)
        assert service.mistakes() == []
    database.close()
    record(
        f"{len(month.sent):,} queries, labels {dict(sorted(month.labels.items()))}, "
        f"kills {dict(month.kills)}, {time.monotonic() - begun:.0f} s"
    )


def check_told(month: Month, audits: list[Any]) -> None:
    """Check that each week was told once, and the drop alone as an alarm."""
    assert [one["queries"] for one in audits] == [QUERIES] * WEEKS
    assert [one["late"] for one in audits] == [0, LATE, 0, LATE]
    assert [one["result"]["below_target"] for one in audits] == [
        week == DROPS for week in range(WEEKS)
    ]
    judges = [
        sorted(one for one in audit["uses"] if one != "confidence") for audit in audits
    ]
    old, new = "judge:llm-1", "judge:llm-2"
    assert judges == [[old], [old], [old, new], [new]]
    told = Counter(
        (one["type"], one["data"]["audit"])
        for one in month.walk("/detectors/door/events")
        if one["type"] in {"audit.finished", "audit.below_target"}
    )
    expected = [("audit.finished", one["name"]) for one in audits]
    expected += [("audit.below_target", audits[DROPS]["name"])]
    assert told == Counter(expected)


def check_year(
    month: Month, schedule: Any, audits: list[Any], monday: datetime
) -> None:
    """Check what the year's list says once the year is over."""
    path = f"/audit-schedules/{schedule['id']}"
    assert month.ask("GET", path)["years"] == []
    month.ask("POST", f"{path}/stop", {})
    found = month.ask("GET", path)
    evidence = {one["id"]: one["result"]["log_evidence_below"] for one in audits}
    listed = list_on_average(evidence, 53, LEVEL)
    [year] = found["years"]
    assert (year["year"], year["spans"]) == (monday.year, WEEKS)
    assert set(year["below_target"]) == listed == {audits[DROPS]["id"]}
    assert found["below_target"] == [audits[DROPS]["id"]]
