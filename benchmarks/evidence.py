"""What the rules of evidence cost: their part of a label, an import and a fold.

The profiler counts the time in `tracker/services/evidence`, with all that it calls,
where another module calls it.  It slows small functions more than statements, so that
the true parts are smaller.  What is read and written of other queries, so that an input
has one label and a group counts once (`truths`), stands apart from the rules, which
decide row by row.

How much longer an import and its fold take where rows have inputs or groups is measured
without the profiler, by the shortest of some runs: what the database does for one more
column and its index is part of it.
"""

import argparse
import cProfile
import pstats
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from rig import (
    DETECTOR,
    START,
    add_detector,
    by,
    describe,
    describe_machine,
    fold,
    fresh_databases,
    import_all,
    opened,
    parse_options,
    random_rows,
)

from tracker.app import create_app
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.database import Database

EVIDENCE = "/tracker/services/evidence/"


def parts(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the parts of the rules, and of the rows of inputs and groups."""
    profile = cProfile.Profile()
    profile.runcall(work)
    stats: Any = pstats.Stats(profile)
    rules = rows = 0.0
    for (file, *_), (*_, callers) in stats.stats.items():
        if EVIDENCE not in file:
            continue
        inside = (times[3] for by, times in callers.items() if EVIDENCE not in by[0])
        seconds = sum(inside)
        if file.endswith("/truths.py"):
            rows += seconds
        else:
            rules += seconds
    return rules / stats.total_tt, rows / stats.total_tt


def labels(
    database: Database, folder: Path, rows: list[dict[str, object]]
) -> Callable[[], None]:
    """Return what labels the queries of *rows*, one a request."""
    with database.write() as session:
        key = create_key(session, "benchmark", "editor", by(at=START))
    settings = Settings(data_dir=folder, secret_key=secrets.token_hex())
    client = create_app(settings, database).test_client()
    path, headers = "/api/v1", {"Authorization": f"Bearer {key}"}
    import_all(database, rows)
    found = []
    address = f"{path}/detectors/{DETECTOR}/queries?limit=1000"
    while address:
        answer = client.get(address, headers=headers).json
        found += [one["id"] for one in answer["items"]]
        address = answer["next"]

    def work() -> None:
        for one in found:
            answer = client.post(
                f"{path}/queries/{one}/labels", json={"label": "YES"}, headers=headers
            )
            assert answer.status_code == 201, answer.text

    return work


def unlabelled(number: int, *more: str) -> list[dict[str, object]]:
    """Return rows of queries, each with an input or ten in each group."""
    values = {"input": "i{0}", "group": "g{1}"}
    return [
        {"predicted": "YES", "key": f"q{one}"}
        | {name: values[name].format(one, one // 10) for name in more}
        for one in range(number)
    ]


def label_all(
    make: Callable[[], str], number: int, runs: int
) -> Iterator[tuple[str, float]]:
    """Yield how much longer a label by API takes than that of a plain query."""
    kinds = {"plain": (), "with an input": ("input",), "of a group": ("group",)}
    best = dict.fromkeys(kinds, inf)
    for _, (name, more) in product(range(runs), kinds.items()):
        with opened(make()) as database, TemporaryDirectory() as folder:
            add_detector(database)
            work = labels(database, Path(folder), unlabelled(number, *more))
            start = perf_counter()
            work()
            best[name] = min(best[name], perf_counter() - start)
    for name, seconds in best.items():
        yield f"a label by API, {name}", seconds / best["plain"] - 1


def kinds_of(number: int) -> dict[str, list[dict[str, object]]]:
    """Return so many rows as they are, and with inputs or groups."""
    plain = list(random_rows(0, number))
    return {
        "import": plain,
        "import, each row with an input": [
            row | {"input": row["key"]} for row in plain
        ],
        "import, ten rows in each group": [
            row | {"group": f"g{place // 10}"} for place, row in enumerate(plain)
        ],
    }


def timed(
    make: Callable[[], str], number: int, runs: int
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield what is done, and how long an import and its fold take over a plain one."""
    kinds = kinds_of(number)
    best = dict.fromkeys(kinds, (inf, inf))
    # In turn, so that what else runs slows all alike.
    for _, (name, rows) in product(range(runs), kinds.items()):
        with opened(make()) as database:
            add_detector(database)
            import_all(database, random_rows(number, 100))
            fold(database)
            start = perf_counter()
            import_all(database, rows)
            middle = perf_counter()
            fold(database)
            took = middle - start, perf_counter() - middle
            best[name] = min(best[name][0], took[0]), min(best[name][1], took[1])
    of_plain = best["import"]
    for name, (whole, folded) in best.items():
        yield name, (whole / of_plain[0] - 1, folded / of_plain[1] - 1)


def measured(
    make: Callable[[], str], number: int, single: int
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield what is done, and the parts of it that are evidence."""
    with opened(make()) as database, TemporaryDirectory() as folder:
        add_detector(database)
        work = labels(database, Path(folder), unlabelled(single, "input"))
        yield "a label of a query, by API", parts(work)
    for name, rows in kinds_of(number).items():
        with opened(make()) as database:
            add_detector(database)
            # The first rows load code and compile statements.
            import_all(database, random_rows(number, 100))
            yield name, parts(partial(import_all, database, rows))
            yield "  its fold", parts(partial(fold, database))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parse_options(parser)
    rows, single = options.rows, options.labels
    if options.quick:
        rows, single = rows // 10, single // 10
    print(f"{rows:,} rows, {single:,} labels; {describe_machine()}")
    for kind in options.kinds:
        with fresh_databases(kind) as make:
            print(f"\n{describe(make())}\n{'':36}{'rules':>12}{'their rows':>12}")
            for name, found in measured(make, rows, single):
                print(f"{name:36}{found[0]:>12.1%}{found[1]:>12.1%}", flush=True)
            print(f"\n{'over a plain one':36}{'import':>12}{'fold':>12}")
            for name, found in timed(make, rows, options.runs):
                print(f"{name:36}{found[0]:>12.1%}{found[1]:>12.1%}", flush=True)
            for title, more in label_all(make, single, options.runs):
                print(f"{title:36}{more:>12.1%}", flush=True)


if __name__ == "__main__":
    main()
