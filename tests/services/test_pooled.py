"""Versions that are pooled: an input counts once, by one of those that answered it."""

import random
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.conftest import START, by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.services.estimates.slices import get_slices
from tracker.services.estimates.thresholds import (
    get_calibration,
    get_thresholds,
)
from tracker.services.evidence.random_queue import rank_version
from tracker.services.labelling.predictions import QueryCompletion, complete_query
from tracker.storage.base import dump_id
from tracker.storage.detectors import list_versions
from tracker.storage.queries.queries import Query


def pooled(bench: Bench, **choices: object) -> Any:
    return bench.estimate(version="*", **choices)


def counting(bench: Bench) -> set[tuple[str, str | None]]:
    """The version and input of each query that counts where versions are pooled."""
    with bench.database.read() as session:
        names = {v.id: v.name for v in list_versions(session, bench.detector.id)}
        found = session.scalars(select(Query).where(Query.is_pooled))
        return {(names[one.version_id], one.input) for one in found}


def drawn(bench: Bench, versions: list[str], name: str) -> str:
    """The version of lowest rank for an input."""
    with bench.database.read() as session:
        ids = {v.name: v.id for v in list_versions(session, bench.detector.id)}
    seed = bench.detector.queue_seed
    return min(versions, key=lambda one: rank_version(seed, ids[one], name))


@pytest.mark.parametrize("versions", [2, 5, 10])
def test_the_interval_of_versions_that_answer_alike_covers_the_accuracy(
    bench: Bench, versions: int
) -> None:
    chance, inputs, lives = 0.8, 30, 60
    draw = random.Random(7)
    rows, alone = [], []
    for life in range(lives):
        asked_at = START + timedelta(days=life)
        for number in range(inputs):
            predicted = "YES" if draw.random() < chance else "NO"
            rows += [
                {
                    "predicted": predicted,
                    "label": "YES",
                    "sampling": "random",
                    "version": f"v{version}",
                    "input": f"{life}-{number}",
                    "asked_at": asked_at,
                }
                for version in range(versions)
            ]
    bench.log_all(rows)
    covered = 0
    for life in range(lives):
        since = START + timedelta(days=life)
        span = {"since": since, "until": since + timedelta(days=1)}
        found = pooled(bench, **span)
        alone.append(bench.estimate(version="v0", **span))
        assert found.labels == inputs
        assert found.versions_left_out == inputs * (versions - 1)
        assert found.classes == alone[-1].classes
        covered += found.classes[0].low <= chance <= found.classes[0].high
    assert covered >= 0.95 * lives
    whole = pooled(bench)
    assert whole.labels == inputs * lives
    assert whole.population.kind == "pooled"


def test_an_input_counts_by_a_version_that_had_answered_it_before_its_label(
    bench: Bench,
) -> None:
    names = [f"input-{number}" for number in range(12)]
    first = [bench.log("YES", input=one, version="v1") for one in names]
    for one in names:
        bench.log("NO", input=one, version="v2")
    for query in first:
        bench.label(query, "YES", sampling="random")
    units = {(drawn(bench, ["v1", "v2"], one), one) for one in names}
    assert counting(bench) == units
    assert {version for version, _ in units} == {"v1", "v2"}
    right = sum(version == "v1" for version, _ in units)
    found = pooled(bench)
    assert (found.classes[0].correct, found.labels) == (right, 12)
    assert found.versions_left_out == 12
    # A version that comes later, with labels of its own or without any, moves nothing.
    for one in names[:6]:
        bench.log("NO", input=one, version="v3")
        bench.log("NO", "YES", sampling="random", input=one, version="v4")
    bench.log_all(
        {
            "predicted": "NO",
            "label": "YES",
            "sampling": "random",
            "input": one,
            "version": "v5",
        }
        for one in names
    )
    assert counting(bench) == units
    assert pooled(bench).classes == found.classes
    # Nor does a correction, which counts for the version that was drawn.
    bench.label(first[0], "NO")
    assert counting(bench) == units
    assert pooled(bench).labels == 12


def test_queries_without_input_and_repeats_count_as_they_are(bench: Bench) -> None:
    for version in ("v1", "v2"):
        bench.log("YES", "YES", version=version)
    bench.log("YES", "YES", version="v1", input="same")
    bench.log("NO", version="v1", input="same")
    found = pooled(bench)
    assert (found.labels, found.repeats_left_out, found.versions_left_out) == (3, 1, 0)


def test_an_input_that_is_added_later_counts_once_from_then_on(bench: Bench) -> None:
    bench.log("YES", "YES", version="v1", input="one")
    late = bench.log("NO", "YES", version="v2")
    both = [bench.log("YES", "YES", version=name) for name in ("v1", "v2")]
    assert pooled(bench).labels == 4
    for query, name in ((late, "one"), (both[0], "two"), (both[1], "two")):
        with bench.database.write() as session:
            new = QueryCompletion.model_validate({"input": name})
            complete_query(session, dump_id("iq", query.id), new, by(at=bench.clock()))
    found = pooled(bench)
    assert (found.labels, found.classes[0].correct) == (2, 2)


def test_thresholds_and_calibration_count_an_input_once(bench: Bench) -> None:
    bench.log_all(
        {
            "predicted": "YES",
            "label": "YES",
            "sampling": "random",
            "confidence": 0.9,
            "input": str(number),
            "version": version,
        }
        for number in range(20)
        for version in ("v1", "v2", "v3")
    )
    with bench.database.read() as session:
        choices: Any = {"computed_at": bench.clock(), "version": "*"}
        curve = get_thresholds(session, bench.attached(session), **choices)
        bins = get_calibration(session, bench.attached(session), **choices)
    assert (curve.labels, bins.labels, curve.queries) == (20, 20, 60)
    assert (curve.population, curve.points[0].labelled) == ("pooled", 20)


def test_what_was_known_once_and_the_last_labels_count_an_input_once(
    bench: Bench,
) -> None:
    for version in ("v1", "v2"):
        for number in range(3):
            bench.log("YES", "YES", version=version, input=str(number))
    assert pooled(bench, as_known_at=bench.clock()).labels == 3
    assert pooled(bench, window="5").labels == 3
    assert pooled(bench, where=["predicted:YES"]).labels == 3


def test_slices_by_version_count_an_input_once_as_a_whole(bench: Bench) -> None:
    for version in ("v1", "v2"):
        bench.log_all(
            {
                "predicted": "YES",
                "label": "YES",
                "sampling": "random",
                "input": str(number),
                "version": version,
            }
            for number in range(5)
        )
    with bench.database.read() as session:
        detector = bench.attached(session)
        found = get_slices(session, detector, by="version", computed_at=bench.clock())
    assert [one.labels for one in found.items] == [5, 5]
    assert (found.labels, found.overall.correct) == (5, 5)


def test_an_import_of_answers_counts_each_input_once(bench: Bench) -> None:
    """By column as query by query, whichever input stands twice in the piece."""
    with bench.database.write() as session:
        bench.attached(session).label_of = "answer"
    some = [("a", "v1"), ("b", "v1"), ("b", "v2")]
    rows = [
        {"predicted": "YES", "label": "YES", "version": version, "input": name}
        for name, version in some
    ]
    with bench.database.write() as session:
        detector, actor = bench.attached(session), by(at=bench.clock())
        import_rows(session, detector, rows, actor, digest="1" * 64)
    for name, version in some:
        bench.log("YES", "YES", version=version, input=f"{name} alone")
    counted = {("v1", "a"), ("v1", "b")}
    counted |= {(version, f"{name} alone") for version, name in counted}
    assert counting(bench) == counted
