"""Why an audit drew what it drew, as its page and its file say it, found once more.

The draws are repeated from the key and from what was written down before each round:
weights and starts, nothing else.  How likely a prediction was thought to be wrong
follows from the labels there were by then: the model is stated here again, and its
optimum found by SciPy.
"""

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.conftest import Clock, FillOnce
from tests.web.auditing import (
    CLASSES,
    LABELS,
    SEED,
    Farm,
    draws_of,
    known_by,
    read_sql,
    rounds_of,
)
from tests.web.conftest import Shelf, Visitor
from tests.web.test_figures import words_of
from tracker.storage.database import Database


@pytest.fixture
def address(shelf: Shelf, database: Database, clock: Clock, fill_once: FillOnce) -> str:
    found: str = fill_once(Farm(shelf, database, clock).build)
    return found


def bin_of(confidence: float) -> int:
    """In half units of the log odds of being wrong."""
    return round(2 * math.log((1 - confidence) / confidence))


def strata_of(database: Database) -> dict[int, tuple[int, int]]:
    """The class that was predicted and the bin of each query."""
    rows = read_sql(database, "SELECT id, predicted, confidence FROM queries")
    return {query: (CLASSES.index(said), bin_of(sure)) for query, said, sure in rows}


def hashed(text: str) -> int:
    key = hashlib.sha256(f"audit {SEED}".encode()).digest()
    return int.from_bytes(hashlib.sha256(key + text.encode()).digest(), "big")


def test_the_draws_come_from_the_key_with_the_chances_that_are_told(
    visitor: Visitor, address: str, database: Database
) -> None:
    told = draws_of(visitor, address)
    assert len(told) >= LABELS + 6
    strata, rounds = strata_of(database), rounds_of(database)
    order = sorted(set(strata.values()))
    # Each stratum stands in the order of a hash.
    lines: dict[Any, list[int]] = {stratum: [] for stratum in order}
    for query in sorted(strata, key=lambda one: hashed(f"query iq_{one}") >> 193):
        lines[strata[query]].append(query)
    drawn: set[int] = set()
    frozen: dict[str, Any] = {}
    number = -1
    for place, row in enumerate(told):
        if number + 1 < len(rounds) and rounds[number + 1][0]["start"] == place:
            number += 1
            frozen, at = rounds[number]
            known = known_by(database, at) - drawn
        left = [
            [one for one in lines[stratum] if one not in known | drawn]
            for stratum in order
        ]
        masses = [
            len(one) * weight
            for one, weight in zip(left, frozen["weights"], strict=True)
        ]
        point, stratum = hashed(f"draw {place}") % sum(masses), 0
        while point >= masses[stratum]:
            point -= masses[stratum]
            stratum += 1
        query = left[stratum][0]
        drawn.add(query)
        chance = frozen["weights"][stratum] / sum(masses)
        assert (row["draw"], row["round"]) == (str(place), str(number))
        assert row["query"] == f"iq_{query}"
        assert float(row["chance"]) == pytest.approx(chance, rel=1e-12)
        average = chance * sum(map(len, left))
        assert float(row["times_average"]) == pytest.approx(average, rel=1e-12)
        # Half of the weight is equal for all.
        assert average > 0.49
    assert number == len(rounds) - 1 > 3


def model_of(
    database: Database, before: str
) -> tuple[Callable[[tuple[int, int]], float], int]:
    """Return how likely a stratum was wrong, by the labels that there were.

    It is the most likely logistic model: of the log odds by the confidence the slope
    is believed to be 0.8 give or take 0.35, of the classes 0 give or take 0.7.  Ten
    labels of its own count a stratum as much as the model.
    """
    strata, labels = strata_of(database), known_by(database, before)
    rows = read_sql(database, "SELECT id, predicted, label FROM queries")
    known = [(strata[q], label != said) for q, said, label in rows if q in labels]

    def odds(b: Any, stratum: tuple[int, int]) -> float:
        said, confidence = stratum
        return float(b[0] + b[1] * confidence / 2 + b[2 + said])

    def loss(b: Any) -> float:
        fit = sum(
            np.logaddexp(0, odds(b, s)) - wrong * odds(b, s) for s, wrong in known
        )
        prior = b[0] ** 2 + ((b[1] - 0.8) / 0.35) ** 2 + sum((b[2:] / 0.7) ** 2)
        return float(fit + prior / 2)

    best = minimize(loss, [0, 0.8, 0, 0]).x

    def believed(stratum: tuple[int, int]) -> float:
        own = [wrong for place, wrong in known if place == stratum]
        model = 1 / (1 + math.exp(-odds(best, stratum)))
        return (sum(own) + 10 * model) / (len(own) + 10)

    return believed, len(known)


def test_why_the_last_query_was_drawn(
    visitor: Visitor, address: str, database: Database
) -> None:
    last = [row for row in draws_of(visitor, address) if row["label"]][-1]
    page = visitor.get(address)
    card = page.html.partition('id="reason-title"')[2].partition("</section>")[0]
    said = words_of(card)
    times = float(last["times_average"])
    assert f"Query {last['key']} Chance" in said
    assert f"{round(times, 2)} times as likely as an average query" in said
    assert f"It counts {round(1 / times, 2)} of an average query" in said
    assert f"confidence was {float(last['confidence']):.3f}" in said
    model, labels = model_of(database, rounds_of(database)[-1][1])
    wrong = model(strata_of(database)[int(last["query"][3:])])
    # Nobody is so sure after so few labels.
    wrong = max(wrong, 0.1 / (labels + 10))
    found = re.search(r"([\d.]+) % of such answers are wrong", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(100 * wrong, abs=0.06)
